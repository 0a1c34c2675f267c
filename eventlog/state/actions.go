package state

import (
	"slices"
	"strconv"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state/canon"
)

// How many of the latest entries are kept.
const (
	MaxActions      = 512
	MaxPublications = 256
)

// maxActor bounds the name of who asked for something.
const maxActor = 256

// Action is something that an operator asked for.
type Action struct {
	At      cluster.HLC    `json:"at"`
	Node    cluster.NodeID `json:"node"` // that logged it
	Kind    event.Kind     `json:"kind"`
	Actor   string         `json:"actor"`   // who asked, "uid:0@n1"; empty: nobody is known
	Subject string         `json:"subject"` // a host, an invite, a list of voters, of settings
	Reason  string         `json:"reason,omitempty"`
}

// Publication says that a host took up or laid down the publishing duty.
type Publication struct {
	At         cluster.HLC    `json:"at"`
	Node       cluster.NodeID `json:"node"`
	Publishing bool           `json:"publishing"`
	Term       cluster.Term   `json:"term"`
	Publisher  cluster.NodeID `json:"publisher"`
	Why        string         `json:"why"`
}

// act keeps a among the latest actions.
func (h *hosts) act(e *event.Event, a Action) {
	a.At, a.Node, a.Kind = e.HLC, e.Source.Node, e.Kind
	a.Actor, a.Subject, a.Reason = canon.Clip(a.Actor, maxActor), canon.Clip(a.Subject, maxActor), canon.Clip(a.Reason, cluster.MaxReason)
	h.actions.add(canon.KeyOf(e), a, MaxActions)
}

// applyAction folds what operators asked for and no other table tells.
func (h *hosts) applyAction(e *event.Event, from *bodies) {
	switch e.Kind {
	case event.KindTokenCreated, event.KindTokenRevoked:
		if b, ok := read[event.TokenChanged](from, e); ok {
			h.act(e, Action{Actor: b.Actor, Subject: b.Invite})
		}
	case event.KindVotersSet:
		if b, ok := read[event.VotersSet](from, e); ok {
			h.act(e, Action{Actor: b.Actor, Subject: votersText(b)})
		}
	case event.KindStepDownAsked:
		if b, ok := read[event.StepDownAsked](from, e); ok {
			h.act(e, Action{Actor: b.Actor, Subject: string(b.Successor), Reason: b.Reason})
		}
	case event.KindOnionGranted:
		if b, ok := read[event.OnionGranted](from, e); ok {
			h.act(e, Action{Actor: b.Actor, Subject: string(b.Node), Reason: b.Address})
		}
	case event.KindOnionDrained:
		if b, ok := read[event.OnionDrained](from, e); ok {
			h.act(e, Action{Actor: b.Actor, Subject: string(e.Source.Node), Reason: "drained: " + strconv.FormatBool(b.Drained)})
		}
	case event.KindOnionRotated:
		if b, ok := read[event.OnionRotated](from, e); ok {
			h.act(e, Action{Actor: b.Actor, Subject: string(e.Source.Node), Reason: b.From})
		}
	case event.KindPublishAsked:
		if b, ok := read[event.PublishAsked](from, e); ok {
			h.act(e, Action{Actor: b.Actor, Subject: string(e.Source.Node), Reason: b.Address})
		}
	case event.KindConfigReloaded:
		if b, ok := read[event.ConfigReloaded](from, e); ok {
			h.act(e, Action{Subject: strings.Join(b.Keys[:min(len(b.Keys), maxActor)], " ")})
		}
	}
}

// votersText is what an operator wants as voters.
func votersText(b event.VotersSet) string {
	var words []string
	if b.Auto {
		words = append(words, "auto")
	}
	for _, v := range b.Voters[:min(len(b.Voters), cluster.MaxVoters)] {
		words = append(words, canon.Clip(string(v), cluster.MaxNodeIDLen))
	}
	if b.Forced {
		words = append(words, "forced")
	}
	return strings.Join(words, " ")
}

// publishes folds a change of the publishing duty. It reports false if the event
// cannot be what it says.
func (h *hosts) publishes(e *event.Event, b event.Publishing) bool {
	if !canon.IsNode(b.Publisher, true) {
		return false
	}
	at := canon.KeyOf(e)
	h.member(e.Source.Node).publishing.Set(at, b.Publishing)
	h.published.add(at, Publication{
		At: e.HLC, Node: e.Source.Node, Publishing: b.Publishing, Term: b.Term, Publisher: b.Publisher,
		Why: canon.Clip(b.Why, cluster.MaxReason),
	}, MaxPublications)
	return true
}

// Actions returns the latest things that operators asked for, the oldest
// first. Who stopped a job is told by the job.
func (h *hosts) Actions() []Action { return h.actions.values() }

// latest is a list of the latest values that were set, the oldest first.
type latest[T any] []canon.Register[T]

// add puts v in its place, and forgets the oldest of more than limit.
func (l *latest[T]) add(at canon.Key, v T, limit int) {
	i, _ := slices.BinarySearchFunc(*l, at, func(o canon.Register[T], at canon.Key) int { return o.At.Compare(at) })
	*l = slices.Insert(*l, i, canon.Register[T]{At: at, V: v})
	if len(*l) > limit {
		*l = slices.Delete(*l, 0, 1)
	}
}

// sorted reports whether add with this limit can have made the list.
func (l latest[T]) sorted(limit int) bool {
	for i := 1; i < len(l); i++ {
		if l[i-1].At.Compare(l[i].At) >= 0 {
			return false
		}
	}
	return len(l) <= limit
}

func (l latest[T]) values() []T {
	out := make([]T, 0, len(l))
	for _, v := range l {
		out = append(out, v.V)
	}
	return slices.Clip(out)
}
