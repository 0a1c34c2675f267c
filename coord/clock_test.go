package coord

import (
	"bytes"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
)

// logBuffer is a log that a test reads.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// lines returns the log lines that hold text.
func (l *logBuffer) lines(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for line := range strings.Lines(l.b.String()) {
		if strings.Contains(line, text) {
			out = append(out, line)
		}
	}
	return out
}

// shifted lets a test set h's wall clock.
func shifted(h *host) (*atomic.Int64, *logBuffer) {
	var off atomic.Int64
	log := &logBuffer{}
	h.tweak = func(o *Options) {
		o.Wall = func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
		o.Logger = zerolog.New(log)
	}
	return &off, log
}

// TestClockOffByMinutes: one of three hosts has its clock set wrong while it
// runs, and right again.
func TestClockOffByMinutes(t *testing.T) {
	for _, off := range []time.Duration{4 * time.Minute, -3 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, cluster.ProfileLAN, 1, lan)
			a, b, c := w.add("host-a", 10), w.add("host-b", 20), w.add("host-c", 30)
			clockC, logC := shifted(c)
			_, logA := shifted(a)
			for _, h := range []*host{a, b, c} {
				h.knows(a, b, c)
			}
			for _, h := range []*host{a, b, c} {
				h.start()
			}
			defer w.stopAll()
			w.until("all alive", 10*time.Second, w.allAlive)
			time.Sleep(10 * time.Second)
			if n := len(logA.lines(`"level":"warn"`)); n != 0 {
				t.Errorf("a start is no reason to warn: %q", logA.lines(`"level":"warn"`))
			}
			clockC.Store(int64(off))
			w.until("c is dead to a", 3*time.Minute, func() bool {
				m, _ := a.svc.View().Member(c.node)
				return m.Health == cluster.Dead
			})
			near := func(d time.Duration) bool { return d > off-2*time.Second && d < off+2*time.Second }
			if m, _ := a.svc.View().Member(c.node); !near(m.Skew) {
				t.Errorf("a thinks c's clock is ahead by %s", m.Skew)
			}
			if got := a.svc.View().Clock; got.Jumps != 0 || got.Offset < -time.Second || got.Offset > time.Second {
				t.Errorf("a thinks its own clock is wrong: %+v", got)
			}
			if got := c.svc.View().Clock; got.Jumps != 1 || !near(got.LastJump) || !near(-got.Offset) || got.Peers != 2 {
				t.Errorf("c of its own clock: %+v", got)
			}
			if n := len(logA.lines("clock of peer is off")); n != 1 {
				t.Errorf("warned %d times of c's clock", n)
			}
			if n := len(logC.lines("wall clock jumped")); n != 1 {
				t.Errorf("c warned %d times of its jump", n)
			}
			if n := len(logA.lines("datagram refused")); n > 0 && len(logA.lines(`"level":"warn"`)) != 1 {
				t.Errorf("warnings: %q", logA.lines(`"level":"warn"`))
			}
			clockC.Store(0)
			w.until("all alive again", 10*time.Second, w.allAlive)
			if n := len(logA.lines("clock of peer is good again")); n != 1 {
				t.Errorf("said %d times that it is good", n)
			}
			if m, _ := a.svc.View().Member(c.node); m.Skew != 0 {
				t.Errorf("skew %s", m.Skew)
			}
		})
	}
}

// TestRestartWarnsOfNothing: what was on its way when a host started is
// refused and no reason to worry.
func TestRestartWarnsOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileFast, 1, lan)
		_, b, _ := w.three()
		defer w.stopAll()
		_, log := shifted(b)
		for range 5 {
			b.crash()
			time.Sleep(1300 * time.Millisecond)
			b.restart()
			w.until("back", 20*time.Second, w.allAlive)
		}
		if got := log.lines("datagram refused"); len(got) == 0 || len(log.lines(`"level":"warn","component":"coord","error":"message refused (clock)`)) != 0 {
			t.Errorf("%q", got)
		}
	})
}
