package zkserver

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// patience is the limit of a wait on a busy machine.
const patience = time.Minute

func TestStopTellsOfAServerThatDied(t *testing.T) {
	NeedReal(t)
	s, err := Start(t.Context(), Options{})
	iferr.Fatal(t, err)
	iferr.Fatal(t, syscall.Kill(s.Pid(), syscall.SIGKILL))
	<-s.proc.exited
	if err := s.Stop(); err == nil || !strings.Contains(err.Error(), "had died by itself: signal: killed") {
		t.Errorf("Stop: %v", err)
	}
}
