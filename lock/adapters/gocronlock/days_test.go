package gocronlock_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata" // for machines without zones

	"github.com/go-co-op/gocron/v2"
	"github.com/robfig/cron/v3"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// TestDaysOfChange: when gocron and robfig/cron run a daily job at a time that a change of the clocks
// skips or repeats, as JOBS.md says.
func TestDaysOfChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it is the year 2000
		zone, err := time.LoadLocation("Europe/Berlin") // 26 March skips 2:30, 29 October repeats it
		iferr.Fatal(t, err)
		var mu sync.Mutex // of both: each run has a goroutine of its own
		var gocrons, crons []string
		note := func(ran *[]string) func() {
			return func() {
				mu.Lock()
				defer mu.Unlock()
				if now := time.Now().In(zone); strings.Contains("03-26 10-29", now.Format("01-02")) {
					*ran = append(*ran, now.Format("Jan 2 15:04 MST"))
				}
			}
		}
		s, err := gocron.NewScheduler(gocron.WithLocation(zone))
		iferr.Fatal(t, err)
		at := gocron.NewAtTimes(gocron.NewAtTime(2, 30, 0))
		iferr.Fatal(t, iferr.Of(s.NewJob(gocron.DailyJob(1, at), gocron.NewTask(note(&gocrons)))))
		daily, err := cron.ParseStandard("30 2 * * *")
		iferr.Fatal(t, err)
		c := cron.New(cron.WithLocation(zone))
		c.Schedule(daily, cron.FuncJob(note(&crons)))
		s.Start()
		c.Start()
		time.Sleep(310 * 24 * time.Hour)
		shutDown(t, s)
		<-c.Stop().Done()
		if got, want := strings.Join(gocrons, ", "), "Mar 26 03:30 CEST, Oct 29 02:30 CET"; got != want {
			t.Errorf("gocron ran at %s, want %s", got, want)
		}
		if got, want := strings.Join(crons, ", "), "Oct 29 02:30 CEST, Oct 29 02:30 CET"; got != want {
			t.Errorf("cron ran at %s, want %s", got, want)
		}
	})
}
