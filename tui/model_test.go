package tui

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
)

var noon = time.Date(2026, 1, 2, 12, 39, 30, 0, time.UTC)

func message(name string, data any) api.WatchMessage {
	text, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	return api.WatchMessage{Event: name, Data: text}
}

func snapshot[T any](topic string, rows ...T) api.WatchMessage {
	return message("snapshot", map[string]any{"topic": topic, "rows": rows, "last": true})
}

func eventAt(node cluster.NodeID, seq uint64, d time.Duration, kind event.Kind, body any) event.Event {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return event.Event{Source: event.SourceID{Node: node, Inc: 1}, Seq: seq, HLC: cluster.NewHLC(noon.Add(-d), 0), Term: 42, Kind: kind, Body: text}
}

const (
	pi     = "jpiaaaaaaaaaaaaaaaaaaaaaaaa"
	render = "jrenderaaaaaaaaaaaaaaaaaaaa"
)

// first is how a watch of three hosts begins, one of which is suspected.
func first(mayChange bool) []api.WatchMessage {
	address := strings.Repeat("a", 56) + ".onion"
	return []api.WatchMessage{
		message("hello", map[string]any{"node": "n2", "cluster": "blue", "may_change": mayChange}),
		snapshot("status", api.Status{
			Cluster: "blue", State: api.StateDegraded, Reasons: []string{"n3 suspect"}, Role: cluster.RoleStandby, Term: 42,
			Lease:   api.LeaseSummary{Holder: "n1", Term: 42, Voters: 3, Mode: cluster.ModeQuorum, Profile: "lan", Publisher: "n1", RenewedSeconds: new(0.4)},
			Members: api.MemberCounts{Total: 3, Alive: 2, Suspect: 1}, Log: api.LogSummary{Events: 1175, CheckedAt: new(noon.Add(-36 * time.Minute))}, Jobs: api.JobCounts{Running: 1},
			Publish: api.PublishSummary{State: api.PublishOK, By: "n1", PublishedAt: new(noon.Add(-12 * time.Minute))},
		}),
		snapshot("members",
			api.Member{Node: "n1", Addr: "10.86.11.250", State: cluster.Alive, Role: cluster.RoleHolder, Term: 42, SeenSeconds: new(0.4), RTTSeconds: new(0.0011), Path: "direct", Voter: true},
			api.Member{Node: "n2", Self: true, Addr: "10.86.56.49", State: cluster.Alive, Role: cluster.RoleStandby, Term: 42, Path: "self"},
			api.Member{Node: "n3", Addr: "10.86.74.246", State: cluster.Suspect, Role: cluster.RoleStandby, Term: 41, SeenSeconds: new(7.2), RTTSeconds: new(0.003), Path: "direct"}),
		snapshot("links",
			api.Link{From: "n1", To: "n2", State: cluster.Alive, Path: "direct", HandshakeSeconds: new(11.0), RTTSeconds: new(0.0011), ReceiveBytesPerSecond: new(4500.0), TransmitBytesPerSecond: new(960.0)},
			api.Link{From: "n3", To: "n1", State: "unknown"}),
		snapshot("workers", api.Worker{Node: "n1", Live: cluster.Alive, Ready: true, Progress: "normal", Verdict: "route", Slots: 8, Assigned: 2, BacklogIterations: 12500000, RatePerSecond: new(1.49e8), DrainSeconds: 2}),
		snapshot("jobs",
			api.Job{ID: pi, Name: "pi", State: job.Running, Owner: "user:ann", SubmittedAt: noon.Add(-time.Minute), Iterations: api.IterationCounts{Total: 1000, Accepted: 370}, Chunks: api.ChunkCounts{Total: 24, Accepted: 9}},
			api.Job{ID: render, State: job.Completed, Owner: "user:bob", SubmittedAt: noon.Add(-time.Hour), Iterations: api.IterationCounts{Total: 10, Accepted: 10}}),
		snapshot("workflows",
			api.Workflow{ID: "wnightlyaaaaaaaaaaaaaaaaaaa", Name: "nightly", State: flow.Running, Owner: "user:ann", SubmittedAt: noon.Add(-2 * time.Minute), ElapsedSeconds: 120},
			api.Workflow{ID: "wnightlybbbbbbbbbbbbbbbbbbb", Name: "nightly", State: flow.Queued, Owner: "user:ann", SubmittedAt: noon.Add(-time.Minute), ElapsedSeconds: 60},
			api.Workflow{ID: "wreportaaaaaaaaaaaaaaaaaaaa", Name: "report", State: flow.Failed, Owner: "user:bob", SubmittedAt: noon.Add(-time.Hour), ElapsedSeconds: 31, Round: 1, Reason: "step draw: failed: exit code 3"}),
		snapshot("load",
			api.WatchedLoad{
				LoadRun: api.LoadRun{ID: "lshopaaaaaaaaaaaaaaaaaaaaaa", Name: "shop", State: event.LoadStarted, Owner: "user:ann", SubmittedAt: noon.Add(-3 * time.Minute), Hosts: []api.LoadHost{{Host: "n1", Share: 0.5}, {Host: "n2", Share: 0.5}}},
				Now:     &api.LoadNow{At: 70, Of: 750, Rate: 300, Planned: 300, Requests: 21000, Failed: 273, Dropped: 70, Users: 212, Latency: api.LoadTimes{P50: 0.023, P95: 0.0687, P99: 0.156, Max: 0.402}},
			},
			api.WatchedLoad{LoadRun: api.LoadRun{ID: "lpayaaaaaaaaaaaaaaaaaaaaaaa", Name: "pay", State: event.LoadQueued, Owner: "user:bob", SubmittedAt: noon.Add(-2 * time.Minute)}},
			api.WatchedLoad{LoadRun: api.LoadRun{ID: "loldaaaaaaaaaaaaaaaaaaaaaaa", Name: "shop", State: event.LoadEnded, Verdict: "incomplete", Why: "n3 was lost: not heard for 15 s", Owner: "user:ann", SubmittedAt: noon.Add(-time.Hour), Hosts: []api.LoadHost{{Host: "n2"}, {Host: "n3", Lost: "not heard for 15 s"}}}}),
		snapshot("onion", api.Onion{
			Tor:       api.OnionTor{Enabled: true, Version: "0.4.8", State: "ready", Bootstrap: 100},
			Addresses: []api.OnionAddress{{Address: address, Publisher: "n1", PublishedAt: new(noon.Add(-12 * time.Minute))}},
			Hosts:     []api.OnionHost{{Node: "n1", Health: cluster.Alive, Weight: 1, Points: 3, Healthy: true, Serving: true}, {Node: "n3", Health: cluster.Suspect, LeftOut: "it does not answer"}},
		}),
		message("synced", map[string]any{"observed_at": noon}),
		message("log", map[string]any{"events": []event.Event{
			eventAt("n1", 1, time.Minute, event.KindTermStart, event.TermStart{Term: 42, Grants: []cluster.NodeID{"n1", "n2"}, Voters: []cluster.NodeID{"n1", "n2", "n3"}, Previous: "n3"}),
			eventAt("n1", 2, 18*time.Second, event.KindMemberHealth, event.MemberHealth{Node: "n3", From: cluster.Alive, To: cluster.Suspect}),
			eventAt("n1", 3, 10*time.Second, event.KindJobStopped, event.JobStopped{Job: render, Actor: "uid:0", Reason: "enough"}),
		}}),
	}
}

