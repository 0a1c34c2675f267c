package tui

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// Topics are those that the picture is made of.
var Topics = []string{"status", "terms", "members", "links", "workers", "jobs", "workflows", "load", "onion", "events"}

// Tail is with how many past events the picture begins: as many as it keeps, for while a job
// runs most are of chunks.
const Tail = maxEvents

// Bounds of what is kept of a watch.
const (
	maxRows   = 1 << 16 // of one topic
	maxEvents = 1000

	// news is how long a change of the holder is.
	news = 10 * time.Minute
)

// object is a row as it came.
type object map[string]any

// watched is what a watch has said so far.
type watched struct {
	hello struct {
		Node      string `json:"node"`
		Cluster   string `json:"cluster"`
		MayChange bool   `json:"may_change"`
		// Topics are those that the daemon tells of; none: it does not say.
		Topics []string `json:"topics"`
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
		w.parts, w.hello.Topics = nil, nil
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

// about decodes what is said of a topic, unless nothing is made of that: then its form
// is not looked at.
func about(data []byte, into any) (known bool, err error) {
	var d struct{ Topic string }
	if err := json.Unmarshal(data, &d); err != nil {
		return false, err
	}
	if !slices.Contains(Topics, d.Topic) {
		return false, nil
	}
	err = decode(data, into)
	return err == nil, err
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
	case "jobs", "workflows", "load":
		return text("id")
	case "terms":
		n, _ := row["term"].(json.Number)
		return n.String()
	case "links":
		return text("from") + ">" + text("to")
	}
	return topic // of which there is one
}

// put takes rows in. It says what of them cannot be shown; the others are taken all the
// same.
func put(rows map[string]object, topic string, list []object) error {
	var err error
	for _, row := range list {
		key := keyOf(topic, row)
		_, known := rows[key]
		switch {
		case key == "" || key == ">":
			err = fmt.Errorf("a row of %.32q without a key", topic)
			continue
		case !known && len(rows) >= maxRows:
			return fmt.Errorf("more than %d rows of %.32q", maxRows, topic)
		}
		rows[key] = row
		if read, told := readable[topic]; told {
			if e := read(row); e != nil {
				err = fmt.Errorf("%.64q of %.32q: %w", key, topic, e)
			}
		}
	}
	return err
}

// readable reads a row of each topic as the picture does.
var readable = map[string]func(object) error{
	"status": reads[api.Status], "terms": reads[api.TermRecord], "members": reads[api.Member], "links": reads[api.Link], "workers": reads[api.Worker], "jobs": reads[api.Job], "workflows": reads[api.Workflow], "load": reads[api.WatchedLoad], "onion": reads[api.Onion],
}

func reads[T any](row object) error {
	_, _, err := read[T](row)
	return err
}

// read makes of a row what is shown. A field of another type than here, as another
// version may have it, is left out and named in the error, and the rest can be shown.
func read[T any](row object) (v T, shown bool, err error) {
	text, err := json.Marshal(row)
	if err != nil {
		return v, false, err
	}
	err = json.Unmarshal(text, &v)
	_, other := errors.AsType[*json.UnmarshalTypeError](err)
	return v, err == nil || other, err
}

func (w *watched) snapshot(data []byte) error {
	var d struct {
		Topic string
		Rows  []object
		Last  bool
	}
	if known, err := about(data, &d); !known {
		return err
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
	if known, err := about(data, &d); !known {
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
	if known, err := about(data, &d); !known {
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
		Events []json.RawMessage `json:"events"`
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return err
	}
	var unread error
	for _, text := range d.Events {
		var e event.Event
		if err := json.Unmarshal(text, &e); err != nil {
			unread = err
			continue
		}
		if !slices.ContainsFunc(w.events, func(o event.Event) bool { return o.Source == e.Source && o.Seq == e.Seq }) {
			w.events = append(w.events, e)
		}
	}
	w.forget()
	return unread
}

// forget bounds what is kept. Chunks that go well go first: a job writes many of them a
// second, and the others would last a minute.
func (w *watched) forget() {
	over := len(w.events) - maxEvents
	w.events = slices.DeleteFunc(w.events, func(e event.Event) bool {
		if over > 0 && routine(e.Kind) {
			over--
			return true
		}
		return false
	})
	if over > 0 {
		w.events = slices.Delete(w.events, 0, over)
	}
}

// routine says that an event is of a chunk that goes well.
func routine(kind event.Kind) bool {
	switch kind {
	case event.KindChunksStarted, event.KindChunksAssigned, event.KindChunkAccepted, event.KindChunksAccepted:
		return true
	}
	return false
}

// before is who held the lease before it came to its holder, and why that ended, as far as
// this is news.
func (w *watched) before(s api.Status, now time.Time) (node cluster.NodeID, cause string) {
	var is, was api.TermRecord
	for _, t := range rowsOf[api.TermRecord](w, "terms") {
		switch {
		case t.Term == s.Lease.Term:
			is = t
		case t.Term < s.Lease.Term && t.Term > was.Term:
			was = t
		}
	}
	if is.Holder != s.Lease.Holder || was.Holder == "" || was.Holder == is.Holder || now.Sub(is.StartedAt) > news {
		return "", ""
	}
	return was.Holder, was.Cause
}

// tells says whether the daemon tells of a topic.
func (w *watched) tells(topic string) bool {
	return len(w.hello.Topics) == 0 || slices.Contains(w.hello.Topics, topic)
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
		if v, shown, _ := read[T](rows[key]); shown { // what is missing was counted when it came
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

// latest is the last event that is news: chunks that go well, and what each new holder
// writes of the workers and voters that it finds, would hide why it is the holder. Only
// where nothing else is known it is one of them.
func (w *watched) latest() (e event.Event, ok bool) {
	for _, e := range slices.Backward(w.events) {
		if !routine(e.Kind) && e.Kind != event.KindWorkerUp && e.Kind != event.KindConfigChanged {
			return e, true
		}
	}
	if n := len(w.events); n > 0 {
		return w.events[n-1], true
	}
	return e, false
}
