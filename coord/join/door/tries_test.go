package door

import (
	"net/netip"
	"testing"
	"time"
)

var wall = time.Unix(1_700_000_000, 0)

func TestLimiter(t *testing.T) {
	l := NewLimiter()
	fail := func(from netip.Addr, at time.Time) bool {
		done, ok := l.Take(Try{From: from}, at)
		if ok {
			done(true)
		}
		return ok
	}
	a := Source("192.0.2.1:7")
	for i := range MaxTries {
		if !fail(a, wall) {
			t.Fatalf("try %d refused", i)
		}
	}
	if fail(a, wall) || fail(a, wall.Add(11*time.Second)) || !fail(a, wall.Add(13*time.Second)) {
		t.Error("the bucket is not refilled at 5 a minute")
	}
	if fail(a, wall.Add(-time.Hour)) {
		t.Error("a clock that steps back refills")
	}
	for i := range 2 * maxSources {
		fail(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), wall)
	}
	if len(l.buckets) > maxSources+1 {
		t.Errorf("%d buckets", len(l.buckets))
	}
	if Source("[2001:db8:1:2:3::1]:5") != Source("[2001:db8:1:2:9::1]:6") || Source("[2001:db8:1:2::1]:5") == Source("[2001:db8:1:3::1]:5") {
		t.Error("IPv6 sources are not counted by /64")
	}
	if Source("[::ffff:192.0.2.1]:5") != a || Source("@") != (netip.Addr{}) {
		t.Error("sources of other forms")
	}
	for _, tor := range []string{"127.0.0.1:9", "127.9.9.9:1", "[::1]:3"} {
		if Source(tor) != (netip.Addr{}) {
			t.Errorf("%s has a bucket of its own", tor)
		}
	}
}

// TestLimiterOverdraft: what fails at the same time is paid for afterwards, so
// the mean rate stays.
func TestLimiterOverdraft(t *testing.T) {
	l := NewLimiter()
	var ends []func(bool)
	for {
		done, ok := l.Take(Try{}, wall)
		if !ok {
			break
		}
		ends = append(ends, done)
	}
	if len(ends) != maxFlying {
		t.Fatalf("%d tries at once, want %d", len(ends), maxFlying)
	}
	for _, done := range ends {
		done(true)
	}
	minutes := time.Duration(maxFlying-MaxTries)*time.Minute/MaxTries + time.Minute/MaxTries
	if _, ok := l.Take(Try{}, wall.Add(minutes-time.Second)); ok {
		t.Error("a burst was not paid for")
	}
	if done, ok := l.Take(Try{}, wall.Add(minutes+time.Second)); !ok {
		t.Error("still refused")
	} else {
		done(false)
	}
	if _, ok := l.Take(Try{}, wall.Add(minutes+time.Second)); !ok {
		t.Error("a success cost something")
	}
}
