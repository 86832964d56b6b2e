package app

import (
	"reflect"
	"testing"

	"github.com/holdfast-io/holdfast/lock/config"
)

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
