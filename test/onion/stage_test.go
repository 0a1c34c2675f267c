package onion

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/onionnet"
	"github.com/skein-project/skein/internal/tornet"
	"github.com/skein-project/skein/publisher"
	"github.com/skein-project/skein/publisher/descriptor"
)

func prove() bool { return os.Getenv("SKEIN_PROVE") == "1" }

// long skips a test that waits for minutes.
func long(t *testing.T) {
	t.Helper()
	if !prove() {
		t.Skip("takes minutes: SKEIN_PROVE=1 runs it")
	}
}

// either returns the full count, or the reduced one.
func either[T any](full, reduced T) T {
	if prove() {
		return full
	}
	return reduced
}

// bound reports a time that is too long. Without SKEIN_PROVE it is only
// printed.
func bound(t *testing.T, what string, took, most time.Duration) {
	t.Helper()
	t.Logf("%s: %s (limit %s)", what, took.Round(time.Millisecond), most)
	if prove() && took > most {
		t.Errorf("%s took %s, at most %s are allowed", what, took, most)
	}
}

// stage is an address of its own with hosts and publishers, on the network
// that all tests share.
type stage struct {
	t      *testing.T
	n      *tornet.Network
	dir    string
	key    descriptor.SecretKey
	roster *onionnet.Roster
	log    zerolog.Logger
	logs   *lockedFile
	hosts  map[string]*onionnet.Host
}

// lockedFile takes the log of all goroutines.
type lockedFile struct {
	mu sync.Mutex
	f  io.WriteCloser
}

func (l *lockedFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Write(p)
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, n: sharedNetwork(t), roster: onionnet.NewRoster(), hosts: map[string]*onionnet.Host{}}
	var seed [32]byte
	if _, err := rand.Read(seed[:]); err != nil {
		t.Fatal(err)
	}
	s.key = descriptor.NewSecretKey(seed)
	// Beside the tors, so that it stays when a test fails.
	s.dir = filepath.Join(s.n.Dir(), strings.ReplaceAll(t.Name(), "/", "_"))
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(s.dir, "skein.log"))
	if err != nil {
		t.Fatal(err)
	}
	s.logs = &lockedFile{f: f}
	s.log = zerolog.New(s.logs).With().Timestamp().Logger()
	return s
}

// start starts hosts of these names, all at once, and tells the roster what
// they have.
func (s *stage) start(names ...string) {
	s.t.Helper()
	s.startWith([]descriptor.Address{s.key.Address()}, names...)
}

func (s *stage) startWith(masters []descriptor.Address, names ...string) {
	s.t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	made := make([]*onionnet.Host, len(names))
	s.atOnce(len(names), func(i int) (err error) {
		made[i], err = onionnet.StartHost(ctx, s.n, onionnet.HostOptions{
			Name: names[i], Dir: filepath.Join(s.dir, names[i]), Masters: masters, Log: s.log.With().Str("host", names[i]).Logger(),
		})
		return err
	})
	for i, h := range made {
		s.t.Cleanup(h.Close)
		s.hosts[names[i]] = h
		h.Feed(s.roster)
	}
	s.until("points of all hosts", func() error {
		known := s.roster.Texts()
		for _, name := range names {
			if _, ok := known[cluster.NodeID(name)]; !ok {
				return fmt.Errorf("none of %s", name)
			}
		}
		return nil
	})
	bound(s.t, fmt.Sprintf("%d hosts at once, from the start of tor until the publisher has their points", len(names)), time.Since(began), 15*time.Second)
}

// atOnce runs f for 0 to n-1 at the same time and ends the test if one fails.
func (s *stage) atOnce(n int, f func(i int) error) {
	s.t.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) until(what string, try func() error) time.Duration {
	s.t.Helper()
	return eventually(s.t, what, func(context.Context) error { return try() })
}

