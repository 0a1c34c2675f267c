package offline

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/internal/logaudit"
)

var (
	noon  = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	blue  = member.ClusterID{1}.String()
	n1    = event.SourceID{Node: "n1", Inc: 1}
	n2    = event.SourceID{Node: "n2", Inc: 3}
	rootK = keyFor("root")
)

func keyFor(of string) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte((of + strings.Repeat("x", 32))[:32]))
}

func public(of string) []byte { return keyFor(of).Public().(ed25519.PublicKey) }

// chains is a log of chains in memory. It grows while it is read if more says so.
type chains struct {
	events []event.Event // in total order
	more   func()
}

func (m *chains) add(t *testing.T, src event.SourceID, at time.Time, body string) {
	t.Helper()
	e := event.Event{Source: src, Seq: 1, HLC: cluster.NewHLC(at, uint16(len(m.events))), Kind: event.KindHostStarted, Body: json.RawMessage(body)}
	for _, x := range m.events {
		if x.Source == src {
			e.Seq, e.Prev = x.Seq+1, x.Hash
		}
	}
	raw, err := record.AppendEvent(nil, e)
	if err != nil {
		t.Fatal(err)
	}
	e.Hash = record.HashEvent(e.Prev, raw)
	m.events = append(m.events, e)
}

func (m *chains) Heads() []event.Head {
	last := map[event.SourceID]event.Event{}
	for _, e := range m.events {
		last[e.Source] = e
	}
	var out []event.Head
	for src, e := range last {
		out = append(out, record.SignHead(blue, event.Head{Source: src, Seq: e.Seq, Hash: e.Hash}, keyFor(string(src.Node))))
	}
	slices.SortFunc(out, func(a, b event.Head) int { return a.Source.Compare(b.Source) })
	return out
}

func (*chains) Oldest() event.Cursor { return event.Cursor{} }

func (m *chains) LastBefore(h event.Head, before func(cluster.HLC) bool) (seq uint64, err error) {
	for _, e := range m.events {
		if e.Source == h.Source && before(e.HLC) {
			seq = e.Seq
		}
	}
	return seq, nil
}

func (m *chains) After(_ context.Context, at event.Cursor, f store.Filter) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		if m.more != nil {
			m.more()
		}
		for _, e := range m.events {
			if e.Seq <= at[e.Source] {
				continue
			}
			at.Advance(e.Source, e.Seq)
			if f.Match(e) && !yield(e, nil) {
				return
			}
		}
	}
}

func aboutBlue() api.ExportHead {
	return api.ExportHead{
		Version: api.ExportVersion, Cluster: blue, ClusterName: "blue", Host: "n1", RootKey: rootK.Public().(ed25519.PublicKey),
		Certs: []string{}, Keys: []api.ExportKey{{Node: "n1", Key: public("n1")}, {Node: "n2", Key: public("n2")}},
	}
}

// hours is a log of two hosts with an event of each every ten minutes of six hours.
func hours(t *testing.T) *chains {
	t.Helper()
	m := &chains{}
	for i := range 36 {
		at := noon.Add(time.Duration(i-36) * 10 * time.Minute)
		m.add(t, n1, at, fmt.Sprintf(`{"version":"<%d>","boot":1}`, i))
		m.add(t, n2, at, `{"boot":2}`)
	}
	return m
}

