package servercheck

import (
	"strings"
	"testing"
)

func TestStampsMustRise(t *testing.T) {
	for _, test := range []struct {
		before, after Stamp
		says          string
	}{
		{Stamp{1, 1000}, Stamp{2, 1100}, ""},
		{Stamp{2, 1000}, Stamp{2, 1100}, "numbers must rise"},
		{Stamp{3, 1000}, Stamp{2, 1100}, "numbers must rise"},
		{Stamp{1, 1000}, Stamp{2, 1000}, "times must rise"},
		{Stamp{1, 1000}, Stamp{2, 900}, "times must rise"},
	} {
		err := rises(test.before, test.after)
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v, %+v: %v, want %q", test.before, test.after, err, test.says)
		}
	}
}
