package idlehosts

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// many is from how many hosts on a daemon hears of each now and then only, and is told
// of links what is not well.
const many = 64

// Cluster is the cluster, as its first host sees it.
type Cluster struct {
	n     int
	began time.Time

	mu      sync.Mutex
	rng     *rand.Rand
	suspect int // host; 0: none
}

// New makes a cluster of n hosts, which are the same for the same n.
func New(n int) *Cluster {
	return &Cluster{n: n, began: time.Now().Add(-time.Hour), rng: rand.New(rand.NewPCG(uint64(n), 7))}
}

// Suspect has one host be suspect and the one before it alive again; 0: all are alive.
func (c *Cluster) Suspect(host int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.suspect = host % c.n
}

// ago is how long ago something was that happens at regular intervals.
func (c *Cluster) ago(every time.Duration, shift int) *float64 {
	at := time.Since(c.began) + time.Duration(shift)*37*time.Millisecond
	return new((at % every).Seconds() + 0.2*c.rng.Float64())
}

// about is a value that is measured.
func (c *Cluster) about(v float64) *float64 { return new(v * math.Exp(0.15*c.rng.NormFloat64())) }

func node(i int) cluster.NodeID { return cluster.NodeID(fmt.Sprintf("host%d", i)) }

// Members lists the hosts.
func (c *Cluster) Members(context.Context, bool) (api.Members, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out api.Members
	for i := range c.n {
		m := api.Member{Node: node(i), State: cluster.Alive, Self: i == 0, LagEvents: new(uint64(0))}
		if i > 0 {
			m.SeenSeconds, m.RTTSeconds, m.SkewSeconds = c.ago(time.Second, i), c.about(0.0007), new(0.003*c.rng.NormFloat64())
		}
		if c.n > many && i > 0 { // of so many each is heard of now and then only
			m.SeenSeconds = c.ago(time.Minute, 17*i)
		}
		if i > 0 && i == c.suspect {
			m.State = cluster.Suspect
		}
		out.Members = append(out.Members, m)
	}
	return out, nil
}

func (c *Cluster) summary() api.LeaseSummary {
	renewed := *c.ago(time.Second, 3)
	return api.LeaseSummary{
		Holder: "host1", Term: 4, RenewedSeconds: &renewed, ExpiresSeconds: new(5 - renewed), TenureSeconds: new(time.Since(c.began).Seconds()),
	}
}

// Status says that all is well.
func (c *Cluster) Status(context.Context) (api.Status, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := api.Status{Cluster: "blue", State: "ok", Lease: c.summary(), UptimeSeconds: time.Since(c.began).Seconds()}
	s.Log.Events, s.Log.SizeBytes = 1175, 1<<20
	s.Mesh.OldestHandshakeSeconds = c.ago(2*time.Minute, 0)
	return s, nil
}

// Lease says who holds it.
func (c *Cluster) Lease(context.Context) (api.Lease, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return api.Lease{LeaseSummary: c.summary()}, nil
}

// LeaseHistory has one term.
func (c *Cluster) LeaseHistory(context.Context) (api.LeaseHistory, error) {
	return api.LeaseHistory{Terms: []api.TermRecord{{Term: 4, Holder: "host1", StartedAt: c.began}}}, nil
}

// Links has all of a small cluster; of a large one nothing is not well.
func (c *Cluster) Links(context.Context, cluster.NodeID) (api.Links, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out api.Links
	for i := range c.n {
		for k := range c.n {
			if i != k && c.n <= many {
				out.Links = append(out.Links, api.Link{
					From: node(i), To: node(k), State: cluster.Alive, Path: "direct", HandshakeSeconds: c.ago(2*time.Minute, 31*i+700*k),
					RTTSeconds: c.about(0.0007), ReceiveBytesPerSecond: c.about(700), TransmitBytesPerSecond: c.about(700), ReportedAt: new(time.Now()),
				})
			}
		}
	}
	return out, nil
}

// WorkerGroups are the same: none is outside.
func (c *Cluster) WorkerGroups(ctx context.Context) (api.Workers, error) { return c.Workers(ctx) }

// Workers are idle.
func (c *Cluster) Workers(context.Context) (api.Workers, error) {
	var out api.Workers
	for i := range c.n {
		out.Workers = append(out.Workers, api.Worker{Node: node(i), Live: cluster.Alive, Connected: true, Ready: true, Slots: 4, Window: 8, RatePerSecond: new(1e6)})
	}
	return out, nil
}

// Jobs are none.
func (c *Cluster) Jobs(context.Context) (api.Jobs, error) { return api.Jobs{}, nil }

// Workflows have no runs.
func (c *Cluster) Workflows(context.Context) (api.Workflows, error) { return api.Workflows{}, nil }

// Overload is none.
func (c *Cluster) Overload(context.Context) (api.Overload, error) {
	return api.Overload{Level: "normal"}, nil
}

// Zones are none.
func (c *Cluster) Zones(context.Context) (api.Zones, error) { return api.Zones{}, nil }

// WatchedZones implements status.Backend.
func (c *Cluster) WatchedZones(ctx context.Context) (api.Zones, error) { return c.Zones(ctx) }

// LoadRuns are none.
func (c *Cluster) LoadRuns(context.Context) (api.LoadRuns, error) { return api.LoadRuns{}, nil }

// Onion has no addresses.
func (c *Cluster) Onion(context.Context) (api.Onion, error) { return api.Onion{}, nil }
