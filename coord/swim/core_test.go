package swim

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
)

// lone is an active core that n others have answered.
func lone(t *testing.T, n int) *Core {
	t.Helper()
	c, err := New(Options{Self: "self", Boot: 1, Eligible: true, Timing: DefaultTiming(), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		c.Step(Add{Node: nodeName(i)}, 0)
		c.Step(Heard{Node: nodeName(i), Boot: 1, Round: true}, 0)
	}
	c.Step(Activate{On: true}, 0)
	return c
}

// quietly lets time pass while nobody but those in talk says anything.
func quietly(c *Core, from, to time.Duration, talk ...cluster.NodeID) (changed []Changed) {
	note := func(acts []Action) {
		for _, a := range acts {
			if ch, ok := a.(Changed); ok {
				changed = append(changed, ch)
			}
		}
	}
	for now := from; now < to; now += 50 * time.Millisecond {
		for _, n := range talk {
			note(c.Step(Heard{Node: n, Boot: 1}, now))
		}
		note(c.Step(Tick{}, now))
	}
	return changed
}

func gossip(c *Core, from cluster.NodeID, now time.Duration, ds ...Delta) []Changed {
	var out []Changed
	for _, a := range c.Step(Receive{From: from, Boot: 1, Msg: Message{Kind: Gossip, Deltas: ds}}, now) {
		if ch, ok := a.(Changed); ok {
			out = append(out, ch)
		}
	}
	return out
}

func TestOptions(t *testing.T) {
	good := Options{Self: "self", Boot: 1, Timing: DefaultTiming()}
	for _, bad := range []func(*Options){
		func(o *Options) { o.Self = "" }, func(o *Options) { o.Boot = 0 }, func(o *Options) { o.Timing.Retry = 0 },
	} {
		o := good
		bad(&o)
		if _, err := New(o); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestUnconfirmed: a host that never answered is not suspected, whatever is
// said of it and however silent it is; nor does hearsay confirm it.
func TestUnconfirmed(t *testing.T) {
	c := lone(t, 3)
	c.Step(Add{Node: "new"}, 0)
	for _, st := range []State{Suspect, Failed, Left, Alive} {
		if ch := gossip(c, nodeName(0), time.Second, Delta{Node: "new", Boot: 1, Inc: 3, State: st}); len(ch) > 0 {
			t.Errorf("%s by hearsay: %v", st, ch)
		}
	}
	// One way is not enough either: a message that answers nothing.
	c.Step(Receive{From: "new", Boot: 1, Msg: Message{Kind: Probe, N: 1}}, time.Second)
	if ch := quietly(c, time.Second, 30*time.Second, nodeName(0), nodeName(1), nodeName(2)); len(ch) > 0 {
		t.Errorf("verdicts: %v", ch)
	}
	if _, confirmed := c.State("new"); confirmed {
		t.Error("confirmed without an answer")
	}
}

// TestProbeConfirms: an answer to a probe confirms.
func TestProbeConfirms(t *testing.T) {
	c := lone(t, 0)
	c.Step(Add{Node: "new"}, 0)
	for now := time.Duration(0); now < 5*time.Second; now += 50 * time.Millisecond {
		for _, a := range slices.Clone(c.Step(Tick{}, now)) {
			if s, ok := a.(Send); ok && s.Msg.Kind == Probe {
				c.Step(Receive{From: "new", Boot: 4, Msg: Message{Kind: Ack, N: s.Msg.N}}, now)
			}
		}
	}
	if st, confirmed := c.State("new"); !confirmed || st != Alive {
		t.Errorf("%s, confirmed %t", st, confirmed)
	}
}

// TestWitnessesShorten: the end of a suspicion is its start plus what the
// witnesses leave; it moves to earlier only.
func TestWitnessesShorten(t *testing.T) {
	last := time.Duration(1 << 62)
	for w := range MaxWitnesses + 1 {
		d := patience(DefaultTiming(), 100, w)
		if d >= last {
			t.Errorf("%d witnesses: %s, fewer: %s", w, d, last)
		}
		last = d
	}
	if least := patience(DefaultTiming(), 100, MaxWitnesses); least != 4*time.Second {
		t.Errorf("the least is %s", least)
	}
	c := lone(t, 20)
	suspect := func(by cluster.NodeID, now time.Duration) {
		gossip(c, nodeName(0), now, Delta{Node: nodeName(9), Boot: 1, State: Suspect, By: by, Age: time.Millisecond})
	}
	p := c.peers[nodeName(9)]
	suspect(nodeName(1), time.Second)
	was := p.until
	for i, by := range []cluster.NodeID{nodeName(2), nodeName(2), nodeName(3), nodeName(4), nodeName(5)} {
		suspect(by, time.Second+time.Duration(i)*time.Millisecond)
		if p.until > was {
			t.Errorf("%s moves the end from %s to %s", by, was, p.until)
		}
		was = p.until
	}
	if want := p.since + patience(c.t, c.living, MaxWitnesses); p.until != want {
		t.Errorf("the end is %s, want %s", p.until, want)
	}
}

// TestRefutation: only a higher incarnation of the suspected boot, or a higher
// boot, ends a suspicion by hearsay.
func TestRefutation(t *testing.T) {
	c := lone(t, 5)
	node := nodeName(4)
	at := 10 * time.Second
	c.Step(Tick{}, at)
	gossip(c, nodeName(0), at, Delta{Node: node, Boot: 1, Inc: 0, State: Failed, Age: time.Second})
	if st, _ := c.State(node); st != Failed {
		t.Fatalf("hearsay of a failure leaves it %s", st)
	}
	gossip(c, nodeName(1), at, Delta{Node: node, Boot: 1, Inc: 0, State: Alive})
	if st, _ := c.State(node); st != Failed {
		t.Error("the same incarnation refutes")
	}
	if ch := gossip(c, nodeName(1), at, Delta{Node: node, Boot: 1, Inc: 1, State: Alive}); len(ch) != 1 || ch[0].State != Alive {
		t.Errorf("a higher incarnation: %v", ch)
	}
	gossip(c, nodeName(0), at, Delta{Node: node, Boot: 1, Inc: 1, State: Failed, Age: time.Second})
	if ch := gossip(c, nodeName(1), at, Delta{Node: node, Boot: 2, Inc: 0, State: Alive}); len(ch) != 1 || ch[0].State != Alive {
		t.Errorf("a higher boot: %v", ch)
	}
	gossip(c, nodeName(0), at, Delta{Node: node, Boot: 1, Inc: 9, State: Failed})
	if st, _ := c.State(node); st != Alive {
		t.Error("what is said of an earlier boot counts")
	}
}

// TestOwnWordBeatsHearsay: lies about its incarnation or boot do not mute a
// host.
func TestOwnWordBeatsHearsay(t *testing.T) {
	c := lone(t, 5)
	node := nodeName(2)
	gossip(c, nodeName(0), time.Second, Delta{Node: node, Boot: 1 << 30, Inc: 7, State: Failed})
	if st, _ := c.State(node); st != Failed {
		t.Fatal("not failed")
	}
	c.Step(Heard{Node: node, Boot: 1, HasState: true}, 2*time.Second)
	if st, _ := c.State(node); st != Alive {
		t.Error("its own word does not count")
	}
}

// TestLeft: a host that said that it stops is left; a straggler of the same
// boot does not bring it back, the next boot does.
func TestLeft(t *testing.T) {
	c := lone(t, 5)
	node := nodeName(2)
	c.Step(Leaving{Node: node, Boot: 1}, time.Second)
	c.Step(Heard{Node: node, Boot: 1}, time.Second)
	if st, _ := c.State(node); st != Left {
		t.Errorf("%s after a straggler", st)
	}
	c.Step(Heard{Node: node, Boot: 2}, 2*time.Second)
	if st, _ := c.State(node); st != Alive {
		t.Errorf("%s after a restart", st)
	}
}

// TestUrgentFirst: refutations, failures and suspicions go before other news,
// what was sent least often first.
func TestUrgentFirst(t *testing.T) {
	c := lone(t, 20)
	for i := range 8 {
		c.rumour(c.peers[nodeName(i)], update)
	}
	c.rumour(c.peers[nodeName(10)], accusation)
	c.rumour(c.peers[nodeName(11)], death)
	c.rumour(c.peers[nodeName(12)], refutation)
	var order []cluster.NodeID
	for _, d := range c.deltas(c.peers[nodeName(19)]) {
		order = append(order, d.Node)
	}
	if want := []cluster.NodeID{nodeName(12), nodeName(11), nodeName(10)}; len(order) != MaxDeltas || !slices.Equal(order[:3], want) {
		t.Errorf("sent %v, want %v first", order, want)
	}
	for range 200 {
		c.deltas(c.peers[nodeName(19)])
	}
	if len(c.rumours) != 0 {
		t.Errorf("%d rumours do not end", len(c.rumours))
	}
}

// TestRelaysAreBounded: no host can have another probe without end.
func TestRelaysAreBounded(t *testing.T) {
	c := lone(t, 200)
	for i := range 1000 {
		c.Step(Receive{From: nodeName(i % 40), Boot: 1, Msg: Message{Kind: PingReq, N: uint64(i + 1), Target: nodeName(100 + i%100)}}, time.Second)
	}
	if len(c.relays) > maxRelays {
		t.Errorf("%d relays", len(c.relays))
	}
	c.relays = nil
	for i := range 100 {
		c.Step(Receive{From: nodeName(0), Boot: 1, Msg: Message{Kind: PingReq, N: uint64(i + 1), Target: nodeName(100)}}, time.Second)
	}
	if len(c.relays) != maxRelaysEach {
		t.Errorf("%d relays for one host", len(c.relays))
	}
}

// TestSizeModel holds the simulation's idea of a datagram's length against the
// real one.
func TestSizeModel(t *testing.T) {
	key := make([]byte, 64)
	h := wire.Header{Node: "host-001", To: "host-002", Time: 1_700_000_000, Boot: 3, Seq: 123456}
	delta := wire.SwimDelta{Node: "host-004", Boot: 1, State: "suspect", By: "host-009", Witnesses: 3, AgeMS: 2222}
	for _, c := range []struct {
		kind wire.Type
		p    any
		m    Message
	}{
		{wire.TypeSwimProbe, wire.SwimProbe{SwimOwn: wire.SwimOwn{N: 12345}}, Message{Kind: Probe}},
		{wire.TypeSwimAck, wire.SwimAck{SwimOwn: wire.SwimOwn{N: 12345}, State: &wire.SwimState{
			Term: 7, Holder: "host-000", LogEvents: 123456,
		}}, Message{Kind: Ack}},
		{wire.TypeSwimGossip, wire.SwimGossip{SwimOwn: wire.SwimOwn{Deltas: []wire.SwimDelta{delta, delta}}}, Message{
			Kind: Gossip, Deltas: []Delta{{Node: "host-004", State: Suspect, By: "host-009"}, {Node: "host-004", State: Suspect, By: "host-009"}},
		}},
	} {
		h.Type = c.kind
		data, err := wire.Seal(key, h, c.p)
		if err != nil {
			t.Fatal(err)
		}
		if real, model := len(data)+28, int(size(c.m)); model < real*95/100 || model > real*115/100 {
			t.Errorf("%s: %d bytes, the model says %d", c.kind, real, model)
		}
	}
}

// FuzzStep: whatever comes, the core keeps its bounds and never stops asking
// for a later moment.
func FuzzStep(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	f.Add([]byte("0A1B2C3D4E5F6G7H8I9J0K1L2M3N4O5P"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := New(Options{Self: "self", Boot: 1, Timing: DefaultTiming(), Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > 4<<10 {
			return
		}
		var now time.Duration
		known := map[cluster.NodeID]bool{}
		for len(data) >= 4 {
			op, who, x, dt := data[0], nodeName(int(data[1]%6)), data[2], data[3]
			data = data[4:]
			now += time.Duration(dt) * 10 * time.Millisecond
			var ev Event
			switch op % 9 {
			case 0:
				ev = Activate{On: x&1 != 0}
			case 1:
				ev, known[who] = Add{Node: who}, true
			case 2:
				ev = Remove{Node: who}
				delete(known, who)
			case 3:
				ev = Heard{Node: who, Boot: uint64(x & 3), HasState: x&4 != 0, Inc: uint64(x >> 5), Round: x&8 != 0}
			case 4:
				ev = Leaving{Node: who, Boot: uint64(x & 3)}
			case 5:
				ev = Again{Node: who}
			case 6:
				ev = SetEligible{Eligible: x&1 != 0}
			case 7:
				ev = Tick{}
			default:
				about := nodeName(int(x % 6))
				if x&64 != 0 {
					about = "self"
				}
				ev = Receive{From: who, Boot: uint64(x & 3), Msg: Message{
					Kind: Kind(x % 5), N: uint64(x >> 4), Target: about, Inc: uint64(x >> 6),
					Deltas: []Delta{{Node: about, Boot: uint64(x & 3), Inc: uint64(x >> 3), State: State(x >> 2 & 3), By: who, Age: time.Duration(x) * time.Second}},
				}}
			}
			for _, a := range c.Step(ev, now) {
				s, ok := a.(Send)
				if !ok {
					continue
				}
				if !known[s.To] || len(s.Msg.Deltas) > MaxDeltas {
					t.Fatalf("%v", s)
				}
			}
			if c.Deadline() <= now-lateSlack || c.Score() < 0 || c.Score() > MaxScore || len(c.probes) > maxProbes ||
				len(c.relays) > maxRelays || len(c.rumours) > len(c.list)+1 || c.failed < 0 || c.failed > len(c.list) {
				t.Fatalf("deadline %s at %s, %+v", c.Deadline(), now, c)
			}
			for _, p := range c.list {
				if !p.confirmed && p.state != Alive {
					t.Fatalf("%s is %s, and never answered", p.node, p.state)
				}
			}
		}
	})
}

// TestFarHostsHaveLonger: what is far is suspected as much later as the way to it, and that to
// those who help and on from there, takes; a host that says to be very far gains little.
func TestFarHostsHaveLonger(t *testing.T) {
	for _, x := range []struct{ trip, helper, want time.Duration }{
		{0, 0, time.Second},
		{300 * time.Millisecond, 0, 1600 * time.Millisecond},
		{300 * time.Millisecond, 200 * time.Millisecond, 1800 * time.Millisecond},
		{time.Minute, 0, 5 * time.Second},
	} {
		c := lone(t, 6)
		for _, p := range c.list {
			p.measured(x.helper)
		}
		p := c.peers[nodeName(0)]
		p.trip = 0
		p.measured(x.trip)
		c.probes = nil
		c.probe(p, probeTurn)
		at := time.Duration(0)
		for ; p.state == Alive && at < time.Minute; at += 10 * time.Millisecond {
			c.now = at
			c.dueProbes()
		}
		if at -= 10 * time.Millisecond; at != x.want {
			t.Errorf("%s away, helpers %s: suspected after %s, want %s", x.trip, x.helper, at, x.want)
		}
	}
	p := &peer{}
	for _, trip := range []time.Duration{80, 80, 160} {
		p.measured(trip * time.Millisecond)
	}
	if p.trip != 90*time.Millisecond {
		t.Errorf("smoothed: %s", p.trip)
	}
}
