package redis

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/gateway/guard"
	"github.com/skein-project/skein/internal/guardtest"
	"github.com/skein-project/skein/internal/servertest"
)

func guardsOf(t *testing.T, r *servertest.Redis, prefix string) *guardtest.Guards {
	t.Helper()
	a, b := store(t, r, prefix, "n1", nil, nil), store(t, r, prefix, "n2", nil, nil)
	return &guardtest.Guards{At: [2]guard.Guard{a, b}, Now: time.Now, Pass: time.Sleep}
}

// TestGuard is what every guard.Guard does; its environment may name a mutant.
func TestGuard(t *testing.T) {
	r := shared(t)
	guardtest.Run(t, func(t *testing.T) *guardtest.Guards { return guardsOf(t, r, newPrefix()) })
}

// asker asks a Redis for anything.
func asker(t *testing.T, r *servertest.Redis) func(args ...string) string {
	t.Helper()
	return func(args ...string) string {
		t.Helper()
		client, err := Server{Addresses: []string{"unix://" + r.Socket}}.dial()
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		got, err := client.Do(t.Context(), client.B().Arbitrary(args...).Build()).ToMessage()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		if n, err := got.AsInt64(); err == nil {
			return fmt.Sprint(n)
		}
		text, _ := got.ToString() // of what is none: ""
		return text
	}
}

func nonceAt(nonce string, at time.Time) access.Proof {
	return access.Proof{Key: "k", Nonce: nonce, Time: time.UnixMilli(at.UnixMilli())}
}

// TestGuardLost: of a Redis that was emptied, or that started again, nobody knows what was used
// before: what was signed before that, by a clock that may be ahead, is refused.
func TestGuardLost(t *testing.T) {
	r := own(t)
	do := asker(t, r)
	g := guardsOf(t, r, "sk")
	if err := g.At[0].First(); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if err := g.At[0].Use(nonceAt("a", now), now); err != nil {
		t.Fatal(err)
	}
	early := func(nonce string) {
		t.Helper()
		now := time.Now()
		err := g.At[1].Use(nonceAt(nonce, now), now)
		e, ok := errors.AsType[*access.EarlyError](err)
		if !ok || e.After > ahead+30*time.Second || e.After < ahead-30*time.Second {
			t.Errorf("%v", err)
		}
		if err := g.At[0].Use(nonceAt(nonce, now.Add(ahead+time.Second)), now); err != nil {
			t.Errorf("of after that: %v", err)
		}
	}
	do("FLUSHALL")
	early("b")
	do("FLUSHALL")
	early("c")
	do("HSET", "sk:{sk:c1}:since", "at", "0") // long ago
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, s := range g.At {
		for end := time.Now().Add(30 * time.Second); s.(*Store).Why() == nil; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("it serves")
			}
		}
	}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range g.At {
		serves(t, s.(*Store))
	}
	early("d")
}

// TestGuardKeys: what is kept ends by itself, and a clock that was set back keeps nobody out
// for long.
func TestGuardKeys(t *testing.T) {
	r, prefix := shared(t), newPrefix()
	do := asker(t, r)
	g := guardsOf(t, r, prefix).At[0]
	keys := fmt.Sprintf("%s:{%s:c1}:", prefix, prefix)
	within := func(key string, most time.Duration) {
		t.Helper()
		ms, err := strconv.Atoi(do("PTTL", keys+key))
		if left := time.Duration(ms) * time.Millisecond; err != nil || left <= 0 || left > most || left < most-30*time.Second {
			t.Errorf("%s ends in %v, want %v: %v", key, left, most, err)
		}
	}
	now := time.Now()
	if err := errors.Join(g.First(), g.Use(nonceAt("a", now), now)); err != nil {
		t.Fatal(err)
	}
	within("nonce:k:a", access.Keep)
	reg := guard.Ask{Limit: guard.Register, Who: "net"}
	if err := errors.Join(g.Count(reg), g.Count(reg)); err != nil {
		t.Fatal(err)
	}
	within("rl:register:net", 2*guard.Register.Every())
	do("SET", keys+"rl:register:net", fmt.Sprint(now.Add(1000*time.Hour).UnixMicro()))
	if e, ok := errors.AsType[*guard.LateError](g.Count(reg)); !ok || e.Wait != guard.Register.Every() {
		t.Errorf("%+v", e)
	}
	var h guard.Hash
	if err := g.Open(h, guard.Claim{Worker: "w-x", Key: []byte("k"), Left: guard.ClaimLife}); err != nil {
		t.Fatal(err)
	}
	within(fmt.Sprintf("claim:%x", h), guard.ClaimLife)
	within("claimof:w-x", guard.ClaimLife)
}

// TestGuardDown: nothing is taken, or let through as new, while there is no Redis.
func TestGuardDown(t *testing.T) {
	s, err := New(Options{Server: Server{Addresses: []string{"unix:///nonexistent"}}, Cluster: "c1", Self: "n1", Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	s.Forget(nonceAt("a", now))
	s.Back(guard.Hash{}, guard.Claim{Left: time.Minute})
	_, errT := s.Take(guard.Hash{}, "ann")
	_, _, errW := s.Waiting("w-x")
	for name, err := range map[string]error{
		"count": s.Count(guard.Ask{Limit: guard.Beat, Who: "w"}), "nonce": s.Use(nonceAt("a", now), now), "first": s.First(),
		"open": s.Open(guard.Hash{}, guard.Claim{}), "take": errT, "waiting": errW,
	} {
		if !errors.Is(err, guard.ErrDown) || name == "nonce" && !errors.Is(err, access.ErrDown) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
