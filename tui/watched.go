package tui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
)

// Topics are those that the picture is made of.
var Topics = []string{"status", "members", "links", "workers", "jobs", "onion", "events"}

// Tail is with how many past events the picture begins.
const Tail = 200

// Bounds of what is kept of a watch.
const (
	maxRows   = 1 << 16 // of one topic
	maxEvents = 1000
)

// object is a row as it came.
type object map[string]any

// watched is what a watch has said so far.
type watched struct {
	hello struct {
		Node      string `json:"node"`
		Cluster   string `json:"cluster"`
		MayChange bool   `json:"may_change"`
	}
	rows   map[string]map[string]object // by topic and key
	parts  map[string]map[string]object // of snapshots that are not whole yet
	events []event.Event                // as they came, each once
	ahead  time.Duration                // of the host's clock before this one's
}

// apply takes in one message that came at now. What it cannot read leaves the picture
// as it is.
func (w *watched) apply(m api.WatchMessage, now time.Time) error {
	var err error
	switch m.Event {
	case "hello":
		w.parts = nil
		err = json.Unmarshal(m.Data, &w.hello)
	case "snapshot":
		err = w.snapshot(m.Data)
	case "synced":
		var d struct {
			ObservedAt time.Time `json:"observed_at"`
		}
		if err = json.Unmarshal(m.Data, &d); err == nil && !d.ObservedAt.IsZero() {
			w.ahead = d.ObservedAt.Sub(now)
		}
	case "delta":
		err = w.delta(m.Data)
	case "gauges":
		err = w.gauges(m.Data)
	case "log":
		err = w.log(m.Data)
	}
	if err != nil {
		return fmt.Errorf("%.16q of the watch: %w", m.Event, err)
	}
	return nil
}

// decode keeps numbers as they are written.
func decode(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(into)
}

// keyOf is how deltas and gauges name a row.
func keyOf(topic string, row object) string {
	text := func(field string) string {
		s, _ := row[field].(string)
		return s
	}
	switch topic {
	case "members", "workers":
		return text("node")
	case "jobs":
		return text("id")
	case "links":
		return text("from") + ">" + text("to")
	}
	return topic // of which there is one
}

func put(rows map[string]object, topic string, list []object) error {
	for _, row := range list {
		key := keyOf(topic, row)
		if key == "" || key == ">" {
			return fmt.Errorf("a row of %.32q without a key", topic)
		}
		if _, known := rows[key]; !known && len(rows) >= maxRows {
			return fmt.Errorf("more than %d rows of %.32q", maxRows, topic)
		}
		rows[key] = row
	}
	return nil
}

func (w *watched) snapshot(data []byte) error {
	var d struct {
		Topic string
		Rows  []object
		Last  bool
	}
	if err := decode(data, &d); err != nil {
		return err
	}
	if !slices.Contains(Topics, d.Topic) {
		return nil
	}
	if w.parts[d.Topic] == nil {
		if w.parts == nil {
			w.parts = make(map[string]map[string]object)
		}
		w.parts[d.Topic] = make(map[string]object)
	}
	err := put(w.parts[d.Topic], d.Topic, d.Rows)
	if d.Last {
		if w.rows == nil {
			w.rows = make(map[string]map[string]object)
		}
		w.rows[d.Topic] = w.parts[d.Topic]
		delete(w.parts, d.Topic)
	}
	return err
}

func (w *watched) delta(data []byte) error {
	var d struct {
		Topic string
		Set   []object
		Del   []string
	}
	if err := decode(data, &d); err != nil {
		return err
	}
	rows := w.rows[d.Topic]
	if rows == nil {
		return nil // not asked for, or its snapshot is to come
	}
	for _, key := range d.Del {
		delete(rows, key)
	}
	return put(rows, d.Topic, d.Set)
}

func (w *watched) gauges(data []byte) error {
	var d struct {
		Topic string
		Keys  []string
		Cols  map[string][]*json.Number
	}
	if err := decode(data, &d); err != nil {
		return err
	}
	for name, values := range d.Cols {
		path := strings.Split(name, ".")
		for i, key := range d.Keys[:min(len(d.Keys), len(values))] {
			set(w.rows[d.Topic][key], path, values[i])
		}
	}
	return nil
}

// set puts a number where a row has one already, or nothing. Gauges stand in the row
// as it came: what is not there is not a gauge of it.
func set(at map[string]any, path []string, value *json.Number) {
	for _, name := range path[:len(path)-1] {
		at, _ = at[name].(map[string]any)
	}
	name := path[len(path)-1]
	switch at[name].(type) {
	case nil, json.Number:
	default:
		return
	}
	if _, there := at[name]; !there {
		return
	}
	if value == nil {
		at[name] = nil
		return
	}
	text := *value
	if f, err := text.Float64(); err == nil && strings.ContainsAny(string(text), "eE") {
		// Written so that a whole number stays one.
		text = json.Number(strconv.FormatFloat(f, 'f', -1, 64))
	}
	at[name] = text
}

func (w *watched) log(data []byte) error {
	var d struct {
		Events []event.Event `json:"events"`
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return err
	}
	for _, e := range d.Events {
		if !slices.ContainsFunc(w.events, func(o event.Event) bool { return o.Source == e.Source && o.Seq == e.Seq }) {
			w.events = append(w.events, e)
		}
	}
	if over := len(w.events) - maxEvents; over > 0 {
		w.events = slices.Delete(w.events, 0, over)
	}
	return nil
}

// rowsOf are the rows of a topic that can be read, by their keys.
func rowsOf[T any](w *watched, topic string) []T {
	rows := w.rows[topic]
	keys := make([]string, 0, len(rows))
	for key := range rows {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	list := make([]T, 0, len(rows))
	for _, key := range keys {
		text, err := json.Marshal(rows[key])
		if err != nil {
			continue
		}
		var v T
		if err := json.Unmarshal(text, &v); err == nil {
			list = append(list, v)
		}
	}
	return list
}

// one is the only row of a topic; ok is false while it is not known.
func one[T any](w *watched, topic string) (v T, ok bool) {
	if list := rowsOf[T](w, topic); len(list) > 0 {
		return list[0], true
	}
	return v, false
}

// latest is the last event but for those of chunks that go well: each running job writes
// many of them a second, and they would hide why the holder is another. Only where nothing
// else is known it is one of them.
func (w *watched) latest() (e event.Event, ok bool) {
	for _, e := range slices.Backward(w.events) {
		switch e.Kind {
		case event.KindChunksStarted, event.KindChunksAssigned, event.KindChunkAccepted, event.KindChunksAccepted:
		default:
			return e, true
		}
	}
	if n := len(w.events); n > 0 {
		return w.events[n-1], true
	}
	return e, false
}