// publish starts a publisher on a host.
func (s *stage) publish(host string, term cluster.Term, clients ...*ecdh.PublicKey) *onionnet.Publisher {
	s.t.Helper()
	p, err := onionnet.StartPublisher(s.t.Context(), onionnet.PublisherOptions{
		Key: s.key, Clients: clients, Tor: s.hosts[host].Tor, Roster: s.roster, Term: term, Log: s.log.With().Str("host", host).Logger(),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(p.Kill)
	return p
}

// awaitPublished waits until clients find a descriptor with points of these
// hosts and of no other.
func (s *stage) awaitPublished(p *onionnet.Publisher, hosts ...string) time.Duration {
	s.t.Helper()
	return s.until("published "+strings.Join(hosts, " "), func() error {
		st := p.Status()
		var have []string
		for node := range st.Points {
			have = append(have, string(node))
		}
		slices.Sort(have)
		if !slices.Equal(have, hosts) {
			return fmt.Errorf("descriptor %d has points of %v: %v", st.Version, have, st)
		}
		if n := found(p.Reports(), st.Version); n < 2 {
			return fmt.Errorf("%d of 2 descriptors of version %d are found", n, st.Version)
		}
		return nil
	})
}

// found counts the descriptors of a version that clients find.
func found(all []publisher.Report, version uint64) (n int) {
	for _, r := range all {
		if r.Published != nil && r.Published.Version == version {
			n++
		}
	}
	return n
}

// clients starts so many clients, all at once.
func (s *stage) clients(name string, count int, lines ...string) []*tornet.Tor {
	s.t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	all := make([]*tornet.Tor, count)
	s.atOnce(count, func(i int) (err error) {
		if all[i], err = s.n.Launch(s.t.Name()+"."+name+strconv.Itoa(i), lines...); err != nil {
			return err
		}
		return all[i].AwaitBootstrap(ctx)
	})
	for _, c := range all {
		s.t.Cleanup(c.Kill)
	}
	s.t.Logf("%d clients ready after %s", count, time.Since(began).Round(time.Millisecond))
	return all
}

// load is what clients met while they connected again and again.
type load struct {
	mu     sync.Mutex
	visits []onionnet.Visit
	stop   context.CancelFunc
	wg     sync.WaitGroup
}

// drive has each client connect again and again until end is called, never
// sharing a circuit. Those that are fresh forget before each round of so many
// connections what they know; 0: they never forget.
func (s *stage) drive(clients []*tornet.Tor, fresh int) *load {
	ctx, cancel := context.WithCancel(s.t.Context())
	l := &load{stop: cancel}
	for i, c := range clients {
		l.wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if fresh > 0 && n%fresh == 0 && c.Fresh(ctx) != nil {
					return
				}
				// What began is brought to its end.
				v := onionnet.TakeVisit(context.WithoutCancel(ctx), c, fmt.Sprintf("%d-%d-%d", time.Now().UnixNano(), i, n), s.key.Address())
				l.mu.Lock()
				l.visits = append(l.visits, v)
				l.mu.Unlock()
				select {
				case <-ctx.Done():
				case <-time.After(200 * time.Millisecond):
				}
			}
		})
	}
	return l
}

// so returns what was met so far.
func (l *load) so() []onionnet.Visit {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.visits)
}

// end waits for the connections under way.
func (l *load) end() []onionnet.Visit {
	l.stop()
	l.wg.Wait()
	return l.visits
}

// visits takes so many connections through each client, after it forgot what
// it knew.
func (s *stage) visits(clients []*tornet.Tor, each int) []onionnet.Visit {
	s.t.Helper()
	var mu sync.Mutex
	var all []onionnet.Visit
	s.atOnce(len(clients), func(i int) error {
		if err := clients[i].Fresh(s.t.Context()); err != nil {
			return err
		}
		for n := range each {
			v := onionnet.TakeVisit(s.t.Context(), clients[i], fmt.Sprintf("v%d-%d", time.Now().UnixNano(), n), s.key.Address())
			mu.Lock()
			all = append(all, v)
			mu.Unlock()
		}
		return nil
	})
	return all
}

// judge prints what connections met and fails if one failed. Without
// SKEIN_PROVE a tenth may, and one of few: where other tests share the
// processors tor gives up circuits that are not made in time.
func (s *stage) judge(what string, visits []onionnet.Visit) (slowest time.Duration) {
	s.t.Helper()
	hosts := map[string]int{}
	var times []time.Duration
	tolerated := either(0, max(1, len(visits)/10))
	for _, v := range visits {
		if v.Err != nil {
			report := s.t.Errorf
			if tolerated--; tolerated >= 0 {
				report = s.t.Logf
			}
			report("%s: after %s: %v", what, v.Took.Round(time.Millisecond), v.Err)
			continue
		}
		hosts[v.Host]++
		times = append(times, v.Took)
	}
	slices.Sort(times)
	if len(times) == 0 {
		s.t.Errorf("%s: no connection", what)
		return 0
	}
	slowest = times[len(times)-1]
	s.t.Logf("%s: %d of %d connections, by host %v, median %s, p95 %s, max %s", what, len(times), len(visits), hosts,
		times[len(times)/2].Round(time.Millisecond), times[len(times)*95/100].Round(time.Millisecond), slowest.Round(time.Millisecond))
	return slowest
}

// shares are the parts of the descriptor that each host has now.
func shares(p *onionnet.Publisher) map[string]float64 {
	points, sum := p.Status().Points, 0
	for _, n := range points {
		sum += n
	}
	out := map[string]float64{}
	for node, n := range maps.All(points) {
		out[string(node)] = float64(n) / float64(sum)
	}
	return out
}
