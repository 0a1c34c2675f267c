package replicate

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/stamps"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/eventlog/wire"
)

// Abstaining is what Options.Promised returns on a host that does not know what
// it has promised.
const Abstaining = cluster.Term(math.MaxUint64)

// Writer changes the log.
type Writer interface {
	// Offer queues a verified run of another host's chain. wait returns when it
	// is durable, or refused.
	Offer(ctx context.Context, ru *wire.Run) (wait func(context.Context) error, err error)
	// AddFork keeps the proof of a fork, and ends what its source has to say.
	AddFork(ctx context.Context, f wire.Fork, p wire.Proof) error
	// Renew makes the own chain go on as another incarnation.
	Renew(ctx context.Context, inc uint64, reason string) error
}

// Snapshots is what replication needs of them.
type Snapshots interface {
	// Answer answers a question about snapshots.
	Answer(from cluster.NodeID, m wire.Message) (wire.Type, []byte, error)
	// Missed looks at why a fetch from peer ended early.
	Missed(peer cluster.NodeID, err error)
}

// Options configure a Replicator. All fields but Dial, Follow, RTT and Registerer are
// required.
type Options struct {
	Cluster string
	Self    cluster.NodeID
	Store   *store.Store
	Writer  Writer
	// Snapshots answers what this package does not know.
	Snapshots Snapshots
	KeyOf     func(cluster.NodeID) ed25519.PublicKey
	MayAct    func(cluster.Term) bool
	Promised  func() cluster.Term
	Dial      func(ctx context.Context, to cluster.NodeID) (net.Conn, error)
	// Follow opens one for what is only read here: see package eventlog. nil: Dial does.
	Follow func(ctx context.Context, to cluster.NodeID) (net.Conn, error)
	// RTT is the round trip to a host, 0: not known. nil: never known.
	RTT   func(cluster.NodeID) time.Duration
	Peers func() []cluster.NodeID
	// Near lists the hosts of this host's zone that live, where there are others; nil or
	// none: nobody is nearer. It is optional.
	Near func() []cluster.NodeID
	// Said is what a peer said of its log a moment ago: the digest of its heads.
	// It is optional.
	Said func(cluster.NodeID) (digest [16]byte, ok bool)
	// Admit says whether n bytes of a host's chain may be stored, and if not
	// why, for the metric and for the caller.
	Admit func(node cluster.NodeID, n int64) (reason string, err error)
	// OnEquivocation is called when a source is proven to have signed two
	// histories; found says that it was this host that found out.
	OnEquivocation func(f wire.Fork, found bool)
	// OnAhead is called when a chain of another host is found to run ahead.
	OnAhead func(stamps.Chain)
	Wall    func() time.Time
	Float   func() float64
	// PullEvery is negative for never.
	PullEvery time.Duration
	IOTimeout time.Duration

	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

// Replicator keeps one stream to each other voter, over which new own events
// go at once, and pulls what is missing here.
type Replicator struct {
	o    Options
	st   *store.Store
	stab *Stability
	m    *metrics
	log  zerolog.Logger

	aheads *aheads

	follows     atomic.Bool  // a peer tells of changes at once
	followers   atomic.Int32 // streams that follow the changes here
	aheadWarned atomic.Bool

	mu   sync.Mutex
	busy map[cluster.NodeID]bool // peers that Sync is pulling from
}

// New returns a Replicator whose voters are not known.
func New(o Options) (*Replicator, error) {
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	if o.Follow == nil {
		o.Follow = o.Dial
	}
	if o.RTT == nil {
		o.RTT = func(cluster.NodeID) time.Duration { return 0 }
	}
	r := &Replicator{
		o: o, st: o.Store, m: m, stab: newStability(o, m), busy: map[cluster.NodeID]bool{},
		aheads: newAheads(o.Store, o.Wall),
		log:    o.Logger.With().Str("component", "eventlog").Logger(),
	}
	if o.Registerer != nil {
		if err := o.Registerer.Register(newLag(o.Store, r.stab)); err != nil {
			return nil, fmt.Errorf("register lag of the voters: %w", err)
		}
	}
	return r, nil
}

// Stability returns what counts the voters that hold the own chain.
func (r *Replicator) Stability() *Stability { return r.stab }

const (
	// pingEvery and pingQuiet are the pauses before a ping, see pusher.pause;
	// answerSlack is what an answer may take beyond the timeout.
	pingEvery   = time.Second
	pingQuiet   = 10 * time.Second
	answerSlack = time.Second

	backoffMin = 50 * time.Millisecond
	backoffMax = 2 * time.Second
)

// Run keeps the set of pushers equal to the set of other voters. It ends,
// with all that it started, when ctx ends.
func (r *Replicator) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	if r.o.Dial == nil {
		<-ctx.Done()
		return
	}
	wg.Go(func() { r.pullLoop(ctx) })
	wg.Go(func() { r.followLoop(ctx) })
	stops := map[cluster.NodeID]context.CancelFunc{}
	for {
		voters, changed := r.stab.others()
		for v := range voters {
			if stops[v] == nil {
				pctx, cancel := context.WithCancel(ctx)
				stops[v] = cancel
				p := &pusher{r: r, to: v}
				wg.Go(func() { p.run(pctx) })
			}
		}
		for v, cancel := range stops {
			if !voters[v] {
				cancel()
				delete(stops, v)
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			for _, cancel := range stops {
				cancel()
			}
			return
		}
	}
}
