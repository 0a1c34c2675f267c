package swim

import (
	"time"

	"github.com/skein-project/skein/coord/wire"
)

// Payload is m as it travels, with own for what all kinds have; state is what
// the answer to a probe says of its sender.
func (m *Message) Payload(own wire.SwimOwn, state func() *wire.SwimState) (wire.Type, wire.Payload) {
	switch m.Kind {
	case Probe:
		return wire.TypeSwimProbe, wire.SwimProbe{SwimOwn: own}
	case PingReq:
		return wire.TypeSwimPingReq, wire.SwimPingReq{SwimOwn: own, Target: m.Target}
	case Gossip:
		return wire.TypeSwimGossip, wire.SwimGossip{SwimOwn: own}
	case Ack, Nack:
	}
	ack := wire.SwimAck{SwimOwn: own, Target: m.Target, Nack: m.Kind == Nack}
	if m.Target == "" {
		ack.State = state()
	}
	return wire.TypeSwimAck, ack
}

// FromPayload reads a payload; ok is false if it is none of the failure
// detector's.
func FromPayload(p wire.Payload) (m Message, state *wire.SwimState, ok bool) {
	var own wire.SwimOwn
	switch p := p.(type) {
	case wire.SwimProbe:
		m.Kind, own = Probe, p.SwimOwn
	case wire.SwimAck:
		m.Kind, m.Target, own, state = Ack, p.Target, p.SwimOwn, p.State
		if p.Nack {
			m.Kind = Nack
		}
	case wire.SwimPingReq:
		m.Kind, m.Target, own = PingReq, p.Target, p.SwimOwn
	case wire.SwimGossip:
		m.Kind, own = Gossip, p.SwimOwn
	default:
		return m, nil, false
	}
	m.N, m.Inc, m.Ineligible = own.N, own.Inc, own.Ineligible
	for _, d := range own.Deltas {
		st, known := ParseState(d.State)
		if !known {
			continue // the decoder has refused it
		}
		m.Deltas = append(m.Deltas, Delta{
			Node: d.Node, Boot: d.Boot, Inc: d.Inc, State: st, Ineligible: d.Ineligible, By: d.By,
			Witnesses: int(min(d.Witnesses, MaxWitnesses)),
			Age:       time.Duration(min(d.AgeMS, uint64(time.Hour/time.Millisecond))) * time.Millisecond,
		})
	}
	return m, state, true
}

func wireDeltas(in []Delta) []wire.SwimDelta {
	var out []wire.SwimDelta
	for _, d := range in {
		if d.Boot == 0 {
			continue // nothing of it is known but its name
		}
		out = append(out, wire.SwimDelta{
			Node: d.Node, Boot: d.Boot, Inc: d.Inc, State: d.State.String(), Ineligible: d.Ineligible, By: d.By,
			Witnesses: uint32(max(d.Witnesses, 0)), AgeMS: uint64(max(d.Age, 0) / time.Millisecond),
		})
	}
	return out
}

// Own is what all kinds of messages have.
func (m *Message) Own() wire.SwimOwn {
	return wire.SwimOwn{N: m.N, Inc: m.Inc, Ineligible: m.Ineligible, Deltas: wireDeltas(m.Deltas)}
}