func check(t *testing.T, text []byte) api.ExportCheck {
	t.Helper()
	c, err := checkExport(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestRecent: the newest part is whole and proves itself, to a program too that shares no
// code with this one; of a log that is too large it is a shorter one.
func TestRecent(t *testing.T) {
	m := hours(t)
	for _, c := range []struct {
		span   time.Duration
		most   int
		events uint64
		from   time.Duration
	}{
		{time.Hour, 1 << 20, 12, time.Hour},
		{24 * time.Hour, 1 << 20, 72, 24 * time.Hour},
		{6 * time.Hour, 20_000, 36, 3 * time.Hour},
		{time.Minute, 1 << 20, 0, time.Minute},
	} {
		text, from, err := RecentLog(t.Context(), m, aboutBlue(), noon, c.span, c.most)
		if err != nil {
			t.Fatal(err)
		}
		got := check(t, text)
		if !got.OK || got.Events != c.events || !from.Equal(noon.Add(-c.from)) || len(text) > c.most || got.Partial {
			t.Errorf("%s in %d bytes: %+v from %s, %d bytes", c.span, c.most, got, from, len(text))
		}
		if x, err := logaudit.ReadExport(bytes.NewReader(text)); err != nil || uint64(x.Events) != c.events {
			t.Errorf("%s: %+v %v", c.span, x, err)
		}
	}
	if _, _, err := RecentLog(t.Context(), m, aboutBlue(), noon, time.Hour, 300); err == nil {
		t.Error("there is room for nothing")
	}
}

// TestMovingLog: what comes while a log is written is left to the next export, which
// begins where this one ends.
func TestMovingLog(t *testing.T) {
	m := hours(t)
	m.more = func() {
		m.add(t, n1, noon, `{}`)
		m.add(t, event.SourceID{Node: "n2", Inc: 4}, noon, `{}`)
	}
	var first, second bytes.Buffer
	end, err := WriteLog(t.Context(), m, aboutBlue(), ExportOptions{}, &first)
	if err != nil || end.Events != 72 || end.Cursor != "n1/1:36,n2/3:36" {
		t.Fatalf("%+v %v", end, err)
	}
	at, err := event.ParseCursor(end.Cursor)
	if err != nil {
		t.Fatal(err)
	}
	m.more = nil
	if end, err := WriteLog(t.Context(), m, aboutBlue(), ExportOptions{From: at}, &second); err != nil || end.Events != 2 {
		t.Fatalf("%+v %v", end, err)
	}
	if c := check(t, first.Bytes()); !c.OK || len(c.Sources) != 2 || c.From != "" || len(c.Uncertified) != 2 {
		t.Errorf("%+v", c)
	}
	if c := check(t, second.Bytes()); !c.OK || c.Events != 2 || c.From != end.Cursor {
		t.Errorf("%+v", c)
	}
	if x, err := logaudit.ReadExport(&first, &second); err != nil || x.Events != 74 {
		t.Errorf("%+v %v", x, err)
	}
}

// TestCheckRefuses: no line can be left out, doubled, moved or changed, neither the bytes
// of an event nor what people read of it.
func TestCheckRefuses(t *testing.T) {
	text, _, err := RecentLog(t.Context(), hours(t), aboutBlue(), noon, time.Hour, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) != 14 {
		t.Fatalf("%d lines", len(lines))
	}
	bad := func(name string, changed []string) {
		t.Helper()
		if c := check(t, []byte(strings.Join(changed, ""))); c.OK || c.Problem == "" {
			t.Errorf("%s: %+v", name, c)
		}
	}
	for i := range lines {
		bad(fmt.Sprintf("without line %d", i), slices.Concat(lines[:i], lines[i+1:]))
		bad(fmt.Sprintf("line %d twice", i), slices.Concat(lines[:i+1], lines[i:]))
		if i > 0 {
			moved := slices.Clone(lines)
			moved[i], moved[i-1] = moved[i-1], moved[i]
			bad(fmt.Sprintf("line %d moved", i), moved)
		}
	}
	event := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, `"n1"`) && strings.Contains(l, `"raw"`) })
	for _, c := range []struct {
		line     int
		old, new string
	}{
		{event, `"boot":1`, `"boot":7`},
		{event, `"seq":31`, `"seq":32`},
		{event, `host_started`, `host_stopped`},
		{event, `"term":0`, `"term":1`},
		{event, `"raw":"AQ`, `"raw":"AR`},
		{event, `2026-01-02T11`, `2026-01-02T10`},
		{event, `"hash":"`, `"hash":"0`},
		{0, `"from":"n1/1:30`, `"from":"n1/1:29`},
		{0, `"cluster":"a`, `"cluster":"b`},
		{0, `"version":1`, `"version":2`},
		{0, `"sig":"`, `"sig":"AA`},
		{0, `{"node":"n1","key"`, `{"node":"n7","key"`},
		{13, `"events":12`, `"events":11`},
	} {
		changed := slices.Clone(lines)
		if changed[c.line] = strings.Replace(lines[c.line], c.old, c.new, 1); changed[c.line] == lines[c.line] {
			t.Fatalf("nothing to change: no %s in %s", c.old, lines[c.line])
		}
		bad(c.old+" is "+c.new, changed)
	}
	bad("something else", []string{"{}\n"})
	bad("nothing", nil)
	bad("no JSON", []string{strings.Repeat("[", 1000)})

	// Of what was selected each event is checked by itself.
	var some bytes.Buffer
	if _, err := WriteLog(t.Context(), hours(t), aboutBlue(), ExportOptions{Node: "n2"}, &some); err != nil {
		t.Fatal(err)
	}
	if c := check(t, some.Bytes()); !c.OK || !c.Partial || c.Events != 36 {
		t.Errorf("selected: %+v", c)
	}
	bad("selected, and changed", []string{strings.Replace(some.String(), `"boot":2`, `"boot":3`, 1)})
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte("{\"export\":{\"version\":1,\"cluster\":\"aeaaaaaaaaaaaaaaaaaaaaaaaa\"}}\n{\"end\":{\"events\":0}}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if c, err := checkExport(bytes.NewReader(text)); err != nil || c.OK && c.Events > 0 {
			t.Fatalf("%+v %v", c, err)
		}
	})
}
