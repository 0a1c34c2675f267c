package publisher

import (
	"maps"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/publisher/descriptor"
)

// Core decides when to build, and where to post. It is pure: the same events at
// the same times give the same actions. One goroutine owns it.
//
//	             change + Coalesce, Burst per MinGap
//	waiting ----------------------------------------> building
//	   ^   ^                                             |
//	   |   +--- failed: again after RetryMin, doubling --+
//	   |                                                 v
//	   +--- each directory: pending -> posted -> stored | rejected -> fetch
//	                           ^---- failed: backoff ---+
//
// A rejected post means that the directory has this revision, from a try that it
// did not answer in time, or a higher one; a Fetch reads it. If that is of a
// later term this core stands back (Fenced); if nobody published anything newer
// for Yield it goes above, so that a dead publisher's last word is not the end,
// nor that of a cluster that was lost and built anew.
// Any other revision is overtaken at once.
type Core struct {
	timing Timing
	seed   uint64 // of what is left to chance
	draws  uint64

	publishing bool
	term       cluster.Term
	holds      bool // the lease of term
	content    [32]byte
	targets    []*target
	floors     map[descriptor.Period]uint64

	pace  pacer
	fence fence
	busy  map[descriptor.Fingerprint]bool
}

// fence is what is known of a publisher of a later term.
type fence struct {
	up       bool
	revision uint64
	term     cluster.Term
	since    time.Duration // when the revision was first seen
	asked    bool          // after Yield: what is there now?
}

// target is a descriptor at its directories.
type target struct {
	Target
	version  uint64 // 0: never built
	revision uint64
	dirs     map[descriptor.Fingerprint]*dir
	told     bool // Published
	worried  bool // Unpublished
	asking   bool // a Fetch is out
}

// dir is one directory of one target. It is pending unless it is something
// else.
type dir struct {
	stored, rejected, posted bool
	tries                    int
	next                     time.Duration
}

// NewCore returns a core that publishes nothing yet. floors are the highest
// revisions known, as persisted before.
func NewCore(timing Timing, seed uint64, floors map[descriptor.Period]uint64) *Core {
	c := &Core{timing: timing, seed: seed, pace: pacer{timing: timing}, floors: map[descriptor.Period]uint64{}, busy: map[descriptor.Fingerprint]bool{}}
	maps.Copy(c.floors, floors)
	return c
}

// Step takes in an event at now, a monotonic time, and returns what to do.
func (c *Core) Step(e Event, now time.Duration) (acts []Action) {
	switch e := e.(type) {
	case SetDuty:
		c.setDuty(e, now)
	case SetContent:
		if e.Digest != c.content {
			c.content = e.Digest
			c.pace.touch(now)
		}
	case SetTargets:
		c.setTargets(e.Targets, now)
	case Again:
		if c.publishing {
			c.pace.again(now)
		}
	case Built:
		c.built(e, now)
	case Answered:
		acts = c.answered(e, now)
	case Seen:
		acts = c.seen(e, now)
	}
	return append(acts, c.due(now)...)
}

func (c *Core) setDuty(e SetDuty, now time.Duration) {
	switch {
	case !e.Publishing:
		c.pace.dirty = false
	case !c.publishing || e.Term > c.term:
		c.pace.touch(now)
	}
	if !e.Publishing || e.Term > c.fence.term {
		c.fence = fence{}
	}
	if !c.publishing && e.Publishing {
		c.pace.notBefore, c.pace.paid = 0, 0
		for _, t := range c.targets {
			t.version = 0 // what was posted before may be overtaken
		}
	}
	c.publishing, c.term, c.holds = e.Publishing, e.Term, e.Holds
}

func (c *Core) setTargets(all []Target, now time.Duration) {
	if slices.EqualFunc(all, c.targets, func(a Target, b *target) bool { return a.equal(b.Target) }) {
		return
	}
	var next []*target
	for _, t := range all {
		n := &target{Target: t}
		for _, old := range c.targets {
			if old.Period == t.Period {
				n = old
				n.Target = t
			}
		}
		next = append(next, n)
	}
	c.targets = next
	for p := range c.floors {
		if !slices.ContainsFunc(all, func(t Target) bool { return p.Number+2 >= t.Period.Number }) {
			delete(c.floors, p)
		}
	}
	c.pace.touch(now)
}

