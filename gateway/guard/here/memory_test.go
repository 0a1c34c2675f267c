package here

import (
	"errors"
	"testing"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/gateway/guard"
	"github.com/skein-project/skein/internal/guardtest"
)

// clock is a clock of a test.
type clock struct {
	wall time.Time
	mono time.Duration
}

func newClock() *clock                { return &clock{wall: time.Now(), mono: time.Hour} }
func (c *clock) now() time.Time       { return c.wall }
func (c *clock) ticks() time.Duration { return c.mono }
func (c *clock) pass(d time.Duration) { c.wall, c.mono = c.wall.Add(d), c.mono+d }
func (c *clock) memory() *Memory      { return New(c.ticks, c.wall) }
func ask(who string) guard.Ask        { return guard.Ask{Limit: guard.Token, Who: who} }
func isLate(err error) (d time.Duration) {
	if e, ok := errors.AsType[*guard.LateError](err); ok {
		return e.Wait
	}
	return 0
}

func TestSuite(t *testing.T) {
	guardtest.Run(t, func(*testing.T) *guardtest.Guards {
		c := newClock()
		m := c.memory()
		return &guardtest.Guards{At: [2]guard.Guard{m, m}, Now: c.now, Pass: c.pass}
	})
}

// counting is a shared Guard that may be down, and counts how often it is asked.
type counting struct {
	*Memory
	down  bool
	asked int
}

func (c *counting) Count(asks ...guard.Ask) error {
	c.asked++
	if c.down {
		return guard.ErrDown
	}
	return c.Memory.Count(asks...)
}

// TestFront: who must wait by what all count is not asked for again meanwhile; while they
// cannot be asked, a gateway counts alone.
func TestFront(t *testing.T) {
	c := newClock()
	shared := &counting{Memory: c.memory()}
	a, b := Before(shared, c.memory()), Before(shared, c.memory())
	for range int(guard.Token.Rate().Burst) {
		if err := a.Count(ask("w")); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Early(ask("w")); err != nil {
		t.Fatalf("b knows nothing of it: %v", err)
	}
	wait := isLate(b.Count(guard.Ask{Limit: guard.Address, Who: "net"}, ask("w")))
	if wait <= 0 || wait > guard.Token.Every() {
		t.Fatalf("it waits %v", wait)
	}
	before := shared.asked
	for range 100 {
		if d := isLate(b.Early(ask("w"))); d <= 0 || d > wait {
			t.Fatalf("it waits %v, was told %v", d, wait)
		}
		if isLate(b.Count(ask("w"))) == 0 {
			t.Fatal("it passes")
		}
	}
	if shared.asked != before {
		t.Errorf("it was asked for %d times", shared.asked-before)
	}
	if err := b.Early(guard.Ask{Limit: guard.Address, Who: "net"}); err != nil {
		t.Error(err)
	}
	c.pass(wait)
	if err := b.Count(ask("w")); err != nil {
		t.Errorf("it waited as told: %v", err)
	}
	shared.down = true
	passed := 0
	for a.Count(ask("x")) == nil {
		passed++
	}
	if passed != int(guard.Token.Rate().Burst) {
		t.Errorf("%d pass while nobody else is there", passed)
	}
}

// TestRoomForNonces: who finds none may come again.
func TestRoomForNonces(t *testing.T) {
	c := newClock()
	m := newMemory(c.ticks, c.wall, 3)
	for i := range 4 {
		err := m.Use(access.Proof{Key: "k", Nonce: string(rune('a' + i)), Time: c.wall}, c.wall)
		if want := map[bool]error{true: access.ErrFull}[i == 3]; !errors.Is(err, want) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if _, ok, err := m.Waiting(cluster.NodeID("w-x")); ok || err != nil {
		t.Errorf("%v %v", ok, err)
	}
}
