package onion

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/internal/onionnet"
	"github.com/skein-project/skein/internal/tornet"
	"github.com/skein-project/skein/publisher"
)

// TestServe is one address on three hosts: all are reached in proportion to
// their points, one is drained, one dies, a publisher of yesterday comes back.
func TestServe(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	stop := s.capture()
	defer stop()
	s.start("a", "b", "c")
	began := time.Now()
	p := s.publish("a", 2)
	s.awaitPublished(p, "a", "b", "c")
	t.Logf("published %s after the publisher's start, %d bytes", time.Since(began).Round(time.Millisecond), p.Status().Size)
	t.Logf("points of the hosts %v, in both descriptors together %v", p.Own(), p.Status().Points)
	clients := s.clients("client", either(6, 3))

	s.shared(p, clients)
	s.drain(p, clients, "c")
	s.crash(p, clients, "b")
	s.yesterday(p, clients)
	stop()
	s.noSecrets()

	settled := p.Settled()
	t.Logf("changes of points, in order: %v", settled)
	slices.Sort(settled)
	if len(settled) == 0 {
		t.Fatal("no change was published")
	}
	bound(t, fmt.Sprintf("change of points until all directories have both descriptors, p95 of %d", len(settled)), settled[(len(settled)*95-1)/100], 3*time.Second)
}

// shared has fresh clients connect and compares who answered with the points.
func (s *stage) shared(p *onionnet.Publisher, clients []*tornet.Tor) {
	s.t.Helper()
	const each = 5
	var all []onionnet.Visit
	expected := map[string]float64{}
	served := map[string]bool{}
	want := either(180, 30)
	for len(all) < want || len(served) < 3 && len(all) < 90 {
		before := shares(p)
		visits := s.visits(clients, each)
		now := shares(p)
		for host := range now {
			expected[host] += (before[host] + now[host]) / 2 * float64(len(visits))
		}
		for _, v := range visits {
			served[v.Host] = true
		}
		all = append(all, visits...)
	}
	s.judge("fresh clients", all)
	s.t.Logf("points of the hosts %v, in both descriptors together %v", p.Own(), p.Status().Points)
	chi := 0.0
	for host, e := range expected {
		n := 0.0
		for _, v := range all {
			if v.Host == host && v.Err == nil {
				n++
			}
		}
		if n == 0 {
			s.t.Errorf("host %s was never reached", host)
		}
		chi += (n - e) * (n - e) / e
	}
	// Two degrees of freedom: p > 0.001.
	const most = 13.816
	s.t.Logf("connections expected by points %v, chi-square %.2f (limit %.2f)", expected, chi, most)
	if prove() && chi > most {
		s.t.Errorf("chi-square %.2f of %d connections", chi, len(all))
	}
}

