package publisher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/lease"
	"github.com/skein-project/skein/publisher/descriptor"
)

// directories are the directories of a network, with the rule of revisions.
type directories struct {
	mu     sync.Mutex
	have   map[descriptor.Fingerprint]map[descriptor.Blinded][]byte
	dead   map[descriptor.Fingerprint]bool // no answer at all
	fetch  descriptor.Blinded              // what clients ask for
	calls  map[descriptor.Fingerprint]int
	worst  int // calls at one directory at a time
	stored int
}

func (d *directories) enter(f descriptor.Fingerprint) func() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls[f]++
	d.worst = max(d.worst, d.calls[f])
	return func() { d.mu.Lock(); d.calls[f]--; d.mu.Unlock() }
}

func (d *directories) wait(ctx context.Context, f descriptor.Fingerprint) error {
	d.mu.Lock()
	dead := d.dead[f]
	d.mu.Unlock()
	if dead {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(200 * time.Millisecond)
	return nil
}

func (d *directories) Upload(ctx context.Context, _ descriptor.Address, f descriptor.Fingerprint, text []byte) error {
	defer d.enter(f)()
	if err := d.wait(ctx, f); err != nil {
		return err
	}
	s, err := descriptor.Parse(text, time.Now())
	if err != nil {
		return fmt.Errorf("bad descriptor: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.have[f][s.Blinded]; old != nil {
		if o, err := descriptor.Parse(old, time.Now()); err == nil && o.Revision >= s.Revision {
			return fmt.Errorf("HSDir: %w", ErrRejected)
		}
	}
	if d.have[f] == nil {
		d.have[f] = map[descriptor.Blinded][]byte{}
	}
	d.have[f][s.Blinded] = text
	d.stored++
	return nil
}

func (d *directories) Fetch(ctx context.Context, _ descriptor.Address, f descriptor.Fingerprint) ([]byte, error) {
	defer d.enter(f)()
	if err := d.wait(ctx, f); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if text := d.have[f][d.fetch]; text != nil {
		return text, nil
	}
	return nil, errors.New("not found")
}

// file is Floors in memory; it fails if told to.
type file struct {
	mu     sync.Mutex
	floors map[descriptor.Period]uint64
	fail   error
}

func (f *file) Load() (map[descriptor.Period]uint64, error) { return f.floors, f.fail }

func (f *file) Save(m map[descriptor.Period]uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail == nil {
		f.floors = maps.Clone(m)
	}
	return f.fail
}

// stage is a network with hosts and one publisher, within a bubble.
type stage struct {
	t       *testing.T
	dirs    *directories
	file    *file
	pub     *Publisher
	key     descriptor.SecretKey
	net     Network
	sched   descriptor.Schedule
	hosts   []Host
	mu      sync.Mutex
	reports []string
}

func hostKey(n int) descriptor.SecretKey { return descriptor.NewSecretKey([32]byte{'h', byte(n)}) }

// pointAt makes a point of a host.
func pointAt(host, rel, generation int) descriptor.Point {
	p := descriptor.Point{Relay: relay(rel), AuthKeyType: 1, EncKeyType: 1}
	p.Links = string(append([]byte{1, 2, 20}, p.Relay[:]...))
	p.OnionKey = [32]byte{1, byte(rel)}
	p.AuthKey = [32]byte{2, byte(host), byte(rel), byte(generation)}
	p.EncKey = [32]byte{3, byte(host), byte(rel), byte(generation)}
	p.EncCert = [32]byte{4, byte(host), byte(rel), byte(generation)}
	return p
}

// host makes a host with three points of its own relays.
func (s *stage) host(n, generation int) Host {
	key := hostKey(n)
	var points []descriptor.Point
	for i := range 3 {
		points = append(points, pointAt(n, 100+10*n+i, generation))
	}
	b, err := descriptor.Build(descriptor.Params{
		Key: key, Period: s.sched.Fetched().Period, Revision: uint64(1000 + generation), Points: points,
		Header: []string{"flow-control 1-2 31\n"}, Now: time.Now(), Entropy: [32]byte{byte(n), byte(generation)},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return Host{Node: cluster.NodeID(fmt.Sprint("host-", n)), Address: key.Address(), Weight: 1, Text: b.Text}
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{
		t: t, key: descriptor.NewSecretKey([32]byte{'m'}), file: &file{},
		dirs: &directories{
			have: map[descriptor.Fingerprint]map[descriptor.Blinded][]byte{}, dead: map[descriptor.Fingerprint]bool{},
			calls: map[descriptor.Fingerprint]int{},
		},
	}
	s.consensus(time.Now())
	for n := range 3 {
		s.hosts = append(s.hosts, s.host(n, 1))
	}
	s.pub = s.publisher(s.file)
	return s
}

func (s *stage) publisher(f Floors) *Publisher {
	p, err := New(Options{Key: s.key, Uploader: s.dirs, Floors: f, Log: zerolog.Nop(), Report: s.note})
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

func (s *stage) note(r Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Published != nil:
		if d := time.Until(r.Next); d < 40*time.Minute || d > 70*time.Minute {
			s.t.Errorf("the next one is due in %s", d)
		}
		s.reports = append(s.reports, r.Published.String())
	case r.Unpublished != nil:
		s.reports = append(s.reports, r.Unpublished.String())
	case r.Fenced != nil:
		s.reports = append(s.reports, r.Fenced.String())
	case r.Foreign != nil:
		s.reports = append(s.reports, r.Foreign.String())
	case r.Refused != nil:
		s.reports = append(s.reports, "refused "+r.Refused.Err.Error())
	case r.Failed != nil:
		s.reports = append(s.reports, "failed "+r.Failed.Error())
	}
}

func (s *stage) consensus(now time.Time) {
	c := &descriptor.Consensus{
		ValidAfter: now.Truncate(time.Hour), FreshUntil: now.Truncate(time.Hour).Add(time.Hour), ValidUntil: now.Truncate(time.Hour).Add(3 * time.Hour),
		Replicas: 2, SpreadStore: 4, SpreadFetch: 3, Interval: 24 * time.Hour,
	}
	mds := descriptor.Microdescs{}
	for i := range 40 {
		d := descriptor.Dir{Fingerprint: relay(i), Microdesc: [32]byte{byte(i)}}
		c.Dirs = append(c.Dirs, d)
		mds[d.Microdesc] = [32]byte{9, byte(i)}
	}
	sched, err := c.Schedule(false)
	if err != nil {
		s.t.Fatal(err)
	}
	s.net, s.sched = Network{Consensus: c, Microdescs: mds}, sched
	s.dirs.mu.Lock()
	s.dirs.fetch = s.key.Address().Blind(sched.Fetched().Period)
	s.dirs.mu.Unlock()
}

// start runs a publisher until the test ends.
func (s *stage) start(p *Publisher, term cluster.Term) (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	p.SetNetwork(s.net)
	p.SetHosts(s.hosts)
	p.SetDuty(lease.Duty{Publisher: "a", Publishing: true, ByLease: term > 0, Term: term})
	return func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	}
}

// served reads what clients of a slot find: points per host at each directory.
func (s *stage) served(slot descriptor.Slot) (all []map[descriptor.Point]bool) {
	s.t.Helper()
	ring, err := s.net.Consensus.Ring(s.net.Microdescs, slot)
	if err != nil {
		s.t.Fatal(err)
	}
	a := s.key.Address()
	b := a.Blind(slot.Period)
	s.dirs.mu.Lock()
	defer s.dirs.mu.Unlock()
	for _, f := range ring.Store(b) {
		points := map[descriptor.Point]bool{}
		if text := s.dirs.have[f][b]; text != nil && !s.dirs.dead[f] {
			x, err := descriptor.Parse(text, time.Now())
			if err != nil {
				s.t.Fatal(err)
			}
			d, err := x.Open(a, slot.Period, nil, time.Now())
			if err != nil {
				s.t.Fatal(err)
			}
			for _, p := range d.Points {
				points[p] = true
			}
		}
		all = append(all, points)
	}
	return all
}

// want checks that every directory of both slots has these many points, among
// them the given one.
func (s *stage) want(n int, with ...descriptor.Point) {
	s.t.Helper()
	for _, slot := range []descriptor.Slot{s.sched.First, s.sched.Second} {
		for i, points := range s.served(slot) {
			if len(points) != n || slices.ContainsFunc(with, func(p descriptor.Point) bool { return !points[p] }) {
				s.t.Errorf("directory %d of %s has %d points, want %d with %v", i, slot.Period, len(points), n, with)
			}
		}
	}
	s.dirs.mu.Lock()
	defer s.dirs.mu.Unlock()
	if s.dirs.worst > 1 {
		s.t.Errorf("%d calls at one directory at a time", s.dirs.worst)
	}
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestPublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		defer s.start(s.pub, 1)()
		pass(3 * time.Second)
		s.want(9, pointAt(0, 100, 1), pointAt(1, 110, 1), pointAt(2, 120, 1))
		st := s.pub.Status()
		if !st.Publishing || st.Term != 1 || st.Version != 1 || st.Points["host-1"] != 6 || st.Published.IsZero() || st.Size == 0 {
			t.Errorf("status %+v", st)
		}
		s.file.mu.Lock()
		if len(s.file.floors) != 2 {
			t.Errorf("revisions kept: %v", s.file.floors)
		}
		s.file.mu.Unlock()
		s.hosts[1] = s.host(1, 2) // its points changed
		s.pub.SetHosts(s.hosts)
		pass(8 * time.Second)
		s.want(9, pointAt(1, 110, 2))
		s.hosts[2].Weight = 0 // drained
		s.pub.SetHosts(s.hosts)
		pass(8 * time.Second)
		s.want(6, pointAt(0, 100, 1), pointAt(1, 110, 2))
		s.hosts[0].Reserve = true // its backends fail
		s.pub.SetHosts(s.hosts)
		pass(8 * time.Second)
		s.want(3, pointAt(1, 110, 2))
		s.pub.SetHosts(s.hosts[:1]) // the other one is dead: better a failing host than none
		pass(8 * time.Second)
		s.want(3, pointAt(0, 100, 1))
	})
}

func TestHostilePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		defer s.start(s.pub, 1)()
		s.hosts[1] = s.host(1, 5)
		s.pub.SetHosts(s.hosts)
		pass(8 * time.Second)
		good := s.hosts[1]
		corrupt := bytes.Clone(good.Text)
		corrupt[len(corrupt)/2] ^= 1
		for name, c := range map[string]struct {
			text []byte
			want string
		}{
			"corrupt":   {corrupt, ""},
			"truncated": {good.Text[:100], "malformed"},
			"oversized": {bytes.Repeat([]byte("x\n"), 100_000), "too large"},
			"foreign":   {s.hosts[0].Text, "another address"},
			"replayed":  {s.host(1, 4).Text, "older"},
		} {
			s.mu.Lock()
			s.reports = nil
			s.mu.Unlock()
			s.hosts[1].Text = c.text
			s.hosts[0] = s.host(0, 1+len(name)) // the others go on
			s.pub.SetHosts(s.hosts)
			pass(8 * time.Second)
			s.want(9, pointAt(1, 110, 5))
			s.mu.Lock()
			if !slices.ContainsFunc(s.reports, func(r string) bool { return strings.HasPrefix(r, "refused") && strings.Contains(r, c.want) }) {
				t.Errorf("%s: %v", name, s.reports)
			}
			s.mu.Unlock()
			s.hosts[1] = good
			s.pub.SetHosts(s.hosts)
			pass(8 * time.Second)
		}
	})
}

