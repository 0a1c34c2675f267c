package state

import (
	"slices"
	"strconv"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
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
func (s *State) act(e *event.Event, a Action) {
	a.At, a.Node, a.Kind = e.HLC, e.Source.Node, e.Kind
	a.Actor, a.Subject, a.Reason = clip(a.Actor, maxActor), clip(a.Subject, maxActor), clip(a.Reason, cluster.MaxReason)
	s.actions = keepLatest(s.actions, keyOf(e), a, MaxActions)
}

// applyAction folds what operators asked for and no other table tells.
func (s *State) applyAction(e *event.Event) {
	switch e.Kind {
	case event.KindTokenCreated, event.KindTokenRevoked:
		if b, ok := decode[event.TokenChanged](s, e); ok {
			s.act(e, Action{Actor: b.Actor, Subject: b.Invite})
		}
	case event.KindVotersSet:
		if b, ok := decode[event.VotersSet](s, e); ok {
			s.act(e, Action{Actor: b.Actor, Subject: votersText(b)})
		}
	case event.KindStepDownAsked:
		if b, ok := decode[event.StepDownAsked](s, e); ok {
			s.act(e, Action{Actor: b.Actor, Subject: string(b.Successor), Reason: b.Reason})
		}
	case event.KindOnionGranted:
		if b, ok := decode[event.OnionGranted](s, e); ok {
			s.act(e, Action{Actor: b.Actor, Subject: string(b.Node), Reason: b.Address})
		}
	case event.KindOnionDrained:
		if b, ok := decode[event.OnionDrained](s, e); ok {
			s.act(e, Action{Actor: b.Actor, Subject: string(e.Source.Node), Reason: "drained: " + strconv.FormatBool(b.Drained)})
		}
	case event.KindOnionRotated:
		if b, ok := decode[event.OnionRotated](s, e); ok {
			s.act(e, Action{Actor: b.Actor, Subject: string(e.Source.Node), Reason: b.From})
		}
	case event.KindConfigReloaded:
		if b, ok := decode[event.ConfigReloaded](s, e); ok {
			s.act(e, Action{Subject: strings.Join(b.Keys[:min(len(b.Keys), maxActor)], " ")})
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
		words = append(words, clip(string(v), cluster.MaxNodeIDLen))
	}
	if b.Forced {
		words = append(words, "forced")
	}
	return strings.Join(words, " ")
}

func (s *State) publishing(e *event.Event, b event.Publishing) {
	if !isNode(b.Publisher, true) {
		s.malformed++
		return
	}
	at := keyOf(e)
	s.member(e.Source.Node).publishing.set(at, b.Publishing)
	s.published = keepLatest(s.published, at, Publication{
		At: e.HLC, Node: e.Source.Node, Publishing: b.Publishing, Term: b.Term, Publisher: b.Publisher,
		Why: clip(b.Why, cluster.MaxReason),
	}, MaxPublications)
}

// Actions returns the latest things that operators asked for, the oldest
// first. Who stopped a job is told by the job.
func (s *State) Actions() []Action { return values(s.actions) }

// Publications returns the latest changes of the publishing duty, the oldest
// first.
func (s *State) Publications() []Publication { return values(s.published) }

func values[T any](list []stamped[T]) []T {
	out := make([]T, 0, len(list))
	for _, v := range list {
		out = append(out, v.v)
	}
	return slices.Clip(out)
}