// drain takes a host out while clients connect: the descriptor first, then the
// host.
func (s *stage) drain(p *onionnet.Publisher, clients []*tornet.Tor, host string) {
	s.t.Helper()
	lasts := either(60*time.Second, 5*time.Second)
	awaitCalm(lasts + 30*time.Second)
	s.judge("before the drain", s.visits(clients, 3)) // that they know the newest descriptor
	running := s.drive(clients, 0)
	s.roster.Weigh("c", 0)
	s.awaitPublished(p, "a", "b")
	time.Sleep(lasts) // what drain waits for is time
	stopped := time.Now()
	if err := s.hosts[host].Stop(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	count := len(running.so())
	s.until("connections after it", func() error {
		if n := len(running.so()); n < count+5*len(clients) {
			return fmt.Errorf("only %d", n-count)
		}
		return nil
	})
	var during, after []onionnet.Visit
	for _, v := range running.end() {
		if v.Begin.Add(v.Took).Before(stopped) {
			during = append(during, v)
		} else {
			after = append(after, v)
		}
	}
	bound(s.t, "slowest connection while a host was drained", s.judge("drain", during), 2*time.Second)
	// All of these clients know the host from a descriptor that they keep for
	// hours. Each of its points sends them on, in half a second, and where relays
	// are few it has up to half of the points: nobody waits longer than for that,
	// but for one whose introduction was queued at a relay when the point closed the
	// circuit. Relays drop such cells, and the client's tor takes half a minute.
	const usual, lost = 5 * time.Second, 40 * time.Second
	bound(s.t, "slowest connection once it stopped", s.judge("drained host stopped", after), lost)
	late := slices.DeleteFunc(after, func(v onionnet.Visit) bool { return v.Took <= usual })
	s.t.Logf("of them %d took more than %s", len(late), usual)
	if prove() && len(late) > 1 {
		s.t.Errorf("%d connections took more than %s once it stopped, at most one may", len(late), usual)
	}
}

// crash ends a host without a word.
func (s *stage) crash(p *onionnet.Publisher, clients []*tornet.Tor, host string) {
	s.t.Helper()
	s.hosts[host].Kill()
	began := time.Now()
	s.roster.Dead("b")
	s.awaitPublished(p, "a")
	bound(s.t, "dead host, suspected at once, out of the descriptor", time.Since(began), 3*time.Second)
	bound(s.t, "slowest fresh connection after that", s.judge("after a crash", s.visits(clients[:2], either(10, 5))), 5*time.Second)
}

// yesterday is a publisher of an earlier term that comes back: all its posts
// are refused, and it stands back.
func (s *stage) yesterday(p *onionnet.Publisher, clients []*tornet.Tor) {
	s.t.Helper()
	old := s.publish("a", 1)
	defer old.Kill()
	s.until("stand back", func() error {
		if !old.Status().Fenced {
			return fmt.Errorf("not yet: %+v", old.Status())
		}
		return nil
	})
	rejected := 0
	for _, u := range old.Uploads() {
		switch {
		case u.Err == nil:
			// At the beginning of a period the later publisher may not have been
			// there yet. It must have been since.
			s.until("post of the later term at "+u.Dir.String(), func() error { return stored(p, u.Dir, u.At) })
		case strings.Contains(u.Err.Error(), publisher.ErrRejected.Error()):
			rejected++
		}
	}
	if rejected == 0 {
		s.t.Error("no directory refused a post of an earlier term")
	}
	s.t.Logf("publisher of an earlier term: %d of %d posts refused, stands back", rejected, len(old.Uploads()))
	if p.Status().Fenced {
		s.t.Error("the publisher of the later term stands back")
	}
	s.judge("after it", s.visits(clients[:1], 2))
}

// TestRotation is days in minutes: introduction points and directories change
// under clients with and without a cached descriptor, then the publisher dies
// at the worst moment.
func TestRotation(t *testing.T) {
	long(t)
	t.Parallel()
	s := newStage(t)
	s.start("a", "b", "c")
	p := s.publish("a", 1)
	s.awaitPublished(p, "a", "b", "c")
	clients := s.clients("client", 6)

	cached := s.drive(clients[:2], 0)
	fresh := s.drive(clients[2:], 3)
	for change := range 3 {
		at := s.awaitChange(tornet.Period / 2)
		t.Logf("change %d at %s", change, at.Format(time.TimeOnly))
	}
	time.Sleep(30 * time.Second) // what the last change brings
	stalls := 0
	for _, v := range cached.end() {
		if v.Took > 2*time.Second {
			t.Logf("client with a cache: stall of %s at %s", v.Took.Round(time.Millisecond), v.Begin.Format(time.TimeOnly))
			stalls++
		}
	}
	bound(t, "longest stall of two clients with a cache over 3 changes", s.judge("clients with a cache", cached.so()), 10*time.Second)
	if stalls > 6 {
		t.Errorf("%d stalls of two clients in 3 changes", stalls)
	}
	s.judge("fresh clients over 3 changes", fresh.end())

	s.awaitChange(tornet.Period)
	death := time.Now()
	running := s.drive(clients, 3)
	s.hosts["a"].Kill()
	p.Kill()
	time.Sleep(failover)
	s.roster.Dead("a")
	began := time.Now()
	next := s.publish("b", 2)
	s.awaitPublished(next, "b", "c")
	first := next.Uploads()[0].At
	for _, u := range next.Uploads() {
		if u.Err != nil {
			t.Errorf("post of the successor: %v", u.Err)
		}
	}
	bound(t, "successor's first post after it has the duty", first.Sub(began), 3*time.Second)
	t.Logf("publisher killed at a rotation; successor's descriptor found after %s", time.Since(death).Round(time.Millisecond))
	time.Sleep(time.Minute)
	s.judge("fresh clients from the publisher's death on", running.end())
}

// failover is about what the lease takes until another host has the duty.
const failover = 3 * time.Second

// awaitCalm waits until no rotation, which has clients with a cache wait by
// itself, is under way or comes within d.
func awaitCalm(d time.Duration) {
	const settled = 20 * time.Second // hosts, publisher and clients have the new consensus
	into := time.Since(time.Now().Truncate(tornet.Period / 2))
	switch {
	case into < settled:
		time.Sleep(settled - into)
	case into+d > tornet.Period/2:
		time.Sleep(tornet.Period/2 - into + settled)
	}
}

// awaitChange waits for the first consensus after a shared random value or a
// period begins; every=Period: only for the former, when hosts replace all
// introduction points.
func (s *stage) awaitChange(every time.Duration) time.Time {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), every+2*time.Minute)
	defer cancel()
	last := time.Now().Truncate(every)
	for {
		if text, err := s.n.Consensus(ctx); err == nil {
			if at := validAfter(text); at.Truncate(every).After(last) {
				return at
			}
		}
		select {
		case <-ctx.Done():
			s.t.Fatal("no rotation came")
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func validAfter(consensus string) time.Time {
	_, rest, _ := strings.Cut(consensus, "\nvalid-after ")
	line, _, _ := strings.Cut(rest, "\n")
	at, err := time.Parse(time.DateTime, line)
	if err != nil {
		return time.Time{}
	}
	return at
}
