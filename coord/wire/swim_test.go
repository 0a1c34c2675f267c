package wire

import (
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
)

func swimGoldens() map[string]Payload {
	suspect := SwimDelta{Node: "n4", Boot: 3, Inc: 1, State: "suspect", By: "n5", Witnesses: 3, AgeMS: 1500}
	return map[string]Payload{
		"swim_probe": SwimProbe{SwimOwn{N: 41, Inc: 2, Deltas: []SwimDelta{suspect}}},
		"swim_ack": SwimAck{SwimOwn: SwimOwn{N: 41, Inc: 2}, State: &SwimState{
			Publishing: true, Term: 7, Holder: "n1", Members: Digest{1}, Log: Digest{2}, LogEvents: 12, Place: strings.Repeat("A", 59),
		}},
		"swim_nack":     SwimAck{SwimOwn: SwimOwn{N: 41, Inc: 2}, Target: "n3", Nack: true},
		"swim_ping_req": SwimPingReq{SwimOwn: SwimOwn{N: 41, Inc: 2, Ineligible: true}, Target: "n3"},
		"swim_gossip": SwimGossip{SwimOwn{Inc: 2, Deltas: []SwimDelta{
			{Node: "n2", Boot: 3, Inc: 4, State: "alive", Ineligible: true},
			{Node: "n6", Boot: 9, State: "failed", AgeMS: 9000},
			{Node: "n7", Boot: 1, State: "left"},
			suspect,
		}}},
	}
}

func TestSwimRefused(t *testing.T) {
	delta := func(f func(*SwimDelta)) SwimOwn {
		d := SwimDelta{Node: "n4", Boot: 3, State: "alive"}
		f(&d)
		return SwimOwn{N: 1, Deltas: []SwimDelta{d}}
	}
	for name, p := range map[string]Payload{
		"probe without a number":   SwimProbe{},
		"number too high":          SwimProbe{SwimOwn{N: MaxNumber + 1}},
		"incarnation too high":     SwimProbe{SwimOwn{N: 1, Inc: MaxNumber + 1}},
		"gossip with a number":     SwimGossip{SwimOwn{N: 1}},
		"five deltas":              SwimGossip{SwimOwn{Deltas: make([]SwimDelta, 5)}},
		"delta of nobody":          SwimProbe{delta(func(d *SwimDelta) { d.Node = "" })},
		"delta of a strange name":  SwimProbe{delta(func(d *SwimDelta) { d.Node = "N 4" })},
		"delta in no boot":         SwimProbe{delta(func(d *SwimDelta) { d.Boot = 0 })},
		"delta of a strange state": SwimProbe{delta(func(d *SwimDelta) { d.State = "dead" })},
		"delta by a strange name":  SwimProbe{delta(func(d *SwimDelta) { d.By = "-" })},
		"delta too old":            SwimProbe{delta(func(d *SwimDelta) { d.AgeMS = MaxNumber + 1 })},
		"request for nobody":       SwimPingReq{SwimOwn: SwimOwn{N: 1}},
		"nack of nobody":           SwimAck{SwimOwn: SwimOwn{N: 1}, Nack: true},
		"ack of a strange name":    SwimAck{SwimOwn: SwimOwn{N: 1}, Target: "N"},
		"ack of a strange holder":  SwimAck{SwimOwn: SwimOwn{N: 1}, State: &SwimState{Holder: "N"}},
		"ack of a long place":      SwimAck{SwimOwn: SwimOwn{N: 1}, State: &SwimState{Place: strings.Repeat("A", MaxPlaceText+1)}},
		"ack of a strange load":    SwimAck{SwimOwn: SwimOwn{N: 1}, State: &SwimState{Load: &Load{9}}},
	} {
		if _, err := Seal(testKey(1), header(p.kind()), p); ReasonOf(err) != ReasonPayload {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, raw := range []string{`null`, `[]`, `{"n":-1}`, `{"n":1.5}`, `{"n":1,"deltas":{}}`, `{"n":1,"deltas":[{"state":7}]}`} {
		if _, err := Decode(Message{Header: header(TypeSwimProbe), Payload: []byte(raw)}); ReasonOf(err) != ReasonPayload || err == nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// TestSwimFits: three deltas with the longest names fit beside everything else, two where
// it says its place too.
func TestSwimFits(t *testing.T) {
	long := cluster.NodeID(strings.Repeat("x", cluster.MaxNodeIDLen))
	d := SwimDelta{Node: long, Boot: MaxNumber, Inc: MaxNumber, State: "suspect", Ineligible: true, By: long, Witnesses: 3, AgeMS: 99999}
	h := Header{Node: long, Time: 1_700_000_000, Type: TypeSwimAck, To: long, Boot: MaxNumber, Seq: MaxNumber}
	for _, c := range []struct {
		deltas []SwimDelta
		place  string
	}{{[]SwimDelta{d, d, d}, ""}, {[]SwimDelta{d, d}, strings.Repeat("A", 59)}} {
		data, err := Seal(testKey(1), h, SwimAck{
			SwimOwn: SwimOwn{N: MaxNumber, Inc: MaxNumber, Ineligible: true, Deltas: c.deltas},
			State:   &SwimState{Publishing: true, Term: MaxNumber, Holder: long, LogEvents: MaxNumber, Load: &Load{4, 100, 100, 100, maxLoadDelay}, Place: c.place},
		})
		if err != nil {
			t.Fatalf("%d deltas, %d bytes: %v", len(c.deltas), len(data), err)
		}
	}
}
