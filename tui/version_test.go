package tui

import (
	"encoding/json"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

func said(name, data string) api.WatchMessage {
	return api.WatchMessage{Event: name, Data: json.RawMessage(data)}
}

// TestNewerDaemon: messages, topics, fields and kinds that are unknown here change
// nothing, and are no fault.
func TestNewerDaemon(t *testing.T) {
	m := New(Options{})
	m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	plain := started(Options{}, 80, 24, false)
	m.Update(Heard{noon, append([]api.WatchMessage{
		said("hello", `{"api_version":"9","node":"n2","cluster":"blue","may_change":false,"topics":["status","members","links","rings","workers","jobs","onion","events"],"colour":{"of":"night"}}`),
		said("weather", `[1,2]`),
		said("snapshot", `{"topic":"rings","rows":[{"ring":7},4],"last":true}`),
	}, first(false)[1:]...)})
	if m.Text() != plain.Text() {
		t.Errorf("%s\nwant\n%s", m.Text(), plain.Text())
	}
	m.Update(Heard{noon, []api.WatchMessage{
		said("delta", `{"topic":"rings","set":[{"ring":8}],"del":["7"]}`),
		said("gauges", `{"topic":"rings","keys":["7"],"cols":{"turns":[1]}}`),
		said("gauges", `{"topic":"members","keys":["n1"],"cols":{"turns":[1],"rtt_seconds":[0.0022]}}`),
		said("delta", `{"topic":"members","set":[{"node":"n1","state":"hovering","role":"steward","term":43,"seen_seconds":0.1,"orbit":{"of":["moon"]}}],"why":"x"}`),
		message("log", map[string]any{"cursor": "n1/1:4", "weather": 1, "events": []event.Event{eventAt("n1", 4, 0, "moon_risen", map[string]int{"moons": 2})}}),
	}})
	m.shows(t, true, "> n1    -             hovering  steward", "43", `moon_risen: {"moons":2}`)
	m.shows(t, false, "not understood")
	press(m, "3")
	m.shows(t, true, `moon_risen: {"moons":2}`)
	fits(t, m)
}

// TestOtherForms: what comes in another form than here leaves a gap, which is named; the
// rest is shown.
func TestOtherForms(t *testing.T) {
	m := started(Options{}, 80, 24, false)
	m.Update(Heard{noon, []api.WatchMessage{
		said("delta", `{"topic":"members","set":[{"node":"n1","state":"alive","role":"standby","term":"forty","path":"relay"},{"colour":"red"},{"node":"n4","state":"alive","role":"standby","term":44}]}`),
	}})
	// The row without a name is left out, the one with another form of term has none.
	m.shows(t, true, "> n1    -             alive    standby  -", "relay", "n4    -             alive    standby  44", "1 message not understood: is the daemon of another version?")
	m.Update(Heard{noon, []api.WatchMessage{
		said("snapshot", `{"topic":"jobs","rows":[{"id":"`+pi+`","name":"pi","state":"running","chunks":"many"}],"last":true}`),
		said("log", `{"events":[{"source":{"node":"n1","inc":1},"seq":"nine","kind":"job_done"},`+string(message("", eventAt("n1", 9, 0, event.KindMemberHealth, event.MemberHealth{Node: "n3", From: cluster.Suspect, To: cluster.Alive})).Data)+`]}`),
		said("delta", `7`),
	}})
	m.shows(t, true, "4 messages not understood")
	press(m, "3")
	m.shows(t, true, "n3 is alive, was suspect")
	press(m, "4")
	m.shows(t, true, string(job.Running))
	fits(t, m)
}

// TestOlderDaemon: a view of which the daemon does not tell says so, and what rows do not
// say is unknown.
func TestOlderDaemon(t *testing.T) {
	m := New(Options{})
	m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	m.Update(Heard{noon, []api.WatchMessage{
		said("hello", `{"node":"n2","cluster":"blue","topics":["status","members"]}`),
		said("snapshot", `{"topic":"status","rows":[{"cluster":"blue","state":"ok"}],"last":true}`),
		said("snapshot", `{"topic":"members","rows":[{"node":"n1","state":"alive"}],"last":true}`),
		said("synced", `{}`),
	}})
	m.shows(t, true, "blue", "holder -", "> n1    -     alive    -        -     -     -    -")
	m.shows(t, false, "not understood")
	for keys, topic := range map[string]string{"2": "links", "3": "events", "4": "jobs", "5": "workers", "6": "onion"} {
		press(m, keys)
		m.shows(t, true, "the daemon does not tell of "+topic+": is it of another version?")
		fits(t, m)
	}
	m.Update(Heard{noon, first(false)}) // another daemon, of this version
	press(m, "2")
	m.shows(t, true, "n1    n2  alive")
	m.shows(t, false, "another version")
}
