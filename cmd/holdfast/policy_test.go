package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/lock"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/policy"
)

// TestPolicyShowsEveryKey: a change of any key of a policy changes the text and the JSON document that
// policy test prints.
func TestPolicyShowsEveryKey(t *testing.T) {
	show := func(p policy.Rule) (table, document string) {
		cfg := config.Default()
		var err error
		if cfg.Policies, err = policy.NewSet(p); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		tried := []trial{try(cfg, "x")}
		if err := printTrials(&out, tried, false); err != nil {
			t.Fatal(err)
		}
		doc, err := json.Marshal(tried)
		if err != nil {
			t.Fatal(err)
		}
		return out.String(), string(doc)
	}
	before := policy.Rule{Match: policy.MustPattern("x"), Policy: lock.Policy{Name: "a"}}
	table, document := show(before)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[policy.Rule]()) {
		p := before
		switch v := reflect.ValueOf(&p).Elem().FieldByIndex(f.Index); {
		case f.Anonymous:
			continue
		case f.Name == "LocalWindow":
			p.LocalWindow = time.Second
		case v.Kind() == reflect.Int64:
			v.SetInt(int64(45 * time.Second))
		case v.Kind() == reflect.Bool:
			v.SetBool(true)
		case v.Kind() == reflect.String:
			v.SetString("@hourly")
		default:
			p.Match = policy.MustPattern("x*")
		}
		if newTable, newDocument := show(p); newTable == table || newDocument == document {
			t.Errorf("%s is not shown:\n%s%s", f.Name, newTable, newDocument)
		}
	}
}
