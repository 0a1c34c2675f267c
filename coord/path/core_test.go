package path

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

const s = time.Second

func timing() Timing { return DefaultTiming(s, 3*s) }

func text(actions []Action) string {
	var out []string
	for _, a := range actions {
		out = append(out, a.String())
	}
	return strings.Join(out, "; ")
}

// TestScenarios replays what happens to one pair, seen from host b.
func TestScenarios(t *testing.T) {
	type step struct {
		at   time.Duration
		ev   Event
		want string
	}
	add := step{0, Add{Node: "c", Onion: true}, ""}
	for name, steps := range map[string][]step{
		"mesh fails and heals": {
			add,
			{1 * s, Heard{"c"}, ""},
			{5 * s, Lost{"c"}, "dial c"},
			{6 * s, Opened{"c"}, "say c deaf=true; changed c onion"},
			{7 * s, Word{"c", true}, ""},
			{60 * s, Heard{"c"}, ""},
			{60*s + 1, Heard{"c"}, ""},
			{61 * s, Heard{"c"}, ""},
			{62 * s, Heard{"c"}, "say c deaf=false"},
			{63 * s, Word{"c", false}, "changed c direct"},
			{64 * s, Tick{}, ""},
			{61*s + 2*time.Minute, Tick{}, ""},
			{62*s + 2*time.Minute, Tick{}, "close c"},
			{64*s + 2*time.Minute, Closed{"c", 0}, ""},
		},
		"signs with gaps do not heal": {
			add,
			{1 * s, Heard{"c"}, ""},
			{5 * s, Lost{"c"}, "dial c"},
			{6 * s, Opened{"c"}, "say c deaf=true; changed c onion"},
			{10 * s, Heard{"c"}, ""},
			{20 * s, Heard{"c"}, ""},
			{30 * s, Heard{"c"}, ""},
			{40 * s, Heard{"c"}, ""},
		},
		"never heard": {
			add,
			{2 * s, Tick{}, ""},
			{3 * s, Tick{}, "dial c"},
			{4 * s, Failed{"c", 0}, ""},
			{4*s + 499*time.Millisecond, Tick{}, ""},
			{4*s + 500*time.Millisecond, Tick{}, "dial c"},
			{5 * s, Failed{"c", 0.5}, ""},
			{6 * s, Tick{}, ""},
			{6*s + 500*time.Millisecond, Tick{}, "dial c"},
		},
		"the other is deaf": {
			add,
			{1 * s, Heard{"c"}, ""},
			{2 * s, Opened{"c"}, "say c deaf=false"},
			{2 * s, Word{"c", true}, "changed c onion"},
			{3 * s, Heard{"c"}, ""},
			{6 * s, Tick{}, "say c deaf=true"},
			{7 * s, Closed{"c", 0}, "changed c direct"},
			{7*s + 500*time.Millisecond, Tick{}, "dial c"},
		},
		"a stream that does not answer": {
			add,
			{1 * s, Heard{"c"}, ""},
			{5 * s, Lost{"c"}, "dial c"},
			{6 * s, Opened{"c"}, "say c deaf=true; changed c onion"},
			{30 * s, Lost{"c"}, "close c; changed c direct"},
			{30 * s, Closed{"c", 0}, ""},
			{31 * s, Tick{}, "dial c"},
		},
		"the lower one dials first": {
			{0, Add{Node: "a", Onion: true}, ""}, {1 * s, Heard{"a"}, ""}, {5 * s, Lost{"a"}, ""}, {7 * s, Tick{}, ""}, {8 * s, Tick{}, "dial a"},
		},
		"no onion service": {
			{0, Add{Node: "c"}, ""}, {9 * s, Tick{}, ""}, {10 * s, Add{Node: "c", Onion: true}, "dial c"},
		},
		"strangers and this host": {
			{0, Add{Node: "b", Onion: true}, ""},
			{9 * s, Tick{}, ""},
			{9 * s, Heard{"x"}, ""},
			{9 * s, Lost{"x"}, ""},
			{9 * s, Opened{"x"}, "close x"},
			{9 * s, Closed{"x", 0}, ""},
			{9 * s, Failed{"x", 0}, ""},
			{9 * s, Word{"x", true}, ""},
		},
		"removed": {
			add,
			{3 * s, Tick{}, "dial c"},
			{4 * s, Opened{"c"}, "say c deaf=true; changed c onion"},
			{5 * s, Remove{"c"}, "close c"},
			{6 * s, Closed{"c", 0}, ""},
			{6 * s, Remove{"c"}, ""},
		},
		"recovers by itself": {
			add,
			{1 * s, Heard{"c"}, ""},
			{5 * s, Lost{"c"}, "dial c"},
			{6 * s, Heard{"c"}, ""},
			{7 * s, Heard{"c"}, ""},
			{8 * s, Heard{"c"}, ""},
			{20 * s, Failed{"c", 0}, ""},
			{99 * s, Tick{}, ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := New("b", timing())
			for i, st := range steps {
				if got := text(c.Step(st.ev, st.at)); got != st.want {
					t.Fatalf("step %d %T at %s: %q, want %q", i, st.ev, st.at, got, st.want)
				}
			}
		})
	}
}

