package delta

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster/event"
)

type host struct {
	Node  string  `json:"node"`
	State string  `json:"state"`
	Seen  float64 `json:"seen_seconds"`
}

var cols = Columns{{Name: "seen_seconds"}}

func rowOf(h host, owner string) Row {
	still := h
	still.Seen = 0
	text, err := json.Marshal(still)
	if err != nil {
		panic(err)
	}
	return Row{Key: h.Node, Owner: owner, Still: text, Gauges: []float64{h.Seen}, Value: h}
}

func rowsOf(hosts ...host) []Row {
	var out []Row
	for _, h := range hosts {
		out = append(out, rowOf(h, ""))
	}
	return out
}

func update(t *testing.T, d *Differ, topic string, rows []Row) bool {
	t.Helper()
	changed, err := d.Update(topic, cols, rows)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func dataOf(t *testing.T, d *Differ, after uint64) []string {
	t.Helper()
	list, ok := d.After(after, math.MaxInt)
	if !ok {
		t.Fatalf("nothing after %d", after)
	}
	var out []string
	for _, f := range list {
		out = append(out, f.Event+" "+string(f.Data))
	}
	return out
}

func TestDelta(t *testing.T) {
	d := NewDiffer("b", RingBytes)
	if !update(t, d, "members", rowsOf(host{"n2", "alive", 1}, host{"n1", "alive", 2})) {
		t.Fatal("the first rows make no difference")
	}
	at := d.Head()
	if update(t, d, "members", rowsOf(host{"n1", "alive", 7.25}, host{"n2", "alive", math.Pi})) || d.Head() != at {
		t.Error("an age makes a difference")
	}
	if !d.Tell("members") || d.Tell("members") {
		t.Error("an age is not told once")
	}
	f := d.Gauges("members", 0, nil)
	if want := `{"topic":"members","keys":["n1","n2"],"cols":{"seen_seconds":[7.25,3.14159]}}`; string(f.Data) != want {
		t.Errorf("gauges %s, want %s", f.Data, want)
	}
	update(t, d, "members", rowsOf(host{"n1", "dead", 9}, host{"n3", "joining", 0}))
	want := []string{`delta {"topic":"members","set":[{"node":"n1","state":"dead","seen_seconds":9},{"node":"n3","state":"joining","seen_seconds":0}],"del":["n2"]}`}
	if got := dataOf(t, d, at); !reflect.DeepEqual(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	snap, err := d.Snapshot("members", nil)
	if err != nil || len(snap) != 1 {
		t.Fatal(len(snap), err)
	}
	if want := `{"topic":"members","rows":[{"node":"n1","state":"dead","seen_seconds":9},{"node":"n3","state":"joining","seen_seconds":0}],"last":true}`; string(snap[0].Data) != want {
		t.Errorf("snapshot %s, want %s", snap[0].Data, want)
	}
	if snap, _ = d.Snapshot("jobs", nil); string(snap[0].Data) != `{"topic":"jobs","rows":[],"last":true}` {
		t.Errorf("empty snapshot %s", snap[0].Data)
	}
}

// TestOwnRowsOnly: who may see some rows learns nothing of the others.
func TestOwnRowsOnly(t *testing.T) {
	d := NewDiffer("b", RingBytes)
	may := func(owner string) bool { return owner == "user:ann" }
	rows := func(state string) []Row {
		return []Row{rowOf(host{"j1", state, 1}, "user:ann"), rowOf(host{"j2", state, 2}, "user:bob")}
	}
	update(t, d, "jobs", rows("a"))
	update(t, d, "jobs", rows("b"))
	update(t, d, "jobs", nil)
	update(t, d, "jobs", rows("c")[1:])
	snap, _ := d.Snapshot("jobs", may)
	got := []string{string(snap[0].Data)}
	list, _ := d.After(0, math.MaxInt)
	for _, f := range list {
		if f = f.Visible(may); f != nil {
			got = append(got, string(f.Data))
		}
	}
	want := []string{
		`{"topic":"jobs","rows":[],"last":true}`,
		`{"topic":"jobs","set":[{"node":"j1","state":"a","seen_seconds":1}],"del":[]}`,
		`{"topic":"jobs","set":[{"node":"j1","state":"b","seen_seconds":1}],"del":[]}`,
		`{"topic":"jobs","set":[],"del":["j1"]}`,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
	late := rows("c")[1:]
	late[0].Gauges = []float64{7}
	update(t, d, "jobs", late)
	if f := d.Gauges("jobs", 0, may); !d.Tell("jobs") || f != nil {
		t.Errorf("gauges of another's: %s", f.Data)
	}
}

// view applies frames as a reader does.
type view map[string]host

func (v view) apply(t *testing.T, f *Frame) {
	t.Helper()
	var d struct {
		Rows, Set []host
		Del, Keys []string
		Cols      map[string][]float64
	}
	if err := json.Unmarshal(f.Data, &d); err != nil {
		t.Fatalf("%s: %v", f.Data, err)
	}
	for _, h := range append(d.Rows, d.Set...) {
		v[h.Node] = h
	}
	for _, k := range d.Del {
		delete(v, k)
	}
	for i, k := range d.Keys {
		h := v[k]
		h.Seen = d.Cols["seen_seconds"][i]
		v[k] = h
	}
}

// TestApplyIsRefetch: a reader that starts anywhere, and leaves out or repeats
// what it likes of the past, has in the end what a snapshot says, and of a gauge what
// is not further from it than twice its slack.
func TestApplyIsRefetch(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		d := NewDiffer("b", RingBytes)
		cols := Columns{{Name: "seen_seconds"}}
		if seed%2 == 1 {
			cols[0].Slack.Least = 3
		}
		hosts := map[string]host{}
		step := func() {
			for range rng.IntN(5) {
				name := fmt.Sprintf("n%d", rng.IntN(600))
				if rng.IntN(3) == 0 {
					delete(hosts, name)
				} else {
					hosts[name] = host{name, [...]string{"alive", "dead"}[rng.IntN(2)], float64(rng.IntN(9))}
				}
			}
			for name, h := range hosts {
				h.Seen += float64(rng.IntN(3))
				hosts[name] = h
			}
			if _, err := d.Update("members", cols, rowsOf(slices.Collect(maps.Values(hosts))...)); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(3) > 0 {
				d.Tell("members")
			}
		}
		for range rng.IntN(50) {
			step()
		}
		v := view{}
		snap, _ := d.Snapshot("members", nil)
		for _, f := range snap {
			v.apply(t, f)
		}
		at, told := d.Head(), d.Tellings("members")
		gauges := func() {
			if rng.IntN(4) == 0 {
				told = rng.Uint64N(told + 1)
			}
			if f := d.Gauges("members", told, nil); f != nil {
				v.apply(t, f)
			}
			told = d.Tellings("members")
		}
		for range rng.IntN(50) {
			step()
			if rng.IntN(2) == 0 {
				from := at
				if rng.IntN(2) == 0 {
					from = rng.Uint64N(at + 1) // what comes again does no harm
				}
				list, _ := d.After(from, math.MaxInt)
				for _, f := range list {
					v.apply(t, f)
				}
				at = d.Head()
				if from < at {
					told = 0 // as for one who goes on from a position
				}
				gauges()
			}
		}
		list, _ := d.After(at, math.MaxInt)
		for _, f := range list {
			v.apply(t, f)
		}
		d.Tell("members")
		gauges()
		for name, h := range hosts {
			have := v[name]
			if math.Abs(have.Seen-h.Seen) <= 2*cols[0].Slack.Least {
				have.Seen = h.Seen
			}
			v[name] = have
		}
		if !maps.Equal(v, hosts) {
			t.Fatalf("seed %d: the reader has %v, the view %v", seed, v, hosts)
		}
	}
}

// TestSlack: a gauge is told when it is no longer what was told, not when it is no
// longer what it just was; with it come those rows and columns only.
func TestSlack(t *testing.T) {
	d := NewDiffer("b", RingBytes)
	cols := Columns{{Name: "a", Slack: Slack{Least: 1, Part: 0.5}}, {Name: "b"}}
	tell := func(values ...float64) string {
		t.Helper()
		rows := []Row{{Key: "x", Gauges: values[:2], Value: 1}, {Key: "y", Gauges: values[2:], Value: 2}}
		if _, err := d.Update("t", cols, rows); err != nil {
			t.Fatal(err)
		}
		before := d.Tellings("t")
		if !d.Tell("t") {
			return ""
		}
		return string(d.Gauges("t", before, nil).Data)
	}
	nan := math.NaN()
	for i, c := range []struct {
		values []float64
		want   string
	}{
		{[]float64{0, 5, 10, 5}, ``}, // with the rows
		{[]float64{1, 5, 15, 5}, ``},
		{[]float64{-1, 5, 5, 5}, ``},
		{[]float64{1.23456, 5, 12, 5}, `{"topic":"t","keys":["x"],"cols":{"a":[1.235]}}`},
		{[]float64{2, 5, 15.5, 5}, `{"topic":"t","keys":["y"],"cols":{"a":[15.5]}}`},
		{[]float64{2, 5.0000001, 15.5, 5}, `{"topic":"t","keys":["x"],"cols":{"b":[5]}}`},
		{[]float64{nan, 5.0000001, 15.5, 6}, `{"topic":"t","keys":["x","y"],"cols":{"a":[null,15.5],"b":[5,6]}}`},
		{[]float64{nan, 5.0000001, 15.5, 6}, ``},
		{[]float64{0, 5.0000001, 15.5, 6}, `{"topic":"t","keys":["x"],"cols":{"a":[0]}}`},
	} {
		if got := tell(c.values...); got != c.want {
			t.Errorf("%d: %s, want %s", i, got, c.want)
		}
	}
	// Who was away has all that was told since.
	if f := d.Gauges("t", 1, nil); string(f.Data) != `{"topic":"t","keys":["x","y"],"cols":{"a":[0,15.5],"b":[5,6]}}` {
		t.Errorf("of several tellings: %s", f.Data)
	}
	if f := d.Gauges("t", d.Tellings("t"), nil); f != nil {
		t.Errorf("of none: %s", f.Data)
	}
}

func TestSnapshotParts(t *testing.T) {
	d := NewDiffer("b", RingBytes)
	var rows []Row
	for i := range 600 {
		rows = append(rows, rowOf(host{fmt.Sprintf("n%04d", i), strings.Repeat("x", i), 0}, ""))
	}
	update(t, d, "members", rows)
	snap, err := d.Snapshot("members", nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i, f := range snap {
		var p struct {
			Rows []host
			Last bool
		}
		if err := json.Unmarshal(f.Data, &p); err != nil {
			t.Fatal(err)
		}
		n += len(p.Rows)
		if len(p.Rows) > PartRows || len(f.Data) > PartBytes+100 {
			t.Errorf("part %d has %d rows, %d bytes", i, len(p.Rows), len(f.Data))
		}
		if p.Last != (i == len(snap)-1) {
			t.Errorf("part %d says last %v", i, p.Last)
		}
	}
	if n != 600 || len(snap) < 3 {
		t.Errorf("%d rows in %d parts", n, len(snap))
	}
}

func TestRingAndResume(t *testing.T) {
	d := NewDiffer("b", 100<<10)
	for i := range 1000 {
		update(t, d, "members", rowsOf(host{"n1", fmt.Sprint(i), 0}))
		if d.ring.size > d.ring.limit {
			t.Fatalf("%d bytes in a ring of %d", d.ring.size, d.ring.limit)
		}
	}
	first := d.ring.first
	if first == 0 || d.Head() != 1000 {
		t.Fatalf("ring from %d to %d", first, d.Head())
	}
	for _, c := range []struct {
		at   Position
		from uint64
		why  Reason
	}{
		{Position{Boot: "b", Offset: first}, first, ""},
		{Position{Boot: "b", Offset: 1000}, 1000, ""},
		{Position{Boot: "b", Offset: first - 1}, 0, Window},
		{Position{Boot: "b", Offset: 1001}, 0, Window},
		{Position{Boot: "c", Offset: 1000}, 0, Restart},
	} {
		if from, why := d.Resume("b", c.at); from != c.from || why != c.why {
			t.Errorf("%s: resumed at %d, %q, want %d, %q", c.at, from, why, c.from, c.why)
		}
	}
}

func TestLogFrame(t *testing.T) {
	src := event.SourceID{Node: "n1", Inc: 1}
	f, err := NewLog("events", []event.Event{{Source: src, Seq: 3, Kind: "job_done"}}, event.Cursor{src: 3})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Events []Record
		Cursor string
	}
	if err := json.Unmarshal(f.Data, &got); err != nil || got.Cursor != "n1/1:3" || string(got.Events[0].Body) != "{}" {
		t.Errorf("%s: %v", f.Data, err)
	}
}

func TestPosition(t *testing.T) {
	for _, text := range []string{"b.0", "0af1-9.18446744073709551615", "b.1;", "b.1;n1/1:3,n2/4:1"} {
		p, err := ParsePosition(text)
		if err != nil || p.String() != text {
			t.Errorf("%q is read as %q: %v", text, p, err)
		}
	}
	for _, text := range []string{
		"", ".", "b", "b.", ".1", "b.-1", "b.01", "b.+1", "B.1", "b.1;n1", "b.1;n1/0:1", "b.1;n1/1:1,n1/1:1", "b 1", "b.18446744073709551616",
		strings.Repeat("b", 65) + ".1", "b.1;" + strings.Repeat("n", MaxPosition),
	} {
		if _, err := ParsePosition(text); !errors.Is(err, ErrPosition) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

func FuzzPosition(f *testing.F) {
	for _, s := range []string{"b.0", "b.1;n1/1:3", "0-1.7;", "b.1;n1/1:3,n2/4:1", ";", "b.1;;"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePosition(text)
		if err != nil {
			if !errors.Is(err, ErrPosition) {
				t.Fatalf("%v is no ErrPosition", err)
			}
			return
		}
		again, err := ParsePosition(p.String())
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Fatalf("%q: %v becomes %v: %v", text, p, again, err)
		}
	})
}
