package delta

import (
	"encoding/json"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// Names of the events of a stream.
const (
	Hello    = "hello"
	Snapshot = "snapshot"
	Synced   = "synced"
	Delta    = "delta"
	Gauges   = "gauges"
	Log      = "log"
	Reset    = "reset"
	Bye      = "bye"
)

// Form is how events are written.
type Form uint8

// Forms.
const (
	Lines      Form = iota // {"event":...,"data":...} in a line
	ServerSent             // text/event-stream (HTML, section 9.2)
	forms
)

// Write encodes an event whose data has no line break.
func (f Form) Write(event string, data []byte) []byte {
	before, between, after := `{"event":"`, `","data":`, "}\n"
	if f == ServerSent {
		before, between, after = "event: ", "\ndata: ", "\n\n"
	}
	b := make([]byte, 0, len(before)+len(event)+len(between)+len(data)+len(after))
	b = append(append(append(b, before...), event...), between...)
	return append(append(b, data...), after...)
}

// AppendID appends what Write has made, with the position behind it.
func (f Form) AppendID(b []byte, id string, text []byte) []byte {
	if f == ServerSent {
		return append(append(append(append(b, "id: "...), id...), '\n'), text...)
	}
	return append(append(append(append(b, `{"id":"`...), id...), `",`...), text[1:]...)
}

// Frame is one event of a stream, encoded. It does not change, but for what Text
// keeps.
type Frame struct {
	Topic string
	Event string
	Data  []byte // JSON without a line break
	items []item // of a difference
	texts [forms][]byte
	// Events are those of a Log frame, At is where a reader is behind them. Follows
	// says that one who has all up to the Log frame before lacks just these.
	Events  []event.Event
	At      event.Cursor
	Follows bool
}

// Text is the frame in a form, made once for all its readers. It belongs to whoever
// guards the Differ.
func (f *Frame) Text(form Form) []byte {
	if f.texts[form] == nil {
		f.texts[form] = form.Write(f.Event, f.Data)
	}
	return f.texts[form]
}

// size is what a frame costs: in most cases it is wanted in one form.
func (f *Frame) size() int64 {
	const overhead = 256
	n := 2*int64(len(f.Data)) + overhead
	for _, it := range f.items {
		n += int64(len(it.text)+len(it.key)+len(it.owner)) + overhead/2
	}
	for _, e := range f.Events {
		n += int64(len(e.Body)) + overhead
	}
	return n
}

// Visible returns the part of a difference that may be seen: f itself if that is
// all, nil if it is nothing.
func (f *Frame) Visible(may func(owner string) bool) *Frame {
	if may == nil || f.Event != Delta {
		return f
	}
	var shown []item
	for _, it := range f.items {
		if may(it.owner) {
			shown = append(shown, it)
		}
	}
	switch len(shown) {
	case len(f.items):
		return f
	case 0:
		return nil
	}
	return &Frame{Topic: f.Topic, Event: Delta, Data: deltaData(f.Topic, shown), items: shown}
}

// Bounds of one log frame.
const (
	LogEvents = 256
	LogBytes  = 64 << 10
)

// Record is an event as a stream tells it.
type Record struct {
	Source event.SourceID  `json:"source"`
	Seq    uint64          `json:"seq"`
	HLC    cluster.HLC     `json:"hlc"`
	Term   cluster.Term    `json:"term"`
	Kind   event.Kind      `json:"kind"`
	Body   json.RawMessage `json:"body"`
	Prev   cluster.Hash    `json:"prev"`
	Hash   cluster.Hash    `json:"hash"`
}

// logData is the data of a Log frame.
type logData struct {
	Events []Record `json:"events"`
	Cursor string   `json:"cursor"`
}

// NewLog makes a frame of events, behind which a reader is at cursor.
func NewLog(topic string, events []event.Event, cursor event.Cursor) (*Frame, error) {
	d := logData{Events: make([]Record, 0, len(events)), Cursor: cursor.String()}
	for _, e := range events {
		body := e.Body
		if len(body) == 0 {
			body = json.RawMessage(`{}`)
		}
		d.Events = append(d.Events, Record{
			Source: e.Source, Seq: e.Seq, HLC: e.HLC, Term: e.Term, Kind: e.Kind, Body: body, Prev: e.Prev, Hash: e.Hash,
		})
	}
	data, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	return &Frame{Topic: topic, Event: Log, Data: data, Events: events, At: cursor.Clone()}, nil
}