// TestBounds: however many hosts are out of reach, streams and dials are few,
// and all hosts get their turn.
func TestBounds(t *testing.T) {
	c := New("a", timing())
	tried := map[cluster.NodeID]bool{}
	for i := range 500 {
		c.Step(Add{Node: cluster.NodeID(fmt.Sprintf("n%03d", i)), Onion: true}, 0)
	}
	for now := 3 * s; now < 400*s; now += s {
		dials := c.Step(Tick{}, now)
		if len(dials) > MaxDials {
			t.Fatalf("%d dials at once", len(dials))
		}
		for _, d := range dials {
			node := d.(Dial).Node
			tried[node] = true
			c.Step(Failed{Node: node}, now)
		}
	}
	if len(tried) != 500 {
		t.Errorf("%d of 500 tried", len(tried))
	}
	open := 0
	for now := 400 * s; now < 1000*s; now += s {
		for _, d := range c.Step(Tick{}, now) {
			if d, ok := d.(Dial); ok {
				open++
				c.Step(Opened(d), now)
			}
		}
	}
	if open != MaxStreams {
		t.Errorf("%d streams, want %d", open, MaxStreams)
	}
}

// FuzzCore: whatever happens, counts hold, nothing is asked for twice, the way
// is onion only while a stream is open, and the deadline is never passed over.
func FuzzCore(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9}, uint64(1))
	f.Fuzz(func(t *testing.T, steps []byte, seed uint64) {
		if len(steps) > 4000 {
			return
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		c := New("b", timing())
		open, dialing := map[cluster.NodeID]bool{}, map[cluster.NodeID]bool{}
		now := time.Duration(0)
		for _, x := range steps {
			node := cluster.NodeID([]string{"a", "b", "c", "d"}[x&3])
			now += time.Duration(rng.IntN(int(4 * s)))
			var ev Event
			switch x >> 2 % 9 {
			case 0:
				ev = Add{Node: node, Onion: x&64 != 0}
			case 1:
				ev = Remove{node}
			case 2:
				ev = Heard{node}
			case 3:
				ev = Lost{node}
			case 4:
				ev = Word{node, x&64 != 0}
			case 5:
				ev = Opened{node}
				open[node] = c.peers[node] != nil
				delete(dialing, node)
			case 6:
				ev = Closed{node, rng.Float64()}
				delete(open, node)
			case 7:
				ev = Failed{node, rng.Float64()}
				delete(dialing, node)
			default:
				ev = Tick{}
			}
			for _, a := range c.Step(ev, now) {
				switch a := a.(type) {
				case Dial:
					if dialing[a.Node] || open[a.Node] || a.Node == "b" {
						t.Fatalf("%T: %s", ev, a)
					}
					dialing[a.Node] = true
				case Changed:
					if c.Way(a.Node) != a.To || a.To == Onion && !open[a.Node] {
						t.Fatalf("%T: %s", ev, a)
					}
				}
			}
			if _, removed := ev.(Remove); removed {
				delete(dialing, node)
				delete(open, node)
			}
			streams, dials := 0, 0
			for _, p := range c.peers {
				if p.stream {
					streams++
				}
				if p.dialing {
					dials++
				}
			}
			if c.open != streams || c.dials != dials || dials > MaxDials {
				t.Fatalf("%d streams and %d dials, counted %d and %d", streams, dials, c.open, c.dials)
			}
			if _, tick := ev.(Tick); tick {
				if at, ok := c.Deadline(); ok && at <= now {
					t.Fatalf("deadline %s at %s", at, now)
				}
			}
		}
	})
}

// FuzzParse: what is accepted encodes to the bytes it came from, but for what
// a later version may append, and nothing panics.
func FuzzParse(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, 2, 1})
	f.Add(Frame{Kind: KindDatagram, Body: []byte("x")}.Append(nil))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) < headLen {
			return
		}
		n, err := Length([headLen]byte(raw))
		if err != nil || len(raw) < headLen+n {
			return
		}
		fr, err := Parse(raw[headLen : headLen+n])
		if err != nil {
			return
		}
		if len(fr.Body) > MaxMessage {
			t.Fatalf("message of %d bytes", len(fr.Body))
		}
		if fr.Kind == KindDatagram || (fr.Kind == KindPing || fr.Kind == KindPong) && n == 2 {
			if got := fr.Append(nil); string(got) != string(raw[:headLen+n]) {
				t.Fatalf("%x reads as %x", raw, got)
			}
		}
	})
}

func TestFrames(t *testing.T) {
	for name, raw := range map[string][]byte{
		"empty": {}, "no word": {2}, "bad word": {3, 2}, "empty message": {1}, "long message": make([]byte, 2000),
	} {
		if name == "long message" {
			raw[0] = byte(KindDatagram)
		}
		if _, err := Parse(raw); err == nil {
			t.Errorf("%s accepted", name)
		}
	}
	for _, n := range [][headLen]byte{{}, {0, 0, 8, 1}, {255, 255, 255, 255}} {
		if _, err := Length(n); err == nil {
			t.Errorf("length %x accepted", n)
		}
	}
	if f, err := Parse([]byte{77, 1, 2}); err != nil || f.Kind != 77 {
		t.Errorf("a later version's frame: %+v, %v", f, err)
	}
}