func TestDeadDirectories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		ring, err := s.net.Consensus.Ring(s.net.Microdescs, s.sched.First)
		if err != nil {
			t.Fatal(err)
		}
		dead := ring.Store(s.key.Address().Blind(s.sched.First.Period))[:2]
		for _, f := range dead {
			s.dirs.dead[f] = true
		}
		defer s.start(s.pub, 1)()
		pass(3 * time.Second)
		if s.pub.Status().Published.IsZero() {
			t.Error("two dead directories hold up all")
		}
		pass(time.Minute)
		s.dirs.mu.Lock()
		clear(s.dirs.dead)
		s.dirs.mu.Unlock()
		pass(6 * time.Minute)
		s.want(9)
	})
}

// TestSuccessor: the next publisher is never refused, whatever its clock says,
// and the old one is when it comes back.
func TestSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		stop := s.start(s.pub, 1)
		pass(3 * time.Second)
		stop() // stopped as with SIGSTOP: it does not know
		next := s.publisher(&file{})
		s.hosts = s.hosts[:2]
		stopNext := s.start(next, 2)
		pass(3 * time.Second)
		s.want(6)
		s.mu.Lock()
		s.reports = nil
		s.mu.Unlock()
		s.hosts = append(s.hosts, s.host(2, 9))
		old := s.publisher(s.file)
		stopOld := s.start(old, 1)
		pass(time.Minute)
		s.want(6)
		if !old.Status().Fenced || next.Status().Fenced {
			t.Errorf("old %+v, new %+v", old.Status(), next.Status())
		}
		old.SetDuty(lease.Duty{Publisher: "b"})
		pass(time.Second)
		if old.Status().Publishing || old.Status().Fenced {
			t.Errorf("old %+v", old.Status())
		}
		stopOld()
		stopNext()
	})
}

func TestRevisionsMustBeKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		stop := s.start(s.pub, 1)
		pass(100 * time.Millisecond)
		s.file.mu.Lock()
		s.file.fail = errors.New("disk full")
		s.file.mu.Unlock()
		pass(20 * time.Second)
		s.dirs.mu.Lock()
		if s.dirs.stored != 0 || s.pub.Status().Version != 0 {
			t.Error("posted what is not on disk")
		}
		s.dirs.mu.Unlock()
		s.file.mu.Lock()
		s.file.fail = nil
		s.file.mu.Unlock()
		pass(time.Minute)
		s.want(9)
		stop()
		s.file.fail = errors.New("damaged")
		if err := s.publisher(s.file).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("runs without knowing its revisions: %v", err)
		}
	})
}

// TestDay: period and shared random value change, hosts follow, and clients
// find all hosts after each change and in between.
func TestDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		defer s.start(s.pub, 1)()
		begin := time.Now()
		for _, hour := range []time.Duration{0, 11, 12, 13, 23, 24, 25} {
			time.Sleep(time.Until(begin.Add(hour * time.Hour)))
			s.consensus(time.Now())
			s.pub.SetNetwork(s.net)
			if hour == 24 { // tor replaces all points
				for n := range s.hosts {
					s.hosts[n] = s.host(n, 2)
				}
				s.pub.SetHosts(s.hosts)
			}
			pass(10 * time.Second)
			s.want(9)
		}
	})
}

func TestManyHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.hosts = nil
		for n := range 14 { // 42 points
			s.hosts = append(s.hosts, s.host(n, 1))
		}
		defer s.start(s.pub, 1)()
		pass(5 * time.Second)
		union := map[descriptor.Point]bool{}
		for _, points := range s.served(s.sched.Fetched()) {
			if len(points) != descriptor.MaxPoints {
				t.Errorf("a directory has %d points", len(points))
			}
			maps.Copy(union, points)
		}
		if len(union) <= descriptor.MaxPoints {
			t.Errorf("all directories have the same %d points", len(union))
		}
	})
}

func TestOptions(t *testing.T) {
	key := descriptor.NewSecretKey([32]byte{1})
	for _, o := range []Options{{}, {Key: key}, {Key: key, Uploader: &directories{}}, {Uploader: &directories{}, Floors: &file{}}} {
		if _, err := New(o); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