func started(o Options, width, height int, mayChange bool) *Model {
	m := New(o)
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	m.Update(Heard{noon, first(mayChange)})
	return m
}

// press presses keys; a text of several letters is typed.
func press(m *Model, keys ...string) (last tea.Cmd) {
	codes := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "backspace": tea.KeyBackspace}
	for _, k := range keys {
		if code, named := codes[k]; named {
			_, last = m.Update(tea.KeyPressMsg{Code: code})
			continue
		}
		for _, r := range k {
			_, last = m.Update(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
	return last
}

// TestScreens: what each view looks like on a terminal of 80x24 and one of 60x12, as
// testdata has it.
func TestScreens(t *testing.T) {
	for _, size := range []screen{{80, 24}, {60, 12}} {
		var got strings.Builder
		for _, tc := range []struct {
			name string
			do   func(m *Model)
		}{
			{"hosts", func(*Model) {}},
			{"mesh", func(m *Model) { press(m, "2") }},
			{"events", func(m *Model) { press(m, "3") }},
			{"jobs", func(m *Model) { press(m, "4") }},
			{"workers", func(m *Model) { press(m, "5") }},
			{"onion", func(m *Model) { press(m, "6") }},
			{"runs", func(m *Model) { press(m, "7") }},
			{"load tests", func(m *Model) { press(m, "8") }},
			{"a load test", func(m *Model) { press(m, "8", "j", "enter") }},
			{"events of a run", func(m *Model) { press(m, "7", "e") }},
			{"a host", func(m *Model) { press(m, "j", "enter") }},
			{"its events", func(m *Model) { press(m, "j", "j", "e") }},
			{"help", func(m *Model) { press(m, "?") }},
			{"filter", func(m *Model) { press(m, "/", "n3") }},
			{"a change", func(m *Model) { press(m, ":", "step-down", "enter") }},
			{"stale", func(m *Model) {
				m.Update(Lost{errors.New("daemon unreachable at /run/skein/skein.sock")})
				m.Update(Tick{noon.Add(4 * time.Second)})
			}},
			{"nothing yet", func(m *Model) {
				*m = *New(Options{})
				m.Update(tea.WindowSizeMsg{Width: size.width, Height: size.height})
			}},
		} {
			m := started(Options{}, size.width, size.height, true)
			tc.do(m)
			fmt.Fprintf(&got, "== %s\n%s\n", tc.name, m.Text())
			fits(t, m)
		}
		m := started(Options{Page: true}, size.width, size.height, true)
		fmt.Fprintf(&got, "== status --watch\n%s\n", m.Text())
		golden(t, fmt.Sprintf("testdata/screens-%dx%d.txt", size.width, size.height), got.String())
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("SKEIN_UPDATE") == "1" {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (SKEIN_UPDATE=1 writes it anew):\n%s", file, got)
	}
}

// fits fails if a screen is larger than its terminal, or holds what one might obey.
func fits(t *testing.T, m *Model) {
	t.Helper()
	text := m.Text()
	lines := strings.Split(text, "\n")
	if len(lines) > max(1, m.screen.height) {
		t.Errorf("%d lines on a screen of %d:\n%s", len(lines), m.screen.height, text)
	}
	for _, line := range lines {
		if m.o.Color {
			line = uncolored.Replace(line)
		}
		if n := utf8.RuneCountInString(line); n > max(0, m.screen.width) {
			t.Errorf("%d columns on a screen of %d: %q", n, m.screen.width, line)
		}
		for _, r := range line {
			if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x202a && r <= 0x202e || m.o.ASCII && r > '~' {
				t.Errorf("%U on the screen: %q", r, line)
			}
		}
	}
}

var uncolored = strings.NewReplacer("\x1b[0m", "", "\x1b[7m", "", "\x1b[31m", "", "\x1b[32m", "", "\x1b[33m", "")

func (m *Model) shows(t *testing.T, yes bool, texts ...string) {
	t.Helper()
	for _, s := range texts {
		if strings.Contains(m.Text(), s) != yes {
			t.Errorf("shows %q: %t, want %t:\n%s", s, !yes, yes, m.Text())
		}
	}
}

// TestFollows: deltas, gauges and events change the picture; a reset changes nothing
// until the snapshots are there.
func TestFollows(t *testing.T) {
	m := started(Options{}, 80, 24, true)
	hear := func(list ...api.WatchMessage) { m.Update(Heard{noon.Add(time.Second), list}) }
	hear(message("delta", map[string]any{"topic": "members", "set": []api.Member{{Node: "n4", State: cluster.Joining}}, "del": []string{"n1"}}))
	m.shows(t, true, "n4", "joining")
	m.shows(t, false, "10.86.11.250")
	hear(api.WatchMessage{Event: "gauges", Data: []byte(`{"topic":"members","keys":["n3","n9","n2"],"cols":{"seen_seconds":[33,1,null],"node":[1,2,3],"made.up":[1]}}`)})
	m.shows(t, true, "33s", "n2*")
	hear(api.WatchMessage{Event: "gauges", Data: []byte(`{"topic":"status","keys":["status"],"cols":{"log.events":[1176],"lease.renewed_seconds":[0.9],"log.size_bytes":[1.5e+16]}}`)})
	m.shows(t, true, "log 1176", "n1 0.9s")
	hear(message("reset", map[string]any{"reason": "lag"}), message("snapshot", map[string]any{"topic": "members", "rows": []api.Member{{Node: "n7"}}, "last": false}))
	m.shows(t, true, "n4")
	hear(snapshot("members", api.Member{Node: "n8"}))
	m.shows(t, true, "n7", "n8")
	m.shows(t, false, "n4")
	again := eventAt("n1", 4, 0, event.KindMemberHealth, event.MemberHealth{Node: "n3", From: cluster.Suspect, To: cluster.Dead})
	hear(message("delta", map[string]any{"topic": "members", "set": []api.Member{{Node: "n3", State: cluster.Dead, Stopped: true}}}),
		message("delta", map[string]any{"topic": "links", "set": []api.Link{{From: "n1", To: "n3", State: cluster.Dead, Stopped: true}, {From: "n1", To: "n4", State: cluster.Dead}}}))
	m.shows(t, true, "stopped")
	press(m, "2")
	m.shows(t, true, "n3  stopped", "n4  dead")
	press(m, "1")
	hear(message("log", map[string]any{"events": []event.Event{again, again}}))
	if n := len(m.said.events); n != 4 {
		t.Errorf("%d events, want 4: one came twice", n)
	}
	m.shows(t, true, "12:39:30  n3 is dead, was suspect")
	if m.line.unread != 0 {
		t.Errorf("%d messages not understood", m.line.unread)
	}
	hear(api.WatchMessage{Event: "delta", Data: []byte(`{"topic":7}`)})
	m.shows(t, true, "1 message not understood")
}

// TestLatest: chunks that go well do not hide what happened before.
func TestLatest(t *testing.T) {
	m := started(Options{}, 80, 24, true)
	work := func(seq uint64, kind event.Kind, body any) api.WatchMessage {
		return message("log", map[string]any{"events": []event.Event{eventAt("n1", seq, 0, kind, body)}})
	}
	m.Update(Heard{noon.Add(time.Second), []api.WatchMessage{
		work(7, event.KindLeaseReleased, event.LeaseReleased{Term: 42, Reason: "the test"}),
		work(8, event.KindChunksAssigned, event.ChunksAssigned{Job: "j", Assignments: []job.Attempt{{Chunk: 3, Worker: "n2"}}}),
		work(9, event.KindChunksAccepted, event.ChunksAccepted{Job: "j"}),
	}})
	m.shows(t, true, "n1 gave up the lease of term 42: the test")
	press(m, "3")
	m.shows(t, true, "n1 gave up the lease of term 42: the test", "c shows all")
	m.shows(t, false, "job j: chunk 3 to n2")
	press(m, "c")
	m.shows(t, true, "n1 gave up the lease of term 42: the test", "job j: chunk 3 to n2")
	press(m, "c", "/", "c", "h", "u", "n", "k", "enter")
	m.shows(t, true, "job j: chunk 3 to n2")
	press(m, "esc")
	m.shows(t, false, "job j: chunk 3 to n2")
	press(m, "1")
	m.Update(Heard{noon.Add(2 * time.Second), []api.WatchMessage{
		work(10, event.KindTermStart, event.TermStart{Term: 43, Voters: []cluster.NodeID{"n1"}, Grants: []cluster.NodeID{"n1"}, Previous: "n3"}),
		work(11, event.KindConfigChanged, event.ConfigChanged{}), work(12, event.KindWorkerUp, event.WorkerUp{}),
	}})
	m.shows(t, true, "term 43: n1 holds the lease, granted by n1 of 1 voter, after n3")
}

// TestTakenOver: a new holder is shown with whom it follows and why, as long as that is news.
func TestTakenOver(t *testing.T) {
	m := started(Options{}, 80, 24, true)
	m.shows(t, false, " after ")
	was := api.TermRecord{Term: 40, Holder: "n3", StartedAt: noon.Add(-time.Hour), Cause: "expired"}
	for _, c := range []struct {
		is   api.TermRecord
		says bool
	}{
		{api.TermRecord{Term: 42, Holder: "n1", StartedAt: noon.Add(-time.Minute)}, true},
		{api.TermRecord{Term: 42, Holder: "n1", StartedAt: noon.Add(-time.Hour)}, false},
		{api.TermRecord{Term: 42, Holder: "n2", StartedAt: noon.Add(-time.Minute)}, false}, // the status is of before
		{api.TermRecord{Term: 43, Holder: "n1", StartedAt: noon.Add(-time.Minute)}, false},
	} {
		m.Update(Heard{noon, []api.WatchMessage{snapshot("terms", c.is, was)}})
		m.shows(t, c.says, "holder n1 0.4s after n3 (expired)")
	}
	m.Update(Heard{noon, []api.WatchMessage{snapshot("terms", api.TermRecord{Term: 42, Holder: "n1", StartedAt: noon})}})
	m.shows(t, false, " after ") // the first that is known
}

// TestSteady: the columns stay where they are when a host becomes suspect and alive again,
// or else a terminal is written anew.
func TestSteady(t *testing.T) {
	for _, key := range []string{"1", "2", "5"} {
		head := func(state cluster.Health) string {
			m := started(Options{}, 80, 24, true)
			press(m, key)
			m.Update(Heard{noon.Add(time.Second), []api.WatchMessage{
				message("delta", map[string]any{"topic": "members", "set": []api.Member{{Node: "n3", State: state}}}),
				message("delta", map[string]any{"topic": "links", "set": []api.Link{{From: "n1", To: "n3", State: state}}}),
				message("delta", map[string]any{"topic": "workers", "set": []api.Worker{{Node: "n1", Live: state}}}),
			}})
			return strings.Split(m.Text(), "\n")[3]
		}
		if a, b := head(cluster.Suspect), head(cluster.Alive); a != b {
			t.Errorf("view %s: the columns move:\n%s\n%s", key, a, b)
		}
	}
}

// TestStale: a picture that is not renewed says how old it is.
func TestStale(t *testing.T) {
	m := started(Options{}, 80, 24, true)
	m.shows(t, true, "12:39:30Z live")
	m.Update(Tick{noon.Add(silent + 5*time.Second)}) // nobody says that it broke
	m.shows(t, true, "stale 17s", "n3 suspect")
	m.Update(Heard{noon.Add(20 * time.Second), first(true)[:1]})
	m.shows(t, true, "live")
	m.Update(Lost{errors.New("gone")})
	m.Update(Tick{noon.Add(24 * time.Second)})
	m.shows(t, true, "stale 4s", "gone", "n1")
}

func TestKeys(t *testing.T) {
	m := started(Options{}, 80, 24, true)
	press(m, "G")
	m.shows(t, true, "> n3")
	press(m, "g")
	m.shows(t, true, "> n1")
	press(m, "j", "s") // sorted by name: the chosen one stays
	m.shows(t, true, "> n2*", "by NODE")
	for range 20 {
		if press(m, "s"); m.lists[viewHosts].sort == -1 {
			break
		}
	}
	if m.lists[viewHosts].sort != -1 {
		t.Error("the order of the view does not come back")
	}
	press(m, "/", "SUSPECT")
	m.shows(t, true, "n3", "/SUSPECT_")
	m.shows(t, false, "10.86.56.49")
	press(m, "enter")
	m.shows(t, true, "/suspect")
	press(m, "/", "zzz", "enter")
	m.shows(t, true, "no row contains that")
	press(m, "esc")
	m.shows(t, true, "10.86.56.49")
	// A pause keeps the table and says what is missed.
	press(m, "3", "p")
	m.Update(Heard{noon, []api.WatchMessage{message("log", map[string]any{"events": []event.Event{eventAt("n1", 4, 0, event.KindMemberLeft, event.MemberLeft{Node: "n9"})}})}})
	m.shows(t, true, "paused, 1 new")
	m.shows(t, false, "n9 left")
	press(m, "p")
	m.shows(t, true, "n9 left", "live")
	press(m, "4", "enter")
	m.shows(t, true, pi, "SUBMITTED")
	press(m, "esc", "j", "e")
	m.shows(t, true, "is to end, by uid:0", "about "+render)
	m.shows(t, false, "n9 left")
	press(m, "esc")
	m.shows(t, true, "n9 left")
	if cmd := press(m, "q"); cmd == nil || cmd() != tea.Quit() {
		t.Error("q does not end")
	}
	if _, cmd := m.Update(tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}); cmd == nil || cmd() != tea.Quit() {
		t.Error("ctrl+c does not end")
	}
}

// TestChanges: a change is made after its name was typed, by who may, once.
func TestChanges(t *testing.T) {
	var asked []Action
	o := Options{Act: func(a Action) (string, error) {
		asked = append(asked, a)
		return "it is done", nil
	}}
	for _, tc := range []struct {
		line, typed, says string
		want              Action
	}{
		{"step-down", "n1", "it is done", Action{StepDown, "n1", "n1"}},
		{"drain n3", "n3", "it is done", Action{Drain, "n3", "n3"}},
		{"undrain n3", "n3", "it is done", Action{Undrain, "n3", "n3"}},
		{"stop pi", "pi", "it is done", Action{Stop, pi, "pi"}},
		{"stop jpi", "jpi", "it is done", Action{Stop, pi, "jpi"}},
		{"stop-load pay", "pay", "it is done", Action{StopLoad, "lpayaaaaaaaaaaaaaaaaaaaaaaa", "pay"}},
		{"stop-load shop", "shop", "it is done", Action{StopLoad, "lshopaaaaaaaaaaaaaaaaaaaaaa", "shop"}},
		{"stop-load lold", "", "no load test", Action{}},
		{"stop-load l", "", "is the beginning of 2 load tests", Action{}},
		{"step-down", "n2", "nothing done", Action{}},
		{"drain n3", "", "nothing done", Action{}},
		{"drain n9", "", "no host", Action{}},
		{"drain", "", "wants one name", Action{}},
		{"step-down n1", "", "takes no name", Action{}},
		{"stop jrender", "", "that is not over", Action{}},
		{"remove n3", "", "no command", Action{}},
		{"", "", "nothing was typed", Action{}},
	} {
		asked = nil
		m := started(o, 80, 24, true)
		cmd := press(m, ":", tc.line, "enter")
		if cmd != nil || len(asked) > 0 {
			t.Fatalf("%s: asked before the name was typed", tc.line)
		}
		if m.ask.what == promptConfirm {
			if cmd = press(m, tc.typed, "enter"); cmd != nil {
				m.Update(cmd())
			}
		}
		m.shows(t, true, tc.says)
		if len(asked) > 1 || len(asked) == 1 && asked[0] != tc.want || len(asked) == 0 && tc.want != (Action{}) {
			t.Errorf("%s: asked %v, want %v", tc.line, asked, tc.want)
		}
	}
	asked = nil
	m := started(o, 80, 24, false)
	press(m, ":", "step-down", "enter")
	m.shows(t, true, "change nothing here")
	if len(asked) > 0 || m.ask.what != promptNone {
		t.Errorf("who may not change anything is asked for the name, or did %v", asked)
	}
	m = started(Options{Act: func(Action) (string, error) { return "", errors.New("refused") }}, 80, 24, true)
	press(m, ":", "drain n3", "enter")
	m.Update(press(m, "n3", "enter")())
	m.shows(t, true, "not done: refused")
	m = started(o, 80, 24, true)
	press(m, ":", "drain n3", "enter", "esc", "enter")
	if len(asked) > 0 {
		t.Errorf("asked %v", asked)
	}
}

// TestHostileNames: what others call themselves is text.
func TestHostileNames(t *testing.T) {
	evil := cluster.NodeID("n\x1b]0;owned\a\x1b[2J\u202e\u009b31m\r\n" + strings.Repeat("x", 300) + "\xff")
	messages := append(first(true),
		snapshot("members", api.Member{Node: evil, State: cluster.Health(evil), Role: cluster.Role(evil)}),
		snapshot("jobs", api.Job{ID: job.ID(evil), Name: string(evil), Owner: string(evil)}),
		snapshot("onion", api.Onion{Problems: []string{string(evil)}, Hosts: []api.OnionHost{{Node: evil, Reason: string(evil)}}, Addresses: []api.OnionAddress{{Address: string(evil)}}}),
		snapshot("status", api.Status{Cluster: string(evil), Reasons: []string{string(evil)}, Lease: api.LeaseSummary{Holder: evil, Publisher: "x"}}),
		message("hello", map[string]any{"node": evil, "may_change": true}),
		message("log", map[string]any{"events": []event.Event{eventAt(evil, 9, 0, "made_up", string(evil))}}))
	for _, o := range []Options{{}, {Color: true}, {ASCII: true}, {Page: true}} {
		for _, size := range []screen{{80, 24}, {60, 12}, {20, 5}, {3, 1}} {
			m := New(o)
			m.Update(tea.WindowSizeMsg{Width: size.width, Height: size.height})
			m.Update(Heard{noon, messages})
			for _, keys := range []string{"1", "2", "3", "4", "5", "6"} {
				press(m, keys)
				fits(t, m)
				press(m, "enter")
				fits(t, m)
				press(m, "esc", "e")
				fits(t, m)
			}
			press(m, ":", "step-down", "enter")
			fits(t, m)
			m.Update(Lost{errors.New(string(evil))})
			fits(t, m)
		}
	}
}

// TestManyRowsOfATopic: the chosen row is on the screen wherever it is, and a topic has a
// bound.
func TestManyRowsOfATopic(t *testing.T) {
	m := started(Options{Color: true}, 60, 12, true)
	var rows []api.Member
	for i := range 500 {
		rows = append(rows, api.Member{Node: cluster.NodeID(fmt.Sprintf("h%03d", i)), State: cluster.Alive})
	}
	m.Update(Heard{noon, []api.WatchMessage{snapshot("members", rows...)}})
	press(m, "G")
	m.shows(t, true, "> h499", "500 of 500")
	fits(t, m)
	press(m, strings.Repeat("k", 100))
	m.shows(t, true, "> h399")
	m.shows(t, false, "h499")
	var w watched
	rest := make(map[string]object, maxRows)
	for i := range maxRows {
		rest[fmt.Sprint(i)] = nil
	}
	if err := put(rest, "members", []object{{"node": "one more"}}); err == nil || len(rest) != maxRows {
		t.Error("a topic has no bound")
	}
	var list []event.Event
	for i := range 3 * maxEvents {
		list = append(list, eventAt("n1", uint64(i+1), 0, "x", nil))
	}
	for len(list) > 0 {
		if err := w.apply(message("log", map[string]any{"events": list[:250]}), noon); err != nil {
			t.Fatal(err)
		}
		list = list[250:]
	}
	if n := len(w.events); n != maxEvents || w.events[n-1].Seq != 3*maxEvents {
		t.Errorf("%d events are kept, want the last %d", n, maxEvents)
	}
	list = nil
	for i := range 3 * maxEvents {
		list = append(list, eventAt("n1", uint64(10*maxEvents+i), 0, event.KindChunksAccepted, nil))
	}
	if err := w.apply(message("log", map[string]any{"events": list}), noon); err != nil {
		t.Fatal(err)
	}
	if n := len(w.events); n != maxEvents || w.events[0].Seq != 2*maxEvents+1 || w.events[n-1].Kind != "x" {
		t.Errorf("chunks put others out: %d events are kept, the last a %s", n, w.events[n-1].Kind)
	}
}

// FuzzHeard gives the model messages of any content between right ones.
func FuzzHeard(f *testing.F) {
	for _, m := range first(true) {
		f.Add(m.Event, []byte(m.Data), "123456j")
	}
	f.Add("gauges", []byte(`{"topic":"status","keys":["status"],"cols":{"log.events":[-1e300],"lease":[1],"":[2],".":[3]}}`), "1")
	f.Add("delta", []byte(`{"topic":"members","set":[null,{"node":"n1","state":7}],"del":["n2"]}`), "j\r1")
	f.Fuzz(func(t *testing.T, name string, data []byte, keys string) {
		m := started(Options{Act: func(Action) (string, error) { return "", nil }}, 80, 24, true)
		m.Update(Heard{noon, []api.WatchMessage{{Event: name, Data: data}}})
		fits(t, m)
		for i, r := range keys[:min(len(keys), 40)] {
			if r == '\r' {
				r = tea.KeyEnter
			}
			msg := tea.KeyPressMsg{Code: r}
			if r >= ' ' && r != tea.KeyBackspace && r <= 0x10ffff {
				msg.Text = string(r)
			}
			m.Update(msg)
			if i%8 == 0 {
				fits(t, m)
			}
		}
		m.Update(tea.WindowSizeMsg{Width: 60, Height: 12})
		fits(t, m)
		m.Update(Heard{noon, first(true)})
		fits(t, m)
	})
}
