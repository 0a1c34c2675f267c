package daemon

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

func TestStagesStopInReverse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLifecycle(zerolog.Nop())
		var order []string
		for _, name := range []string{"log", "mesh", "lease"} {
			l.start(stage{
				name:  name,
				grace: time.Second,
				run:   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
				stop:  func(context.Context) error { order = append(order, name); return nil },
			})
		}
		if err := l.stop(); err != nil {
			t.Fatal(err)
		}
		if want := []string{"lease", "mesh", "log"}; !slices.Equal(order, want) {
			t.Errorf("stopped %v, want %v", order, want)
		}
	})
}

func TestStageFailureEndsTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLifecycle(zerolog.Nop())
		boom := errors.New("boom")
		l.start(stage{name: "disk", grace: time.Second, run: func(context.Context) error { return boom }})
		err := <-l.failed
		if !errors.Is(err, boom) || !strings.HasPrefix(err.Error(), "disk: ") {
			t.Errorf("failure %v, want disk: boom", err)
		}
		if err := l.stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestStageThatHangsIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLifecycle(zerolog.Nop())
		release := make(chan struct{})
		l.start(stage{name: "mesh", grace: 3 * time.Second, run: func(context.Context) error { <-release; return nil }})
		start := time.Now()
		err := l.stop()
		if err == nil || !strings.Contains(err.Error(), "mesh: still running after 3s") {
			t.Errorf("stop: %v", err)
		}
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("waited %s, want the grace of 3s", d)
		}
		close(release)
	})
}