func (c *Core) built(e Built, now time.Duration) {
	if !c.pace.building || e.Version != c.pace.version {
		return
	}
	if len(e.Revisions) == 0 {
		c.pace.failed(now, c.chance())
		return
	}
	c.pace.succeeded()
	for i, t := range c.targets {
		if i >= len(e.Revisions) {
			break
		}
		t.version, t.revision, t.told, t.worried, t.asking = e.Version, e.Revisions[i], false, false, false
		c.floors[t.Period] = max(c.floors[t.Period], t.revision)
		t.dirs = make(map[descriptor.Fingerprint]*dir, len(t.Store))
		for _, f := range t.Store {
			t.dirs[f] = &dir{}
		}
	}
}

// due returns what is to be done at now.
func (c *Core) due(now time.Duration) (acts []Action) {
	if !c.publishing {
		return nil
	}
	if c.fence.up {
		if at, t := c.askAt(); t != nil && now >= at {
			if f, ok := c.pick(t, func(f descriptor.Fingerprint) bool { return !c.busy[f] }); ok {
				c.fence.asked = true
				acts = append(acts, c.fetch(t, f))
			}
		}
		return acts
	}
	c.pace.renew(now)
	if at, ok := c.buildAt(); ok && now >= at {
		acts = append(acts, c.build(now))
	}
	for _, t := range c.targets {
		if !c.current(t) {
			continue // there will be a newer one at once
		}
		for _, f := range t.Store {
			if d := t.dirs[f]; d != nil && d.pending() && now >= d.next && !c.busy[f] {
				d.posted, c.busy[f] = true, true
				acts = append(acts, Post{t.version, t.Period, f})
			}
		}
	}
	return acts
}

func (d *dir) pending() bool { return !d.stored && !d.rejected && !d.posted }

// buildAt says when the next Build is due, if there is a reason for one.
func (c *Core) buildAt() (time.Duration, bool) {
	if len(c.targets) == 0 || c.content == [32]byte{} {
		return 0, false
	}
	return c.pace.at()
}

// current reports whether t has the newest descriptor, and none newer is about
// to be built.
func (c *Core) current(t *target) bool { return t.version == c.pace.version && !c.pace.building }

func (c *Core) build(now time.Duration) Build {
	c.pace.begin(now, c.chance())
	b := Build{Version: c.pace.version, Term: c.term}
	for _, t := range c.targets {
		b.Periods = append(b.Periods, t.Period)
		b.Floors = append(b.Floors, c.floors[t.Period])
	}
	return b
}

// Deadline returns when Step must be called with a Tick at the latest, and
// whether there is such a time.
func (c *Core) Deadline() (at time.Duration, ok bool) {
	earlier := func(d time.Duration) {
		if !ok || d < at {
			at, ok = d, true
		}
	}
	switch {
	case !c.publishing:
		return 0, false
	case c.fence.up:
		if at, t := c.askAt(); t != nil {
			earlier(at)
		}
		return at, ok
	}
	if d, due := c.buildAt(); due {
		earlier(d)
	} else if c.pace.idle() {
		earlier(c.pace.refresh)
	}
	for _, t := range c.targets {
		if !c.current(t) {
			continue
		}
		for f, d := range t.dirs {
			if d.pending() && !c.busy[f] {
				earlier(d.next)
			}
		}
	}
	return at, ok
}

// askAt says when to look whether a later publisher still publishes, and for
// which target; it is nil if an answer must come first.
func (c *Core) askAt() (time.Duration, *target) {
	yield := c.timing.Yield
	if c.holds {
		yield = c.timing.HolderYield
	}
	for _, t := range c.targets {
		if t.Fetched && !c.fence.asked && slices.ContainsFunc(t.Fetch, func(f descriptor.Fingerprint) bool { return !c.busy[f] }) {
			return c.fence.since + yield, t
		}
	}
	return 0, nil
}

// pick returns one of the directories that clients ask, by chance.
func (c *Core) pick(t *target, good func(descriptor.Fingerprint) bool) (descriptor.Fingerprint, bool) {
	n := int(c.chance() % uint64(len(t.Fetch)))
	for i := range t.Fetch {
		if f := t.Fetch[(n+i)%len(t.Fetch)]; good(f) {
			return f, true
		}
	}
	return descriptor.Fingerprint{}, false
}

func (c *Core) fetch(t *target, f descriptor.Fingerprint) Fetch {
	t.asking, c.busy[f] = true, true
	return Fetch{t.version, t.Period, f}
}

func (c *Core) find(version uint64, p descriptor.Period) *target {
	for _, t := range c.targets {
		if t.Period == p && t.version == version {
			return t
		}
	}
	return nil
}

// chance draws the next number from the seed (splitmix64).
func (c *Core) chance() uint64 {
	c.draws++
	z := c.seed + c.draws*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
