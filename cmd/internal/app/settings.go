package app

import (
	"cmp"
	"reflect"
	"time"

	"github.com/holdfast-io/holdfast/lock/policy"
)

// Setting is a key of a policy, with its value as a configuration file has it.
type Setting struct {
	Key   string
	Value any // a string or a bool
}

// Settings returns the settings of a policy besides its name and its match. schedule is for a policy
// without one.
func Settings(p policy.Rule, schedule string) (all []Setting) {
	p.Schedule = cmp.Or(p.Schedule, schedule)
	for _, f := range reflect.VisibleFields(reflect.TypeOf(p)) {
		key, value := f.Tag.Get("key"), reflect.ValueOf(p).FieldByIndex(f.Index).Interface()
		if key == "" || key == "name" || key == "match" {
			continue
		}
		if d, ok := value.(time.Duration); ok {
			if value = d.String(); d <= 0 {
				value = "none"
			}
		}
		all = append(all, Setting{key, value})
	}
	return all
}
