package guardtest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/gateway/guard"
)

// Guards is one Guard, as two gateways have it.
type Guards struct {
	// At is the same Guard; in memory the same twice.
	At [2]guard.Guard
	// Now is the time, and Pass lets it pass.
	Now  func() time.Time
	Pass func(d time.Duration)
}

// Run tests what start makes: a Guard that has just begun, and knows nothing.
func Run(t *testing.T, start func(t *testing.T) *Guards) {
	for name, test := range map[string]func(*testing.T, *Guards){
		"limits": limits, "batches": batches, "nonces": nonces, "early": early, "claims": claims, "guesses": guesses, "room": room,
	} {
		t.Run(name, func(t *testing.T) { test(t, start(t)) })
	}
}

// late checks that err is of a limit, and returns how long to wait.
func late(t *testing.T, err error, of guard.Limit) time.Duration {
	t.Helper()
	e, ok := errors.AsType[*guard.LateError](err)
	if !ok || e.Limit != of || e.Wait <= 0 || e.Wait > of.Every() {
		t.Fatalf("%v (%+v), want limit %s and at most %v", err, e, of, of.Every())
	}
	return e.Wait
}

func fine(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// limits: a burst over both gateways, then one at a time; who is refused is not counted.
func limits(t *testing.T, g *Guards) {
	ann := guard.Ask{Limit: guard.Beat, Who: "ann"}
	look := ann
	look.Look = true
	for range 3 * int(guard.Beat.Rate().Burst) {
		fine(t, g.At[0].Count(look))
	}
	for i := range int(guard.Beat.Rate().Burst) {
		fine(t, g.At[i%2].Count(ann))
	}
	for i := range 20 {
		late(t, g.At[i%2].Count(ann), guard.Beat)
	}
	wait := late(t, g.At[1].Count(look), guard.Beat)
	fine(t, g.At[0].Count(guard.Ask{Limit: guard.Beat, Who: "bob"}))
	fine(t, g.At[0].Count(guard.Ask{Limit: guard.Attach, Who: "ann"}))
	g.Pass(wait)
	fine(t, g.At[1].Count(look))
	fine(t, g.At[0].Count(ann))
	late(t, g.At[1].Count(ann), guard.Beat)
}

// batches: what stands before the first that is too many is counted, what stands behind is not.
func batches(t *testing.T, g *Guards) {
	ask := func(l guard.Limit) guard.Ask { return guard.Ask{Limit: l, Who: "w"} }
	for range int(guard.Token.Rate().Burst) {
		fine(t, g.At[0].Count(ask(guard.Token)))
	}
	for range int(guard.Beat.Rate().Burst) {
		late(t, g.At[1].Count(ask(guard.Beat), ask(guard.Token), ask(guard.Claims)), guard.Token)
	}
	late(t, g.At[0].Count(ask(guard.Beat)), guard.Beat)
	for range int(guard.Claims.Rate().Burst) {
		fine(t, g.At[0].Count(ask(guard.Claims)))
	}
	fine(t, g.At[0].Count())
}

func proof(key, nonce string, at time.Time) access.Proof {
	return access.Proof{Key: key, Nonce: nonce, Time: time.UnixMilli(at.UnixMilli())}
}

// nonces: what was used at one gateway was used at all, until it is given back.
func nonces(t *testing.T, g *Guards) {
	fine(t, g.At[0].First())
	now := g.Now().Add(time.Second)
	a := proof("k", "a", now)
	fine(t, g.At[0].Use(a, now))
	for i := range 4 {
		if err := g.At[i%2].Use(a, now); !errors.Is(err, access.ErrUsed) {
			t.Fatalf("again: %v", err)
		}
	}
	fine(t, g.At[1].First()) // it is not
	if err := g.At[1].Use(a, now); !errors.Is(err, access.ErrUsed) {
		t.Errorf("again: %v", err)
	}
	fine(t, g.At[1].Use(proof("k", "b", now), now))
	fine(t, g.At[1].Use(proof("l", "a", now), now))
	g.At[1].Forget(a)
	fine(t, g.At[1].Use(a, now))
}

// early: what was signed before it began may have been used.
func early(t *testing.T, g *Guards) {
	now := g.Now()
	err := g.At[0].Use(proof("k", "a", now.Add(-time.Second)), now)
	e, ok := errors.AsType[*access.EarlyError](err)
	if !ok || e.After < time.Second {
		t.Fatalf("%v", err)
	}
	g.Pass(50 * time.Millisecond)
	err = g.At[1].Use(proof("k", "a", now.Add(-time.Second)), now)
	if again, ok := errors.AsType[*access.EarlyError](err); !ok || again.After != e.After {
		t.Fatalf("%v, and then %v", e, err)
	}
	at := now.Add(e.After)
	fine(t, g.At[1].Use(proof("k", "a", at), at))
	fine(t, g.At[0].First()) // it comes too late
	if err := g.At[0].Use(proof("k", "b", now.Add(-time.Second)), now); err == nil {
		t.Error("taken all the same")
	}
	if err := g.At[0].Use(proof("k", "a", at), at); !errors.Is(err, access.ErrUsed) {
		t.Errorf("again: %v", err)
	}
}

func code(n int) (h guard.Hash) { copy(h[:], fmt.Sprint("code ", n)); return h }

func waiting(n int) guard.Claim {
	key := bytes.Repeat([]byte{byte(n), 0xff}, 16)
	return guard.Claim{Worker: cluster.OutsideID(fmt.Append(nil, n)), Key: key, Name: fmt.Sprint("attic", n), Left: guard.ClaimLife}
}

// none checks that nobody waits under a code.
func none(t *testing.T, g guard.Guard, n int, by string) {
	t.Helper()
	if c, err := g.Take(code(n), by); !errors.Is(err, guard.ErrNoClaim) {
		t.Fatalf("%+v, %v", c, err)
	}
}

func took(t *testing.T, g guard.Guard, n, worker int, by string) guard.Claim {
	t.Helper()
	got, err := g.Take(code(n), by)
	want := waiting(worker)
	if err != nil || got.Worker != want.Worker || !bytes.Equal(got.Key, want.Key) || got.Name != want.Name || got.Left <= guard.ClaimLife-time.Minute || got.Left > guard.ClaimLife {
		t.Fatalf("%+v, %v, want %+v", got, err, want)
	}
	return got
}

// claims: a code of one gateway is good at all, once, and a worker has one.
func claims(t *testing.T, g *Guards) {
	c := waiting(1)
	fine(t, g.At[0].Open(code(1), c))
	for _, at := range g.At {
		if key, ok, err := at.Waiting(c.Worker); err != nil || !ok || !bytes.Equal(key, c.Key) {
			t.Errorf("%x %v %v", key, ok, err)
		}
	}
	took(t, g.At[1], 1, 1, "ann")
	none(t, g.At[0], 1, "ann")
	if _, ok, err := g.At[0].Waiting(c.Worker); ok || err != nil {
		t.Errorf("it waits still: %v", err)
	}
	fine(t, g.At[0].Open(code(2), c))
	fine(t, g.At[1].Open(code(3), c))
	none(t, g.At[0], 2, "ann")
	x := took(t, g.At[0], 3, 1, "ann")
	g.At[1].Back(code(3), x)
	x = took(t, g.At[0], 3, 1, "ann")
	fine(t, g.At[0].Open(code(4), c))
	g.At[1].Back(code(3), x) // there is another
	none(t, g.At[0], 3, "ann")
	took(t, g.At[0], 4, 1, "ann")
	c.Left = 200 * time.Millisecond
	fine(t, g.At[0].Open(code(5), c))
	g.Pass(300 * time.Millisecond)
	if _, ok, _ := g.At[0].Waiting(c.Worker); ok {
		t.Error("it waits longer than its code is good")
	}
	none(t, g.At[0], 5, "bob")
	if got, err := g.At[0].Take(guard.Hash{}, "bob"); !errors.Is(err, guard.ErrNoClaim) {
		t.Errorf("%+v, %v", got, err)
	}
}

// guesses: who tries too many codes has to wait, whatever code it is, at all gateways.
func guesses(t *testing.T, g *Guards) {
	for i := range 10 { // what is right is no guess
		fine(t, g.At[0].Open(code(i), waiting(i)))
		took(t, g.At[1], i, i, "ann")
	}
	fine(t, g.At[0].Open(code(99), waiting(99)))
	for i := range int(guard.Guess.Rate().Burst) {
		none(t, g.At[i%2], 50, "ann")
	}
	for _, at := range g.At {
		_, err := at.Take(code(99), "ann")
		late(t, err, guard.Guess)
	}
	late(t, g.At[0].Count(guard.Ask{Limit: guard.Guess, Who: "ann", Look: true}), guard.Guess)
	took(t, g.At[0], 99, 99, "bob")
}

// room: so many wait, and no more until the time of one is over; who waits may ask for another
// code.
func room(t *testing.T, g *Guards) {
	last := waiting(0)
	last.Left = 3 * time.Second
	for i := 1; i < guard.MaxClaims; i++ {
		fine(t, g.At[i%2].Open(code(i), waiting(i)))
	}
	fine(t, g.At[0].Open(code(0), last))
	if err := g.At[1].Open(code(-1), waiting(-1)); !errors.Is(err, guard.ErrRoom) {
		t.Fatal(err)
	}
	fine(t, g.At[1].Open(code(-2), waiting(7)))
	took(t, g.At[0], -2, 7, "ann")
	fine(t, g.At[1].Open(code(7), waiting(7)))
	if err := g.At[1].Open(code(-1), waiting(-1)); !errors.Is(err, guard.ErrRoom) {
		t.Fatal(err)
	}
	g.Pass(last.Left)
	fine(t, g.At[1].Open(code(-1), waiting(-1)))
	if err := g.At[0].Open(code(-3), waiting(-3)); !errors.Is(err, guard.ErrRoom) {
		t.Fatal(err)
	}
}
