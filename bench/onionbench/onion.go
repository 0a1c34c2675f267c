package onionbench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/onionnet"
	"github.com/skein-project/skein/internal/tornet"
	"github.com/skein-project/skein/publisher/descriptor"
	"github.com/skein-project/skein/tor"
)

const (
	// onionInterval is the one that onionbalance's testnet mode takes for
	// granted.
	onionInterval = 20 * time.Second
	onionPeriod   = 24 * onionInterval
	// suspectTime is how long a host is silent until it is suspect, in the
	// profile lan; failoverTime what the lease takes to pass on the duty.
	suspectTime  = 3 * time.Second
	failoverTime = 4 * time.Second
	// waitTime bounds what either side takes to publish.
	waitTime = 5 * time.Minute
	// patience is when a user gives up, in the clients' configuration.
	patience = 30 * time.Second
)

// Onion compares the publisher with onionbalance on a private Tor network: the
// same three hosts are instances of two addresses at the same time, one for
// each side.
func Onion(ctx context.Context, s *suite.Suite) error {
	if s.Size.OnionRounds == 0 {
		return nil
	}
	for _, program := range []string{"onionbalance", "tor", "tor-gencert"} {
		if _, err := exec.LookPath(program); err != nil {
			s.Skip("onion", err.Error())
			return nil
		}
	}
	o := &onionStage{s: s, dir: filepath.Join(s.Dir, "onion"), roster: onionnet.NewRoster(), hosts: map[string]*onionnet.Host{}}
	defer o.close()
	if err := o.up(ctx); err != nil {
		return err
	}
	changed := suite.Series{Name: "changed points at all directories", Unit: "s", Digest: suite.Median, Target: suite.Want("ratio", "<=", 1)}
	dead := suite.Series{Name: "dead host out of the descriptor", Unit: "s", Digest: suite.Median, Target: suite.Want("ratio", "<=", 1)}
	lost := suite.Series{Name: "connections lost, a host dies", Unit: "%", Digest: suite.Median, Target: suite.Want("ours", "<=", 1)}
	outage := suite.Series{Name: "connections lost, publisher dies over a rotation", Unit: "%", Digest: suite.Median, Target: suite.Want("ours", "<=", 1)}
	for range s.Size.OnionRounds {
		if err := o.change(ctx, &changed); err != nil {
			return err
		}
		if err := o.death(ctx, &dead, &lost); err != nil {
			return err
		}
	}
	if err := o.outage(ctx, &outage); err != nil {
		return err
	}
	for _, row := range []suite.Series{changed, dead, lost, outage} {
		row.With = "onionbalance " + o.balance.version + " in testnet mode"
		s.Add(row)
	}
	return nil
}

// onionStage is the network with both sides on it.
type onionStage struct {
	s          *suite.Suite
	dir        string
	n          *tornet.Network
	ours, peer descriptor.SecretKey
	roster     *onionnet.Roster
	hosts      map[string]*onionnet.Host
	publisher  *onionnet.Publisher
	balance    *balance
	eyes       *onionnet.Host // looks at the directories, serves nobody
	clients    []*tornet.Tor
}

func newOnionKey() (descriptor.SecretKey, error) {
	var seed [32]byte
	_, err := rand.Read(seed[:])
	return descriptor.NewSecretKey(seed), err
}

func (o *onionStage) up(ctx context.Context) (err error) {
	for _, k := range []*descriptor.SecretKey{&o.ours, &o.peer} {
		if *k, err = newOnionKey(); err != nil {
			return err
		}
	}
	o.n, err = tornet.Start(ctx, tornet.Options{Interval: onionInterval, SpreadStore: 4, SpreadFetch: 3, Log: o.s.Progress})
	if err != nil {
		return err
	}
	for _, name := range []string{"a", "b", "c"} {
		if err := o.startHost(ctx, name); err != nil {
			return err
		}
	}
	if o.eyes, err = onionnet.StartHost(ctx, o.n, onionnet.HostOptions{Name: "eyes", Dir: filepath.Join(o.dir, "eyes"), Log: zerolog.Nop()}); err != nil {
		return err
	}
	if o.publisher, err = o.publish(ctx, "a", 1); err != nil {
		return err
	}
	if o.balance, err = startBalance(ctx, o); err != nil {
		return err
	}
	for i := range 4 {
		c, err := o.n.Launch(fmt.Sprint("client", i), fmt.Sprint("SocksTimeout ", int(patience/time.Second)))
		if err != nil {
			return err
		}
		if err := c.AwaitBootstrap(ctx); err != nil {
			return err
		}
		o.clients = append(o.clients, c)
	}
	return o.complete(ctx)
}

