package redis

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skein-project/skein/gateway/channel"
	"github.com/skein-project/skein/internal/servertest"
)

// gateways are two on one Redis, whose clocks a test has go.
func gateways(t *testing.T, r *servertest.Redis) (a, b *Store, pass func(time.Duration)) {
	t.Helper()
	var ahead atomic.Int64
	slow := func(o *Options) {
		o.Wall = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}
	prefix := newPrefix()
	return store(t, r, prefix, "n1", nil, slow), store(t, r, prefix, "n2", nil, slow), func(d time.Duration) { ahead.Add(int64(d)) }
}

// TestEars: what is asked for at one gateway is told by the one that tells, which is one at a
// time, for as long as somebody says that it listens on.
func TestEars(t *testing.T) {
	r := shared(t)
	a, b, pass := gateways(t, r)
	hear := func(s *Store, name string, anew bool) {
		t.Helper()
		if room, err := s.Hear(name, anew); err != nil || !room {
			t.Fatalf("%s: %v, %v", name, room, err)
		}
	}
	heard := func(s *Store) []channel.Ear {
		t.Helper()
		ears, err := s.Heard()
		if err != nil {
			t.Fatal(err)
		}
		return ears
	}
	if got := heard(a); len(got) != 0 {
		t.Errorf("nobody listens: %v", got)
	}
	hear(b, "job:1", true)
	first := heard(a)
	if len(first) != 1 || first[0].Name != "job:1" {
		t.Fatalf("%v", first)
	}
	if got := heard(b); len(got) != 0 {
		t.Errorf("another tells already: %v", got)
	}
	hear(a, "job:1", false)
	if got := heard(a); len(got) != 1 || got[0] != first[0] {
		t.Errorf("who listens on begins to: %v, then %v", first, got)
	}
	pass(time.Second)
	hear(b, "job:1", true)
	if got := heard(a); len(got) != 1 || got[0].Asked <= first[0].Asked {
		t.Errorf("who begins to listen does not: %v, then %v", first, got)
	}
	hear(b, "job:2", true)
	pass(2 * channel.Life)
	hear(a, "job:2", false)
	if got := heard(a); len(got) != 2 {
		t.Errorf("who may listen on for a while: %v", got)
	}
	pass(channel.Life + time.Second)
	if got := heard(a); len(got) != 1 || got[0].Name != "job:2" {
		t.Errorf("who does not listen any more: %v", got)
	}
	// The one that tells is silent: another does.
	asker(t, r)("DEL", a.prefix+tellKey)
	if got := heard(b); len(got) != 1 {
		t.Errorf("the other does not tell: %v", got)
	}
	if got := heard(a); len(got) != 0 {
		t.Errorf("both tell: %v", got)
	}
	if left := asker(t, r)("PTTL", a.prefix+tellKey); left == "-1" || left == "-2" {
		t.Errorf("it tells for ever: %s", left)
	}
}

// TestEarsAreBounded: there is room for so many channels; those that are listened to are not
// pushed out.
func TestEarsAreBounded(t *testing.T) {
	r := shared(t)
	a, _, _ := gateways(t, r)
	args := []string{"ZADD", a.prefix + earsKey}
	for i := range channel.MaxHeardApart {
		args = append(args, fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()), fmt.Sprint("job:", i))
	}
	asker(t, r)(args...)
	for name, want := range map[string]bool{"job:7": true, "job:none": false} {
		if room, err := a.Hear(name, true); err != nil || room != want {
			t.Errorf("%s: %v, %v", name, room, err)
		}
	}
}

// TestEarsOutage: while Redis is down nobody is said to listen, and nobody that nobody does.
func TestEarsOutage(t *testing.T) {
	r := own(t)
	a, _, _ := gateways(t, r)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Hear("cluster", true); err == nil {
		t.Error("it is noted nowhere")
	}
	if _, err := a.Heard(); err == nil {
		t.Error("it cannot be known")
	}
}
