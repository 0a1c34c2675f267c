package journal

import (
	"context"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/internal/wait"
)

// Bounds of the check of the own chain after a start.
const (
	headTry = 2 * time.Second
	// headWait is how long a host whose lease does not need a majority waits
	// for the others.
	headWait = 3 * time.Second
	// headPause lies between tries.
	headPause = 200 * time.Millisecond
	// allowPause lies between looks whether this host may write.
	allowPause = 50 * time.Millisecond
	// chainEvery is the period of the look whether the own chain was continued
	// under another incarnation.
	chainEvery = time.Second
)

// Log is what Chain needs of the event log.
type Log interface {
	Source() event.SourceID
	CheckOwnHead(ctx context.Context, peers []cluster.NodeID) (int, error)
	Append(ctx context.Context, drafts []event.Draft) ([]event.Event, error)
}

// ChainOptions are what a Chain needs.
type ChainOptions struct {
	Self cluster.NodeID
	Log  Log
	// Voters is the configuration of voters as this host knows it.
	Voters func() cluster.VoterConfig
	// Peers are the other hosts that are alive, asked while no voters are known.
	Peers func() []cluster.NodeID
	// VoteLost tells the lease that this host's disk lost votes.
	VoteLost func(reason string)
	// MayWrite says why nothing may be appended yet, empty if it may; Watch ends
	// the Chain with its error, if it returns one. Both are optional.
	MayWrite func() (why string)
	Watch    func(ctx context.Context) error
	// First returns the first events of this start.
	First func() ([]event.Draft, error)
	// Open is called once they are appended.
	Open   func()
	Logger zerolog.Logger
}

// Chain makes sure that the own chain of the event log is complete.
type Chain struct {
	o ChainOptions
	// inc is the incarnation of the own chain as last seen.
	inc uint64
}

// NewChain returns a Chain for a log that is open.
func NewChain(o ChainOptions) *Chain { return &Chain{o: o, inc: o.Log.Source().Inc} }

// Run asks the voters whether they know more of this host's chain than its disk
// does, which a restored disk would not reveal, waits until this host may write,
// and then appends the first events of this start. Nothing else is appended
// before. From then on it watches the incarnation, until ctx ends.
func (c *Chain) Run(ctx context.Context) error {
	if err := c.confirm(ctx); err != nil {
		return err
	}
	if err := c.allowed(ctx); err != nil {
		return err
	}
	if err := c.first(ctx); err != nil {
		return err
	}
	c.o.Open()
	tick := wait.NewTicker(chainEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			tick.Next()
			c.look() // a host that was away may still know more
			if err := c.watch(ctx); err != nil {
				return err
			}
		}
	}
}

// allowed returns when this host may write, or ctx ends.
func (c *Chain) allowed(ctx context.Context) error {
	if c.o.MayWrite == nil {
		return nil
	}
	waiting := false
	for began := time.Now(); ; {
		why := c.o.MayWrite()
		if why == "" {
			break
		}
		if !waiting && time.Since(began) > headWait {
			waiting = true
			c.o.Logger.Warn().Str("reason", why).Msg("no event is written yet")
		}
		if err := c.watch(ctx); err != nil {
			return err
		}
		if err := wait.For(ctx, allowPause); err != nil {
			return err
		}
	}
	if waiting {
		c.o.Logger.Info().Msg("events are written from now on")
	}
	return nil
}

// first appends the first events, in pieces that the log takes.
func (c *Chain) first(ctx context.Context) error {
	drafts, err := c.o.First()
	if err != nil {
		return err
	}
	for len(drafts) > 0 {
		n := min(len(drafts), batchSize)
		if _, err := c.o.Log.Append(ctx, drafts[:n]); err != nil {
			return err
		}
		drafts = drafts[n:]
	}
	return nil
}

func (c *Chain) watch(ctx context.Context) error {
	if c.o.Watch == nil {
		return nil
	}
	return c.o.Watch(ctx)
}

// confirm returns when enough voters were asked, or ctx ends.
func (c *Chain) confirm(ctx context.Context) error {
	for start := time.Now(); ctx.Err() == nil; {
		cfg := c.o.Voters()
		peers := slices.DeleteFunc(slices.Clone(cfg.Voters), func(v cluster.NodeID) bool { return v == c.o.Self })
		if len(peers) == 0 {
			if !cfg.IsZero() {
				return nil // the only voter
			}
			peers = c.o.Peers()
		}
		try, cancel := context.WithTimeout(ctx, headTry)
		answered, err := c.o.Log.CheckOwnHead(try, peers)
		cancel()
		c.look()
		if err != nil {
			c.o.Logger.Debug().Err(err).Msg("own chain not confirmed yet")
			answered = 0 // what they said could not be compared
		}
		need := cfg.Majority() // what was stable is on a majority, in available mode on any
		if cfg.Mode == cluster.ModeAvailable {
			need = len(cfg.Voters)
		}
		if !cfg.IsZero() && answered+1 >= need || cfg.Mode != cluster.ModeQuorum && time.Since(start) > headWait {
			return nil
		}
		if err := wait.For(ctx, headPause); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// look tells the lease when others turn out to know more of this host's chain
// than its disk: then the disk has lost votes as well.
func (c *Chain) look() {
	if inc := c.o.Log.Source().Inc; inc != c.inc {
		c.inc = inc
		c.o.VoteLost("others know more of its event log than its disk")
	}
}
