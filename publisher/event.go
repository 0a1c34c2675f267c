package publisher

import (
	"fmt"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/publisher/descriptor"
)

// Event is something that the core is told. The set is closed.
type Event interface {
	isEvent()
	fmt.Stringer
}

// SetDuty says whether this host is to publish, and under which term: the
// lease's, which it alone Holds, or the last one known.
type SetDuty struct {
	Publishing bool
	Term       cluster.Term
	Holds      bool
}

// SetContent names what is to be published by a digest; the zero digest is
// nothing at all.
type SetContent struct{ Digest [32]byte }

// SetTargets says which descriptors there are and where they belong.
type SetTargets struct{ Targets []Target }

// Target is one of the two descriptors.
type Target struct {
	Period       descriptor.Period
	Store, Fetch []descriptor.Fingerprint
	// Fetched says that clients ask for this one now. Only that one can be
	// fetched back.
	Fetched bool
}

func (t Target) equal(o Target) bool {
	return t.Period == o.Period && t.Fetched == o.Fetched && slices.Equal(t.Store, o.Store) && slices.Equal(t.Fetch, o.Fetch)
}

// Again asks for new descriptors, though nothing changed.
type Again struct{}

// Built answers a Build: revisions in the order of its periods, or none if it
// failed.
type Built struct {
	Version   uint64
	Revisions []uint64
}

// Outcome is a directory's answer to a post.
type Outcome int

// The outcomes.
const (
	Failed   Outcome = iota // refused for another reason, or no answer
	Rejected                // it has a revision that is as high or higher
	Stored
)

func (o Outcome) String() string { return [...]string{"failed", "rejected", "stored"}[o] }

// Answered answers a Post; there is exactly one for each.
type Answered struct {
	Post
	Outcome Outcome
}

// Seen answers a Fetch.
type Seen struct {
	Fetch
	OK       bool // a descriptor was found and is of the address
	Revision uint64
	// Term is under which the revision was made; Known is false if it is none
	// that this cluster makes.
	Term  cluster.Term
	Known bool
}

// Tick passes time.
type Tick struct{}

func (SetDuty) isEvent()    {}
func (SetContent) isEvent() {}
func (SetTargets) isEvent() {}
func (Again) isEvent()      {}
func (Built) isEvent()      {}
func (Answered) isEvent()   {}
func (Seen) isEvent()       {}
func (Tick) isEvent()       {}

func (e SetDuty) String() string    { return fmt.Sprintf("duty %t term %d", e.Publishing, e.Term) }
func (e SetContent) String() string { return fmt.Sprintf("content %x", e.Digest[:4]) }
func (e SetTargets) String() string { return fmt.Sprintf("%d targets", len(e.Targets)) }
func (Again) String() string        { return "again" }
func (e Built) String() string      { return fmt.Sprintf("built %d: %d", e.Version, e.Revisions) }
func (e Answered) String() string   { return fmt.Sprintf("%s: %s", e.Post, e.Outcome) }
func (e Seen) String() string       { return fmt.Sprintf("%s: %t %d", e.Fetch, e.OK, e.Revision) }
func (Tick) String() string         { return "tick" }

// Action is something that the shell is to do. The set is closed.
type Action interface {
	isAction()
	fmt.Stringer
}

// Build makes new descriptors of the present content, one per period, each
// with a revision above its floor.
type Build struct {
	Version uint64
	Term    cluster.Term
	Periods []descriptor.Period
	Floors  []uint64
}

// Post hands the descriptor to a directory. There is never more than one
// exchange with a directory, since answers do not say which one they are for.
type Post struct {
	Version uint64
	Period  descriptor.Period
	Dir     descriptor.Fingerprint
}

// Fetch reads back what a directory has.
type Fetch struct {
	Version uint64
	Period  descriptor.Period
	Dir     descriptor.Fingerprint
}

// Published reports that clients find the descriptor: at least half of the
// directories that they ask have it.
type Published struct {
	Version uint64
	Term    cluster.Term
	Period  descriptor.Period
	Stored  int // of the directories asked
	Asked   int
}

// Unpublished reports that all directories answered and too few have the
// descriptor. They are tried again.
type Unpublished struct {
	Version uint64
	Period  descriptor.Period
	Stored  int
	Asked   int
}

// Fenced reports that a publisher of a later term is at work; this one stands
// back.
type Fenced struct{ Own, Later cluster.Term }

// Foreign reports a revision that this cluster did not make: somebody else has
// the key.
type Foreign struct {
	Period   descriptor.Period
	Dir      descriptor.Fingerprint
	Revision uint64
}

func (Build) isAction()       {}
func (Post) isAction()        {}
func (Fetch) isAction()       {}
func (Published) isAction()   {}
func (Unpublished) isAction() {}
func (Fenced) isAction()      {}
func (Foreign) isAction()     {}

func (a Build) String() string {
	return fmt.Sprintf("build %d term %d for %v above %d", a.Version, a.Term, a.Periods, a.Floors)
}

func (a Post) String() string {
	return fmt.Sprintf("post %d of %d to %s", a.Version, a.Period.Number, a.Dir)
}

func (a Fetch) String() string {
	return fmt.Sprintf("fetch %d of %d from %s", a.Version, a.Period.Number, a.Dir)
}

func (a Published) String() string {
	return fmt.Sprintf("published %d of %d: %d of %d", a.Version, a.Period.Number, a.Stored, a.Asked)
}

func (a Unpublished) String() string {
	return fmt.Sprintf("unpublished %d of %d: %d of %d", a.Version, a.Period.Number, a.Stored, a.Asked)
}

func (a Fenced) String() string { return fmt.Sprintf("fenced: term %d by %d", a.Own, a.Later) }

func (a Foreign) String() string {
	return fmt.Sprintf("foreign revision %d of %d at %s", a.Revision, a.Period.Number, a.Dir)
}
