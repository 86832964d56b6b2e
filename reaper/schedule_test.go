package reaper

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/lock/policy"
	"github.com/robfig/cron/v3"
	"github.com/rs/zerolog"
)

func TestAPanicDoesNotEndASchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := newCron(zerolog.New(zerolog.SyncWriter(&log)))
		runs := 0
		c.Schedule(cron.Every(time.Second), cron.FuncJob(func() {
			runs++
			panic("the sweep is broken")
		}))
		c.Start()
		time.Sleep(5500 * time.Millisecond)
		<-c.Stop().Done()
		synctest.Wait()
		if runs != 5 {
			t.Errorf("%d runs, want 5", runs)
		}
		if n := strings.Count(log.String(), "the sweep is broken"); n != 5 {
			t.Errorf("%d panics logged, want 5:\n%s", n, log.String())
		}
	})
}

func TestStarts(t *testing.T) {
	for _, tt := range []struct{ patterns, want string }{
		{"**", ""},
		{"orders/*", "orders"},
		{"orders/* invoices/**", "invoices orders"},
		{"orders/** orders/eu/*", "orders"},
		{"orders/a orders-b/c", "orders-b/c orders/a"},
		{"orders/* **", ""},
		{"*/x orders/y", ""},
	} {
		var policies []policy.Policy
		for text := range strings.FieldsSeq(tt.patterns) {
			p, err := policy.ParsePattern(text)
			if err != nil {
				t.Fatal(err)
			}
			policies = append(policies, policy.Policy{Match: p})
		}
		want := strings.Fields(tt.want)
		if tt.want == "" {
			want = []string{""}
		}
		if got := starts(policies); !slices.Equal(got, want) {
			t.Errorf("starts(%s) = %q, want %q", tt.patterns, got, want)
		}
	}
}

// TestConfigFileHasTheDefaults: what config.yaml says of the reaper changes nothing.
func TestConfigFileHasTheDefaults(t *testing.T) {
	c, err := policy.Load("../config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{}.withDefaults()
	if want := (policy.Reaper{Schedule: o.Schedule, Concurrency: o.Concurrency, Batch: o.Batch, Lock: o.Lock}); c.Reaper != want {
		t.Errorf("config.yaml has %+v, and the defaults are %+v", c.Reaper, want)
	}
	if err := (Options{}).Validate(); err != nil {
		t.Error(err)
	}
}