func (o *onionStage) startHost(ctx context.Context, name string) error {
	h, err := onionnet.StartHost(ctx, o.n, onionnet.HostOptions{
		Name: name, Dir: filepath.Join(o.dir, name), Masters: []descriptor.Address{o.ours.Address(), o.peer.Address()}, Log: zerolog.Nop(),
	})
	if err != nil {
		return err
	}
	o.hosts[name] = h
	h.Feed(o.roster)
	return nil
}

func (o *onionStage) publish(ctx context.Context, host string, term cluster.Term) (*onionnet.Publisher, error) {
	return onionnet.StartPublisher(ctx, onionnet.PublisherOptions{
		Key: o.ours, Tor: o.hosts[host].Tor, Roster: o.roster, Term: term, Log: zerolog.Nop(),
	})
}

func (o *onionStage) close() {
	for _, h := range o.hosts {
		h.Close()
	}
	if o.publisher != nil {
		o.publisher.Kill()
	}
	if o.eyes != nil {
		o.eyes.Close()
	}
	if o.balance != nil {
		o.balance.kill()
	}
	if o.n != nil {
		_ = o.n.Close()
	}
}

// complete waits until both sides have points of all hosts at all directories.
func (o *onionStage) complete(ctx context.Context) error {
	took, err := o.both(ctx, "all hosts are in both descriptors", func() func(points) bool {
		var each []points
		for name := range o.hosts {
			each = append(each, o.pointsOf(ctx, name))
		}
		return func(found points) bool {
			return !slices.ContainsFunc(each, func(p points) bool { return !found.any(p) })
		}
	})
	if err == nil && took[1] == waitTime {
		err = fmt.Errorf("onionbalance has not got all hosts into its descriptors within %s", waitTime)
	}
	return err
}

// change replaces the points of a host and waits for both sides.
func (o *onionStage) change(ctx context.Context, row *suite.Series) error {
	old := o.pointsOf(ctx, "b")
	if err := o.hosts["b"].Signal(syscall.SIGKILL); err != nil {
		return err
	}
	if err := o.await(ctx, "host has new points", waitTime, func() bool {
		schedule, _, err := o.schedule(ctx)
		h := o.roster.Texts()["b"]
		if err != nil {
			return false
		}
		now, err := open(h.Text, h.Address, schedule.Periods()...)
		return err == nil && len(now) >= tor.MinIntroPoints && !now.any(old)
	}); err != nil {
		return err
	}
	took, err := o.both(ctx, "changed points are at all directories", func() func(points) bool {
		fresh := o.pointsOf(ctx, "b")
		return func(found points) bool { return found.any(fresh) && !found.any(old) }
	})
	if err != nil {
		return err
	}
	row.Ours, row.Peer = append(row.Ours, took[0].Seconds()), append(row.Peer, took[1].Seconds())
	return nil
}

// death kills a host under load, waits until both sides have dropped it, and
// starts it again.
func (o *onionStage) death(ctx context.Context, dead, lost *suite.Series) error {
	gone := o.pointsOf(ctx, "c")
	load := o.drive(ctx)
	began := time.Now()
	o.hosts["c"].Kill()
	suspected := time.AfterFunc(suspectTime, func() { o.roster.Dead("c") })
	defer suspected.Stop()
	took, err := o.both(ctx, "the dead host is out", func() func(points) bool {
		return func(found points) bool { return len(found) > 0 && !found.any(gone) }
	})
	if err == nil {
		err = suite.Pause(ctx, time.Until(began.Add(time.Minute)))
	}
	ours, peer := load.end()
	if err != nil {
		return err
	}
	o.s.Progress("a host dies: ours %s, theirs %s", ours, peer)
	dead.Ours, dead.Peer = append(dead.Ours, took[0].Seconds()), append(dead.Peer, took[1].Seconds())
	lost.Ours, lost.Peer = append(lost.Ours, ours.percent()), append(lost.Peer, peer.percent())
	if err := o.startHost(ctx, "c"); err != nil {
		return err
	}
	return o.complete(ctx)
}

