package logbench

import (
	"context"
	"path/filepath"
	"time"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/bench/testbed"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/state"
)

// Propagation measures, between three hosts, the time from an append on one
// until another has the event on its disk and in its state: a voter, to which
// it is pushed, and a host that pulls.
func Propagation(ctx context.Context, s *suite.Suite, peer *testbed.RaftTrio) error {
	c, err := testbed.NewSkein(3, cluster.ProfileLAN, 6)
	if err != nil {
		return err
	}
	var hosts []*logHost
	defer func() {
		for _, h := range hosts {
			h.close()
		}
	}()
	voters := []cluster.NodeID{c.Hosts[0].Node, c.Hosts[1].Node}
	cfg := cluster.VoterConfig{Epoch: 1, Term: 1, Voters: voters, Mode: cluster.AutoMode(len(voters))}
	for _, id := range c.Hosts {
		o := logOptions(c, id, filepath.Join(s.Dir, "propagation", string(id.Node)))
		o.PullEvery = 0 // as in production
		o.Peers = func() []cluster.NodeID { return voters }
		h, err := startLog(c, id, o)
		if err != nil {
			return err
		}
		hosts = append(hosts, h)
		h.log.SetVoters(cfg)
	}
	var pushed, pulled, followed []float64
	for i := range s.Size.Propagations + 1 {
		s.Progress("propagation, event %d of %d", i, s.Size.Propagations)
		var a, b, f time.Duration
		err := suite.InTurn(i, func() (err error) {
			a, b, err = arrive(ctx, hosts)
			return err
		}, func() (err error) {
			f, err = spread(ctx, peer)
			return err
		})
		if err != nil {
			return err
		}
		if i > 0 { // the first opens streams and files
			pushed, pulled, followed = append(pushed, suite.Ms(a)), append(pulled, suite.Ms(b)), append(followed, suite.Ms(f))
		}
	}
	for _, r := range []struct {
		name string
		ours []float64
	}{{"an event on another voter", pushed}, {"an event on a host that pulls", pulled}} {
		for _, p := range []struct {
			name   string
			digest func([]float64) float64
		}{{"p50", suite.Median}, {"p99", suite.P99}} {
			s.Add(suite.Series{
				Name: r.name + ", stored and applied, " + p.name, Unit: "ms", Digest: p.digest, Ours: r.ours, Peer: followed,
				With: peerRaft + ", applied on a follower",
			})
		}
	}
	return nil
}

// arrive appends an event on the first host and says when the others had it.
func arrive(ctx context.Context, hosts []*logHost) (voter, other time.Duration, err error) {
	if err := suite.Phase(ctx); err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	from := hosts[0].log
	src := from.Source()
	next := from.Head(src).Seq + 1
	began := time.Now()
	arrivals := make(chan arrival, 2) // one slot each: never full
	for i, h := range hosts[1:] {
		go func() {
			err := h.log.Wait(ctx, src, next)
			h.log.View(func(*state.State) {}) // waits for the fold
			arrivals <- arrival{i, time.Since(began), err}
		}()
	}
	if _, err := from.Append(ctx, testbed.Draft(1)); err != nil {
		return 0, 0, err
	}
	var took [2]time.Duration
	for range took {
		a := <-arrivals // ends with ctx
		if a.err != nil {
			return 0, 0, a.err
		}
		took[a.host] = a.after
	}
	return took[0], took[1], nil
}

type arrival struct {
	host  int
	after time.Duration
	err   error
}

// spread commits a command and says when a follower had applied it.
func spread(ctx context.Context, t *testbed.RaftTrio) (time.Duration, error) {
	leader, err := ready(ctx, t.Settle, t.Leader)
	if err != nil {
		return 0, err
	}
	follower := t.Follower(leader)
	began := time.Now()
	f := leader.Raft.Apply(make([]byte, 300), 10*time.Second)
	if err := f.Error(); err != nil {
		return 0, err
	}
	return follower.Applied.Wait(ctx, f.Index(), began)
}
