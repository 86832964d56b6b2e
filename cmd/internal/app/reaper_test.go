package app

import (
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/policy"
)

// TestSettings: each field of a policy besides its name and match is one setting.
func TestSettings(t *testing.T) {
	before := Settings(policy.Rule{}, "@daily")
	for _, f := range reflect.VisibleFields(reflect.TypeFor[policy.Rule]()) {
		var p policy.Rule
		switch v := reflect.ValueOf(&p).Elem().FieldByIndex(f.Index); {
		case f.Anonymous || f.Name == "Name" || f.Name == "Match":
			continue
		case v.Kind() == reflect.Int64:
			v.SetInt(int64(time.Second))
		case v.Kind() == reflect.Bool:
			v.SetBool(true)
		default:
			v.SetString("@hourly")
		}
		changed := 0
		for i, s := range Settings(p, "@daily") {
			if s != before[i] {
				changed++
			}
		}
		if changed != 1 {
			t.Errorf("a change of %s changes %d settings, want 1", f.Name, changed)
		}
	}
}

// TestReaperOptionsAreWhole: every reaper setting of the configuration is in the options.
func TestReaperOptionsAreWhole(t *testing.T) {
	cfg := config.Default()
	cfg.Reaper = config.Reaper{Schedule: "@hourly", Concurrency: 3, Batch: 4, MaxDeletesPerSecond: 5, Lock: "x"}
	got, want := reflect.ValueOf(ReaperOptions(cfg)), reflect.ValueOf(cfg.Reaper)
	for i := range want.NumField() {
		name := want.Type().Field(i).Name
		if want.Field(i).IsZero() || !got.FieldByName(name).Equal(want.Field(i)) {
			t.Errorf("%s is %v, want %v", name, got.FieldByName(name), want.Field(i))
		}
	}
}
