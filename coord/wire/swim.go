package wire

import (
	"github.com/skein-project/skein/cluster"
)

// MaxSwimDeltas is how many deltas one message carries at most.
const MaxSwimDeltas = 4

// Types of the failure detector's messages in clusters of more than 64 hosts.
const (
	TypeSwimProbe   Type = "swim_probe"    // SwimProbe
	TypeSwimAck     Type = "swim_ack"      // SwimAck
	TypeSwimPingReq Type = "swim_ping_req" // SwimPingReq
	TypeSwimGossip  Type = "swim_gossip"   // SwimGossip
)

// SwimOwn is what every message of the failure detector says: the sender's own
// state and what it passes on.
type SwimOwn struct {
	// N is the number of the probe or request, repeated in what answers it.
	N uint64 `json:"n,omitempty"`
	// Inc is the sender's incarnation within its boot.
	Inc uint64 `json:"inc"`
	// Ineligible hosts do not stand for the lease.
	Ineligible bool        `json:"ineligible,omitempty"`
	Deltas     []SwimDelta `json:"deltas,omitempty"`
}

// SwimDelta is news of a host.
type SwimDelta struct {
	Node       cluster.NodeID `json:"node_id"`
	Boot       uint64         `json:"boot"`
	Inc        uint64         `json:"inc"`
	State      string         `json:"state"` // alive, suspect, failed or left
	Ineligible bool           `json:"ineligible,omitempty"`
	// By accused a suspect first, Witnesses more could not reach it.
	By        cluster.NodeID `json:"by,omitempty"`
	Witnesses uint32         `json:"witnesses,omitempty"`
	// AgeMS is how long ago the last sign of life was missed.
	AgeMS uint64 `json:"age_ms,omitempty"`
}

// SwimState is what a heartbeat says of its sender, in brief.
type SwimState struct {
	Publishing bool           `json:"publishing,omitempty"`
	Term       cluster.Term   `json:"term"`
	Holder     cluster.NodeID `json:"holder,omitempty"`
	Members    Digest         `json:"members"` // membership records
	Log        Digest         `json:"log"`     // heads of the event log
	LogEvents  uint64         `json:"log_events,omitempty"`
	Load       *Load          `json:"load,omitempty"`
	Place      string         `json:"place,omitempty"` // as in a Heartbeat
}

// SwimProbe asks for a SwimAck.
type SwimProbe struct {
	SwimOwn
}

// SwimAck answers a SwimProbe, with State; or a SwimPingReq, with Target, which
// did answer, or did not yet if Nack is set.
type SwimAck struct {
	SwimOwn
	Target cluster.NodeID `json:"target,omitempty"`
	Nack   bool           `json:"nack,omitempty"`
	State  *SwimState     `json:"state,omitempty"`
}

// SwimPingReq asks the receiver to probe Target, from which the sender got no
// answer.
type SwimPingReq struct {
	SwimOwn
	Target cluster.NodeID `json:"target"`
}

// SwimGossip is urgent news.
type SwimGossip struct {
	SwimOwn
}

func (SwimProbe) kind() Type   { return TypeSwimProbe }
func (SwimAck) kind() Type     { return TypeSwimAck }
func (SwimPingReq) kind() Type { return TypeSwimPingReq }
func (SwimGossip) kind() Type  { return TypeSwimGossip }

func (p SwimProbe) validate() error {
	if p.N == 0 {
		return Refuse(ReasonPayload, "%s without a number", p.kind())
	}
	return p.check(p.kind())
}

func (a SwimAck) validate() error {
	bad := func(format string, args ...any) error {
		return Refuse(ReasonPayload, "swim_ack: "+format, args...)
	}
	if a.N == 0 || (a.Nack && a.Target == "") {
		return bad("without a number, or nack of nobody")
	}
	if a.Target != "" {
		if _, err := cluster.ParseNodeID(string(a.Target)); err != nil {
			return bad("target: %v", err)
		}
	}
	if s := a.State; s != nil {
		if s.Term > MaxNumber || s.LogEvents > MaxNumber || !s.Load.valid() || len(s.Place) > MaxPlaceText {
			return bad("number out of range")
		}
		if s.Holder != "" {
			if _, err := cluster.ParseNodeID(string(s.Holder)); err != nil {
				return bad("holder: %v", err)
			}
		}
	}
	return a.check(a.kind())
}

func (r SwimPingReq) validate() error {
	if r.N == 0 {
		return Refuse(ReasonPayload, "%s without a number", r.kind())
	}
	if _, err := cluster.ParseNodeID(string(r.Target)); err != nil {
		return Refuse(ReasonPayload, "%s: target: %v", r.kind(), err)
	}
	return r.check(r.kind())
}

func (g SwimGossip) validate() error {
	if g.N != 0 {
		return Refuse(ReasonPayload, "%s with a number", g.kind())
	}
	return g.check(g.kind())
}

// check refuses what no sender's failure detector says.
func (o SwimOwn) check(kind Type) error {
	bad := func(format string, args ...any) error {
		return Refuse(ReasonPayload, string(kind)+": "+format, args...)
	}
	if o.N > MaxNumber || o.Inc > MaxNumber {
		return bad("number out of range")
	}
	if len(o.Deltas) > MaxSwimDeltas {
		return bad("%d deltas, at most %d", len(o.Deltas), MaxSwimDeltas)
	}
	for _, d := range o.Deltas {
		if _, err := cluster.ParseNodeID(string(d.Node)); err != nil {
			return bad("delta: %v", err)
		}
		if d.By != "" {
			if _, err := cluster.ParseNodeID(string(d.By)); err != nil {
				return bad("delta of %s: by: %v", d.Node, err)
			}
		}
		switch d.State {
		case "alive", "suspect", "failed", "left":
		default:
			return bad("delta of %s: state %.16q", d.Node, d.State)
		}
		if d.Boot == 0 || d.Boot > MaxNumber || d.Inc > MaxNumber || d.AgeMS > MaxNumber {
			return bad("delta of %s: number out of range", d.Node)
		}
	}
	return nil
}

// decodeSwim reads the payload of a message of the failure detector.
func decodeSwim(m Message) (Payload, error) {
	switch m.Type {
	case TypeSwimProbe:
		return decodeStruct[SwimProbe](m.Payload)
	case TypeSwimAck:
		return decodeStruct[SwimAck](m.Payload)
	case TypeSwimPingReq:
		return decodeStruct[SwimPingReq](m.Payload)
	case TypeSwimGossip:
		return decodeStruct[SwimGossip](m.Payload)
	}
	return nil, Refuse(ReasonUnknownType, "%q", m.Type)
}
