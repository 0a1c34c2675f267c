package publisher

import (
	"time"

	"github.com/skein-project/skein/publisher/descriptor"
)

// answered notes what a directory said to a post.
func (c *Core) answered(e Answered, now time.Duration) (acts []Action) {
	delete(c.busy, e.Dir)
	t := c.find(e.Version, e.Period)
	if t == nil || !c.publishing {
		return nil
	}
	d := t.dirs[e.Dir]
	if d == nil || !d.posted {
		return nil
	}
	d.posted = false
	switch e.Outcome {
	case Stored:
		d.stored, d.tries = true, 0
	case Rejected:
		// After a try without an answer it most likely has this very descriptor;
		// where it can be fetched it is.
		d.stored = d.tries > 0
		d.rejected = !d.stored
		if t.Fetched && !t.asking {
			acts = append(acts, c.fetch(t, e.Dir))
		}
	default:
		d.tries++
		d.next = now + c.timing.backoff(d.tries, c.chance())
	}
	return append(acts, c.judge(t)...)
}

// judge reports once that clients find the descriptor, or that they do not
// although every directory has had its chance.
func (c *Core) judge(t *target) (acts []Action) {
	if len(t.Fetch) == 0 {
		return nil
	}
	stored, open := 0, 0
	for _, f := range t.Fetch {
		switch d := t.dirs[f]; {
		case d == nil:
		case d.stored:
			stored++
		case !d.rejected && d.tries == 0:
			open++
		}
	}
	switch {
	case 2*stored >= len(t.Fetch) && !t.told:
		t.told = true
		acts = append(acts, Published{t.version, c.term, t.Period, stored, len(t.Fetch)})
		if t.Fetched && !t.asking {
			has := func(f descriptor.Fingerprint) bool { d := t.dirs[f]; return d != nil && d.stored && !c.busy[f] }
			if f, ok := c.pick(t, has); ok {
				acts = append(acts, c.fetch(t, f)) // does it really have it?
			}
		}
	case 2*stored < len(t.Fetch) && open == 0 && !t.told && !t.worried:
		t.worried = true
		acts = append(acts, Unpublished{t.version, t.Period, stored, len(t.Fetch)})
	}
	return acts
}

// seen compares what a directory has with what it should have.
func (c *Core) seen(e Seen, now time.Duration) []Action {
	delete(c.busy, e.Dir)
	if !c.publishing {
		return nil
	}
	if c.fence.up && c.fence.asked {
		return c.seenBehindFence(e, now)
	}
	t := c.find(e.Version, e.Period)
	if t == nil {
		return nil
	}
	t.asking = false
	d := t.dirs[e.Dir]
	switch {
	case d == nil || c.fence.up:
	case (!e.OK || e.Revision < t.revision) && d.stored:
		// It said that it has the descriptor and does not.
		d.stored = false
		d.tries++
		d.next = now + c.timing.backoff(d.tries, c.chance())
		t.told = false
	case !e.OK || e.Revision < t.revision:
	case e.Revision == t.revision:
		d.stored, d.rejected, d.tries = true, false, 0
		return c.judge(t)
	case e.Known && e.Term > c.term:
		c.fence = fence{up: true, revision: e.Revision, term: e.Term, since: now}
		return []Action{Fenced{c.term, e.Term}}
	default:
		return c.overtake(e, now)
	}
	return nil
}

// seenBehindFence decides after Yield: if the later publisher has not
// published anything new it is gone, and its last descriptor will end soon.
func (c *Core) seenBehindFence(e Seen, now time.Duration) []Action {
	c.fence.asked = false
	if e.OK && e.Revision > c.fence.revision {
		c.fence.revision, c.fence.since = e.Revision, now
		return nil
	}
	c.floors[e.Period] = max(c.floors[e.Period], c.fence.revision)
	c.fence = fence{}
	c.pace.touch(now)
	return nil
}

// overtake goes above a revision that nobody else stands for.
func (c *Core) overtake(e Seen, now time.Duration) (acts []Action) {
	if c.floors[e.Period] >= e.Revision {
		return nil
	}
	c.floors[e.Period] = e.Revision
	c.pace.touch(now)
	if !e.Known {
		acts = append(acts, Foreign{e.Period, e.Dir, e.Revision})
	}
	return acts
}