// outage kills both publishers with their hosts just before all introduction
// points are replaced, and looks who is served from then on.
func (o *onionStage) outage(ctx context.Context, row *suite.Series) error {
	next := time.Now().Truncate(onionPeriod).Add(onionPeriod)
	o.s.Progress("waiting for the rotation at %s", next.Format(time.TimeOnly))
	if err := suite.Pause(ctx, time.Until(next.Add(-onionInterval))); err != nil {
		return err
	}
	o.balance.kill()
	o.hosts["a"].Kill()
	o.publisher.Kill()
	if err := suite.Pause(ctx, failoverTime); err != nil {
		return err
	}
	o.roster.Dead("a")
	var err error
	if o.publisher, err = o.publish(ctx, "b", 2); err != nil {
		return err
	}
	if err := suite.Pause(ctx, time.Until(next)); err != nil {
		return err
	}
	load := o.drive(ctx)
	err = suite.Pause(ctx, 3*time.Minute)
	ours, peer := load.end()
	o.s.Progress("publisher dies over a rotation: ours %s, theirs %s", ours, peer)
	row.Ours, row.Peer = append(row.Ours, ours.percent()), append(row.Peer, peer.percent())
	return err
}

// tally counts the connections to one side.
type tally struct {
	all, lost int
	slowest   time.Duration
}

func (t tally) percent() float64 { return 100 * float64(t.lost) / float64(max(t.all, 1)) }

func (t tally) String() string {
	return fmt.Sprintf("%d of %d connections lost, slowest of the others %s", t.lost, t.all, t.slowest.Round(time.Millisecond))
}

// onionLoad is clients that connect to both sides in turn.
type onionLoad struct {
	stop    context.CancelFunc
	workers sync.WaitGroup
	mu      sync.Mutex
	tallies [2]tally
}

// drive has all clients forget what they know and connect to both addresses,
// again and again.
func (o *onionStage) drive(ctx context.Context) *onionLoad {
	ctx, cancel := context.WithCancel(ctx)
	l := &onionLoad{stop: cancel}
	addresses := [2]descriptor.Address{o.ours.Address(), o.peer.Address()}
	for i, c := range o.clients {
		l.workers.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				if n%4 == i%4 && c.Fresh(ctx) != nil {
					return
				}
				for side := range addresses {
					side = (side + n) % 2
					l.note(side, onionnet.TakeVisit(context.WithoutCancel(ctx), c, fmt.Sprint(n, "-", side, "-", time.Now().UnixNano()), addresses[side]))
				}
			}
		})
	}
	return l
}

func (l *onionLoad) note(side int, v onionnet.Visit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &l.tallies[side]
	t.all++
	if v.Err != nil {
		t.lost++
	} else {
		t.slowest = max(t.slowest, v.Took)
	}
}

func (l *onionLoad) end() (ours, peer tally) {
	l.stop()
	l.workers.Wait()
	return l.tallies[0], l.tallies[1]
}

// points are the authentication keys of introduction points.
type points map[[32]byte]bool

func (p points) any(other points) bool {
	for k := range other {
		if p[k] {
			return true
		}
	}
	return false
}

// pointsOf are those of a host: of the descriptor that its tor tells, which
// skein takes, and of the one that clients of the host itself find, which
// onionbalance takes. For half of each period these are two.
func (o *onionStage) pointsOf(ctx context.Context, name string) points {
	h := o.roster.Texts()[cluster.NodeID(name)]
	own := points{}
	if schedule, _, err := o.schedule(ctx); err == nil {
		if found, err := open(h.Text, h.Address, schedule.Periods()...); err == nil {
			maps.Copy(own, found)
		}
	}
	if all, err := o.look(ctx, h.Address); err == nil {
		for _, found := range all {
			maps.Copy(own, found)
		}
	}
	return own
}

