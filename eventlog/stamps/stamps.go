package stamps

import (
	"fmt"
	"time"

	"github.com/skein-project/skein/cluster/event"
)

const (
	// Limit is how far ahead of its own clock a host takes events of others.
	Limit = time.Minute
	// Margin is how much further ahead a chain must run to be taken back: what
	// ends by itself that soon is waited for.
	Margin = 30 * time.Second
	// Steady is how long the clock must have agreed with a majority by then.
	Steady = 10 * time.Second
	// Patience is how long a host that no majority answers waits for the system's
	// word that a time service keeps its clock, counted from the start of the
	// machine: without a time service that word never comes.
	Patience = time.Minute
	// Dispute is how long it waits where other hosts show another time.
	Dispute = 10 * time.Minute
	// Hearing is how long it waits to hear other hosts, if there are any.
	Hearing = 5 * time.Second
)

// Facts are what a host knows of its clock before it writes the first event of a
// start.
type Facts struct {
	// Need is how many of the Others must agree, so that with this host it is a
	// majority of the voters; 0: this host may go on alone. Others are the other
	// voters, or where Need is 0 all other members.
	Need, Others int
	// Agree and Differ count those of the others that were heard, by whether
	// their clocks show the same time. Offset is how far the clock of one that
	// differs is ahead.
	Agree, Differ int
	Offset        time.Duration
	// Last is how far the newest event here is ahead of the clock. Empty: there
	// is none.
	Last  time.Duration
	Empty bool
	// Synced is the system's word that a time service keeps the clock.
	Synced bool
	// Booted is for how long the machine has run, Waited for how long this host
	// has waited.
	Booted, Waited time.Duration
}

// MayWrite says why a host must not write events yet, empty if it may. Where a
// majority of the voters is needed for anything, it must agree. Where this host
// may go on alone, what other hosts it hears, the system's word or its own newest
// event must speak for its clock, and a machine that knows none of them goes on
// after a while: nobody could tell it more.
func MayWrite(f Facts) (why string) {
	switch {
	case f.Need > 0 && f.Agree >= f.Need:
		return ""
	case f.Need > 0 && f.Differ > 0:
		return fmt.Sprintf("its clock is %s, and %d of %d other voters agree with it", apart(f.Offset), f.Agree, f.Others)
	case f.Need > 0:
		return "no majority of the voters was heard whose clocks agree with its own"
	case f.Agree > 0 && f.Agree >= f.Differ, f.Synced, f.Differ == 0 && f.Waited >= Patience, f.Waited >= Dispute:
		return ""
	case f.Differ > 0:
		return fmt.Sprintf("its clock is %s, and no time service keeps it", apart(f.Offset))
	case !f.Empty && f.Last > Limit:
		return fmt.Sprintf("its clock is %s behind its newest event, and no time service keeps it", round(f.Last))
	case !f.Empty && f.Booted < Patience:
		return "the machine has just started, and no time service has set its clock yet"
	case f.Others > 0 && f.Waited < Hearing:
		return "no other host was heard yet"
	}
	return ""
}

// apart says where this host's clock is if others are off from it by offset.
func apart(offset time.Duration) string {
	if offset < 0 {
		return round(offset) + " ahead of others"
	}
	return round(offset) + " behind others"
}

func round(d time.Duration) string { return d.Abs().Round(time.Second).String() }

// Chain is a chain that runs ahead of the clock here. Its events are refused, or
// will be by the others if it is this host's own.
type Chain struct {
	Source event.SourceID
	Seq    uint64        // of its last event that is known
	Ahead  time.Duration // how far that is ahead
	Own    bool
}

// String says whose chain runs ahead, by how much and what follows from it.
func (c Chain) String() string {
	if c.Own {
		return fmt.Sprintf("its chain %s is %s ahead of the clocks: the other hosts refuse its events", c.Source, round(c.Ahead))
	}
	return fmt.Sprintf("chain %s is %s ahead of the clocks: its events are refused", c.Source, round(c.Ahead))
}

// Ahead is how far an event of that time is ahead of the clock wall; refused
// says that it is too much for other hosts.
func Ahead(at, wall time.Time) (ahead time.Duration, refused bool) {
	ahead = at.Sub(wall)
	return ahead, ahead > Limit
}

// Tail is what this host has written that runs ahead.
type Tail struct {
	Ahead time.Duration // of its last event
	// Rest is how far the newest of all other events here is ahead: a new chain
	// begins above them.
	Rest time.Duration
	// Authority says that an event of the tail exercised the lease.
	Authority bool
	// Majority of the Voters make an event stable.
	Voters, Majority int
	// Lack counts the other voters that have none of the tail, by their own word.
	Lack int
	// Agreed is for how long this host's clock has agreed with a majority.
	Agreed time.Duration
}

// TakeBack says why the tail of the own chain must not be taken back, empty if it
// may.
func TakeBack(t Tail) (why string) {
	switch {
	case t.Ahead <= Limit+Margin:
		return "it is over soon"
	case t.Agreed < Steady:
		return "its clock has not agreed with a majority for long enough"
	case t.Rest > Limit:
		return "events of other hosts in its log are ahead as well"
	case t.Lack == 0:
		return "no voter has answered that it lacks them"
	case t.Authority && t.Lack <= t.Voters-t.Majority:
		return "voters that do not answer may have them"
	}
	return ""
}
