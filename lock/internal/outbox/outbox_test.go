package outbox

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestOrder: deliveries are made in order, one after the other, by a goroutine that ends when none is
// left.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := New(100)
		var got []int
		for round := range 3 {
			for i := range 10 {
				o.Put(func() { got = append(got, 10*round+i) })
			}
			synctest.Wait()
		}
		if len(got) != 30 || !slices.IsSorted(got) || o.Dropped() != 0 {
			t.Errorf("%v, %d dropped", got, o.Dropped())
		}
		// The bubble fails the test if a goroutine is left.
	})
}

// TestFull: a blocked delivery delays later deliveries, but no caller. Excess deliveries are dropped
// and counted.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, stuck, made := New(3), make(chan struct{}), 0
		for range 10 {
			o.Put(func() { <-stuck; made++ })
		}
		if o.Dropped() != 7 {
			t.Errorf("%d dropped, want 7", o.Dropped())
		}
		close(stuck)
		synctest.Wait()
		o.Put(func() { made++ })
		synctest.Wait()
		if made != 4 || o.Dropped() != 7 {
			t.Errorf("%d made and %d dropped, want 4 and 7", made, o.Dropped())
		}
	})
}

// TestClose: Close waits for pending deliveries, within a limit.
func TestClose(t *testing.T) {
	for _, takes := range []time.Duration{0, time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			o, made := New(10), atomic.Int32{}
			if idle := New(10); !idle.Close(0) {
				t.Error("an idle outbox was not closed")
			}
			for range 3 {
				o.Put(func() { time.Sleep(takes); made.Add(1) })
			}
			begun, patience := time.Now(), 5*time.Second
			all := o.Close(patience)
			if took := time.Since(begun); took != min(3*takes, patience) || all != (3*takes < patience) {
				t.Errorf("%v each: all %v after %v", takes, all, took)
			}
			o.Put(func() { t.Error("made after the end") })
			time.Sleep(time.Hour)
			if made, dropped := made.Load(), o.Dropped(); all && (made != 3 || dropped != 1) || !all && (made != 1 || dropped != 3) {
				t.Errorf("%v each: %d made, %d dropped", takes, made, dropped)
			}
			if !o.Close(0) {
				t.Error("closed twice")
			}
		})
	}
}

// TestLogger: each line reaches the user's log as a direct call of the user's logger would write it.
func TestLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var direct, by bytes.Buffer
		user := func(to *bytes.Buffer) zerolog.Logger {
			return zerolog.New(to).Level(zerolog.InfoLevel).With().Str("service", "a \"b\"").Logger().
				Hook(zerolog.HookFunc(func(e *zerolog.Event, level zerolog.Level, message string) {
					e.Str("hook", level.String()+" "+message)
				}))
		}
		o := New(10)
		say := func(log zerolog.Logger) {
			log.Debug().Str("x", "y").Msg("not at this level")
			log.Info().Str("z", "1").Int64("big", 1<<62).Stringer("a", time.Second).Str("quoted", "\"\n<é>").Msg("a \"message\"\n")
			log.Warn().Err(errors.New("why")).AnErr("nothing", nil).Strs("list", []string{"b", "a"}).Ctx(context.Background()).Msg("")
			log.WithLevel(zerolog.ErrorLevel).Bool("yes", true).Send()
			log.Log().Dur("d", 1500*time.Microsecond).Msg("without a level")
		}
		say(user(&direct))
		say(o.Logger(user(&by)))
		synctest.Wait()
		if direct.String() != by.String() {
			t.Errorf("%s\nwant\n%s", &by, &direct)
		}
		if nop := o.Logger(zerolog.Nop()); nop.Error().Enabled() {
			t.Error("a logger that is off encodes its lines")
		}
	})
}

// blocking is a writer that the test blocks.
type blocking struct {
	bytes.Buffer
	free chan struct{}
}

func (b *blocking) Write(p []byte) (int, error) {
	<-b.free
	return b.Buffer.Write(p)
}

// TestLoggerThatBlocks: the late and the dropped lines are reported once the writer continues.
func TestLoggerThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, to := New(2), &blocking{free: make(chan struct{})}
		log := o.Logger(zerolog.New(to))
		for range 5 {
			log.Info().Msg("x")
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		close(to.free)
		synctest.Wait()
		log.Info().Msg("x")
		synctest.Wait()
		want := strings.Join([]string{
			`{"level":"info","message":"x"}`, // the line in delivery
			`{"level":"info","late_by":"1m0s","lines_dropped":3,"message":"x"}`,
			`{"level":"info","message":"x"}`, "",
		}, "\n")
		if to.String() != want {
			t.Errorf("%s\nwant\n%s", to, want)
		}
	})
}

// TestFromSlog: each line reaches the handler as a direct call of slog would write it. The handler
// decides which levels are enabled.
func TestFromSlog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got, want bytes.Buffer
		level := new(slog.LevelVar)
		user := func(to *bytes.Buffer) *slog.Logger {
			return slog.New(slog.NewJSONHandler(to, &slog.HandlerOptions{Level: level})).With("service", "a").WithGroup("lock")
		}
		o := New(10)
		log, direct := o.Logger(FromSlog(user(&got))), user(&want)

		log.Debug().Str("x", "y").Msg("not at this level")
		log.Info().Str("z", "\"1\"\n").Int64("big", 1<<62).Float64("half", .5).Stringer("a", time.Second).Bool("yes", true).Msg("a \"message\"\n")
		direct.Info("a \"message\"\n", "z", "\"1\"\n", "big", 1<<62, "half", .5, "a", "1s", "yes", true)
		log.Warn().Err(errors.New("why")).Strs("list", []string{"b", "a"}).Msg("")
		direct.Warn("", "error", "why", "list", []string{"b", "a"})
		log.Error().Msg("bad")
		direct.Error("bad")
		log.Log().Msg("without a level")
		direct.Info("without a level")
		synctest.Wait()
		level.Set(slog.LevelDebug)
		log.Debug().Msg("at this level now")
		direct.Debug("at this level now")
		synctest.Wait()
		if got.String() != want.String() {
			t.Errorf("%s\nwant\n%s", &got, &want)
		}
	})
}