func open(text []byte, a descriptor.Address, periods ...descriptor.Period) (points, error) {
	now := time.Now()
	sealed, err := descriptor.Parse(text, now)
	if err != nil {
		return nil, err
	}
	period, err := sealed.Period(a, periods)
	if err != nil {
		return nil, err
	}
	opened, err := sealed.Open(a, period, nil, now)
	if err != nil {
		return nil, err
	}
	found := points{}
	for _, p := range opened.Points {
		found[p.AuthKey] = true
	}
	return found, nil
}

func (o *onionStage) schedule(ctx context.Context) (descriptor.Schedule, *descriptor.Consensus, error) {
	text, err := o.eyes.Tor.Consensus(ctx)
	if err != nil {
		return descriptor.Schedule{}, nil, err
	}
	c, err := descriptor.ParseConsensus([]byte(text))
	if err != nil {
		return descriptor.Schedule{}, nil, err
	}
	schedule, err := c.Schedule(true)
	return schedule, c, err
}

// both waits until every descriptor that clients find is, for each side, as
// wanted, and returns how long each side took: waitTime where the other one
// did not get there.
func (o *onionStage) both(ctx context.Context, what string, wanted func() func(points) bool) (took [2]time.Duration, err error) {
	began := time.Now()
	var errs [2]error
	var wg sync.WaitGroup
	for side, key := range []descriptor.SecretKey{o.ours, o.peer} {
		wg.Go(func() {
			var last error
			errs[side] = o.await(ctx, what, waitTime, func() bool {
				var all []points
				if all, last = o.look(ctx, key.Address()); last != nil {
					return false
				}
				ok := wanted()
				missed := 0
				for _, found := range all {
					if !ok(found) {
						missed++
					}
				}
				if missed > 0 {
					last = fmt.Errorf("%d of %d descriptors are not so", missed, len(all))
				}
				return missed == 0
			})
			if errs[side] != nil {
				errs[side] = fmt.Errorf("%w: %w", errs[side], last)
			}
			took[side] = min(time.Since(began), waitTime)
		})
	}
	wg.Wait()
	o.s.Progress("%s: ours after %s, theirs after %s", what, took[0].Round(100*time.Millisecond), took[1].Round(100*time.Millisecond))
	if errs[1] != nil && took[1] == waitTime {
		o.s.Progress("theirs: %v", errs[1])
		errs[1] = nil
	}
	return took, errors.Join(errs[:]...)
}

// await looks again and again, with a pause that leaves the processors to
// others.
func (o *onionStage) await(ctx context.Context, what string, within time.Duration, f func() bool) error {
	for began := time.Now(); !f(); {
		if time.Since(began) > within {
			return fmt.Errorf("%s: not within %s", what, within)
		}
		if err := suite.Pause(ctx, 300*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// look reads what the directories have that clients ask now. Where there is
// nothing a client goes on to the next one.
func (o *onionStage) look(ctx context.Context, a descriptor.Address) ([]points, error) {
	schedule, consensus, err := o.schedule(ctx)
	if err != nil {
		return nil, err
	}
	mds, err := o.eyes.Tor.Microdescriptors(ctx)
	if err != nil {
		return nil, err
	}
	known, err := descriptor.ParseMicrodescs([]byte(mds))
	if err != nil {
		return nil, err
	}
	slot := schedule.Fetched()
	ring, err := consensus.Ring(known, slot)
	if err != nil {
		return nil, err
	}
	dirs := ring.Fetch(a.Blind(slot.Period))
	var all []points
	var errs []error
	for _, dir := range dirs {
		limit, cancel := context.WithTimeout(ctx, 15*time.Second)
		text, err := o.eyes.Tor.Fetch(limit, a.String(), dir.String())
		cancel()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found, err := open([]byte(text), a, slot.Period)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, found)
	}
	if 2*len(all) < len(dirs) {
		return nil, fmt.Errorf("%d of %d directories have a descriptor of %s: %w", len(all), len(dirs), a, errors.Join(errs...))
	}
	return all, nil
}
