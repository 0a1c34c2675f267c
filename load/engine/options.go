package engine

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"time"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/guard"
	"github.com/skein-project/skein/load/pace"
	"github.com/skein-project/skein/load/reach"
	"github.com/skein-project/skein/load/rule"
	"github.com/skein-project/skein/load/stat"
)

// Options says what to run.
type Options struct {
	Plan  *load.Plan
	Rules []*rule.Rule
	Guard guard.Guard
	// PublicRate and PublicUsers bound what goes to addresses of the internet; 0: as
	// the guard says.
	PublicRate  float64
	PublicUsers int
	// AllowBreak lets a run go on that breaks its target.
	AllowBreak bool
	TLS        *tls.Config       // nil: as the plan says, with the system's roots
	Files      map[string][]byte // that steps name: modules, descriptors
	Agent      string            // the User-Agent of requests that say none
	Seed       uint64
	// Watch hears of each second; nil: nobody does. It must return at once.
	Watch func(Status)
	Gang
	// Trace hears of each request and its answer; nil: nobody does.
	Trace func(Exchange)

	// For tests; nil: the network of this host, and timers of the kernel.
	Dial      func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	Lookup    func(ctx context.Context, name string) ([]netip.Addr, error)
	PlainTime bool
}

// reach is what the network is told.
func (o Options) reach() reach.Options {
	return reach.Options{
		Guard: o.Guard, Listed: o.Listed, List: o.List, Proof: o.Proof, Agent: o.Agent, TLS: o.TLS, Turns: o.Plan.HTTP.DNS == "round-robin",
		Dial: o.Dial, Lookup: o.Lookup,
	}
}

// Gang is what a slice of a run on several hosts has beside. The zero value is for a run
// from one.
type Gang struct {
	// Deal says what of the plan is this slice's.
	Deal pace.Deal
	// Rest: another slice does setup and teardown.
	Rest bool
	// Start is called when all is prepared, with what setup extracted. It waits for the
	// instant at which the run begins, which all slices share, and returns it, with
	// what the setup of another slice extracted. nil: the run begins at once.
	Start func(ctx context.Context, extracted [][]byte) (at time.Time, all [][]byte, err error)
	// Emit gets what was counted, a frame each second; nil: nobody does. It must return at
	// once.
	Emit func(stat.Frame)
	// Listed: only what List has is allowed, at most MaxRate requests a second of it; 0: as
	// its entries say. Else all that the guard allows.
	Listed  bool
	List    guard.List
	MaxRate float64
	// MaxUsers at a time; 0: any number.
	MaxUsers int
	// Proof is what targets must answer that List wants to show that they are meant.
	Proof string
}

// Status is a run as it is.
type Status struct {
	At, Of  time.Duration
	Warm    bool // warming up
	Rate    float64
	Planned float64 // requests a second that are due; 0: some of the traffic is closed
	Failed  float64 // share, of the last second
	P50     float64
	P95     float64
	P99     float64 // seconds, of the last second; NaN: nothing ended
	Dropped uint64  // so far
	// Thresholds as they are.
	Thresholds []rule.Outcome
	stat.Gauges
}

// Exchange is one request and its answer, as text.
type Exchange struct {
	Step     string
	To       netip.AddrPort
	Request  []byte
	Status   int
	Head     []byte
	Body     []byte
	Class    load.Class
	Err      error
	Checks   []bool
	Texts    []string // of the checks
	Values   map[string]string
	Duration time.Duration
}
