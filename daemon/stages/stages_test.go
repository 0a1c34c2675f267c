package stages

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
		l := New(zerolog.Nop())
		var order []string
		for _, name := range []string{"log", "mesh", "lease"} {
			l.Start(Stage{
				Name:  name,
				Grace: time.Second,
				Run:   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
				Stop:  func(context.Context) error { order = append(order, name); return nil },
			})
		}
		if err := l.Stop(); err != nil {
			t.Fatal(err)
		}
		if want := []string{"lease", "mesh", "log"}; !slices.Equal(order, want) {
			t.Errorf("stopped %v, want %v", order, want)
		}
	})
}

func TestStageFailureEndsTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(zerolog.Nop())
		boom := errors.New("boom")
		l.Start(Stage{Name: "disk", Grace: time.Second, Run: func(context.Context) error { return boom }})
		err := <-l.Failed()
		if !errors.Is(err, boom) || !strings.HasPrefix(err.Error(), "disk: ") {
			t.Errorf("failure %v, want disk: boom", err)
		}
		if err := l.Stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestStageThatHangsIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(zerolog.Nop())
		release := make(chan struct{})
		l.Start(Stage{Name: "mesh", Grace: 3 * time.Second, Run: func(context.Context) error { <-release; return nil }})
		start := time.Now()
		err := l.Stop()
		if err == nil || !strings.Contains(err.Error(), "mesh: still running after 3s") {
			t.Errorf("Stop: %v", err)
		}
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("waited %s, want the grace of 3s", d)
		}
		close(release)
	})
}
