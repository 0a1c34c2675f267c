package realtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/realtime/delta"
)

// Times of a Watch.
const (
	firstLook = 2 * time.Second        // for which a reader waits for the topics
	searching = 100 * time.Millisecond // for which a Watch reads the log at a stretch
	idMin     = time.Second            // between two positions
	idMany    = 5 * time.Second        // the same with more than many sources
	keepalive = 5 * time.Second        // after which Next returns nothing
	mostOnce  = 256                    // frames that Next returns
)

// Request is what somebody wants to watch.
type Request struct {
	// Topics are some of ParseTopics and JobTopic.
	Topics []string
	// Position is where the reader was; nil: nowhere.
	Position *delta.Position
	// After, Since, About and Match select events. After is where to begin, unless
	// Position says it; nil, with no Since either: with what comes. Match, which may be
	// nil, lets nothing through that is not about About.
	After api.Cursor
	Since time.Time
	About event.Subject
	Match func(*event.Event) bool
	// Tail begins with the last so many events instead, unless Position says where; 0: it
	// does not.
	Tail int
	// May says whether a row of a topic may be seen, by its owner; nil: all may.
	May func(topic, owner string) bool
	// Selected tells apart what Match and May let through: a position is good for
	// the same text only.
	Selected string
	// MayChange is told in the hello.
	MayChange bool
	Cluster   string
	// Form is how Message.Text is written.
	Form delta.Form
}

// Has reports whether a topic is among those of r.
func (r *Request) Has(topic string) bool { return slices.Contains(r.Topics, topic) }

// Message is one event of the stream.
type Message struct {
	Event string
	ID    string // the position behind it; empty: not told
	Data  []byte // JSON in one line
	// Text is all but the ID in the form that was asked for. Others may have it and
	// Data too.
	Text []byte
}

// Watch is the stream of one reader.
type Watch struct {
	h      *Hub
	r      Request
	boot   string // of its positions
	looked []<-chan struct{}
	// refused says why nothing is watched.
	refused error
	events  bool

	stage   stage
	resumed bool
	why     delta.Reason // why it is told everything
	offset  uint64       // in the ring: all before was told, or is not wanted
	gauges  map[string]uint64
	idAt    time.Time
	tail    tail
}

// tail is where a Watch is in the log.
type tail struct {
	at       api.Cursor // all up to it was told, or is not wanted; while shared also a frame's
	behind   bool       // events between at and the ring are to be read
	last     int        // so many before the end are to be read first
	again    bool       // some came into the ring meanwhile
	shared   bool       // at is where the ring is
	next     func() (event.Event, error, bool)
	stop     func()
	loggedAt time.Time
}

// stage is how far a Watch is in the beginning.
type stage uint8

const (
	starting stage = iota
	looking        // at the topics for the first time
	telling        // snapshots
	told           // them
	following
)

// Watch begins a stream; the caller closes it.
func (h *Hub) Watch(r Request) *Watch {
	w := &Watch{h: h, r: r, gauges: map[string]uint64{}, tail: tail{loggedAt: time.Now()}, events: r.Has(TopicEvents)}
	sum := fnv.New32a()
	fmt.Fprintf(sum, "%s\n%s", strings.Join(r.Topics, ","), r.Selected)
	w.boot = fmt.Sprintf("%s-%08x", h.o.Boot, sum.Sum32())
	if w.events {
		w.begin()
	}
	w.looked, w.refused = h.enter(r.Topics)
	return w
}

// begin finds where in the log the stream begins.
func (w *Watch) begin() {
	p := w.r.Position
	switch {
	case p != nil && p.Cursor != nil:
		w.tail.at, w.tail.behind = p.Cursor.Clone(), true
	case w.r.Tail > 0:
		w.tail.at, w.tail.behind, w.tail.last = api.Cursor{}, true, w.r.Tail
	case w.r.After != nil || !w.r.Since.IsZero():
		w.tail.at, w.tail.behind = w.r.After.Clone(), true
	default:
		w.tail.at = w.h.o.Log.Cursor().Clone()
	}
	if len(w.tail.at) == 0 {
		w.tail.at = w.h.o.Log.Oldest().Clone()
	}
}

// Close ends the stream.
func (w *Watch) Close() {
	w.rest()
	if w.refused == nil {
		w.h.leave(w.r.Topics)
	}
}

// rest ends reading the log.
func (w *Watch) rest() {
	if w.tail.stop != nil {
		w.tail.stop()
	}
	w.tail.next, w.tail.stop = nil, nil
}

// Next returns what comes next, which may be nothing after some seconds of
// silence. An error ends the stream. The log is read with the context of whichever
// call began that: all calls have the same one.
func (w *Watch) Next(ctx context.Context) ([]Message, error) {
	if w.refused != nil {
		return nil, w.refused
	}
	switch w.stage {
	case starting:
		return w.start(), nil
	case looking:
		if err := w.look(ctx); err != nil {
			return nil, err
		}
	}
	silence := time.NewTimer(keepalive)
	defer silence.Stop()
	for {
		if err := w.allowed(ctx); err != nil {
			return nil, err
		}
		out, changed, err := w.take()
		if w.stage == told {
			out = append(out, w.synced())
		} else if err == nil && w.tail.behind && w.stage == following {
			out, err = w.search(ctx, out)
		}
		if err != nil || len(out) > 0 {
			w.identify(out)
			return out, err
		}
		if w.tail.behind {
			continue
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-w.h.stopped:
		case <-changed:
		case <-silence.C:
			return nil, nil
		}
	}
}

// allowed reports whether the stream may go on, however much there is to tell.
func (w *Watch) allowed(ctx context.Context) error {
	select {
	case <-w.h.stopped:
		return ErrStopped
	default:
		return ctx.Err()
	}
}

// start says hello.
func (w *Watch) start() []Message {
	w.stage = looking
	d := w.h
	if p := w.r.Position; p != nil {
		d.mu.Lock()
		w.offset, w.why = d.differ.Resume(w.boot, *p)
		d.mu.Unlock()
		w.resumed = w.why == ""
	}
	head := d.o.Header()
	return []Message{w.own(delta.Hello, struct {
		APIVersion string         `json:"api_version"`
		Node       cluster.NodeID `json:"node"`
		Cluster    string         `json:"cluster"`
		Boot       string         `json:"boot"`
		Resumed    bool           `json:"resumed"`
		MayChange  bool           `json:"may_change"`
		Topics     []string       `json:"topics"`
	}{head.APIVersion, head.Node, w.r.Cluster, d.o.Boot, w.resumed, w.r.MayChange, w.r.Topics})}
}

// look waits for the topics to be read.
func (w *Watch) look(ctx context.Context) error {
	timer := time.NewTimer(firstLook)
	defer timer.Stop()
	for _, looked := range w.looked {
		select {
		case <-looked:
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			w.stage = telling
			return nil
		}
	}
	w.stage = telling
	return nil
}

// message is a frame as the reader gets it.
func (w *Watch) message(f *delta.Frame) Message {
	return Message{Event: f.Event, Data: f.Data, Text: f.Text(w.r.Form)}
}

// own is a message to this reader alone.
func (w *Watch) own(name string, v any) Message {
	data, err := json.Marshal(v)
	if err != nil { // strings and numbers always encode
		panic("realtime: encode " + name + ": " + err.Error())
	}
	return w.message(&delta.Frame{Event: name, Data: data})
}

// may returns what decides on the rows of a topic.
func (w *Watch) may(topic string) func(owner string) bool {
	if w.r.May == nil {
		return nil
	}
	return func(owner string) bool { return owner == "" || w.r.May(topic, owner) }
}

// take returns what the hub has. Changed is closed when it has more.
func (w *Watch) take() (out []Message, changed <-chan struct{}, err error) {
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	changed = w.h.changed
	d := w.h.differ
	list, ok := d.After(w.offset, mostOnce)
	if w.stage == following && !ok {
		w.stage, w.why, w.resumed = telling, delta.Lag, false
	}
	if w.stage == telling {
		out, err = w.tell()
		return out, changed, err
	}
	for _, f := range list {
		w.offset++
		if out, err = w.frame(out, f); err != nil {
			return nil, changed, err
		}
	}
	if len(list) < mostOnce {
		out = w.gaugesOf(out)
	}
	return out, changed, nil
}

// tell returns snapshots, or of a reader that was here those of what is not kept
// for it.
func (w *Watch) tell() (out []Message, err error) {
	d := w.h.differ
	if w.why != "" {
		out = append(out, w.own(delta.Reset, struct {
			Reason delta.Reason `json:"reason"`
		}{w.why}))
	}
	for _, topic := range w.r.Topics {
		if topic == TopicEvents || w.resumed && !single(topic) {
			continue
		}
		parts, err := d.Snapshot(topic, w.may(topic))
		if err != nil {
			return nil, err
		}
		for _, f := range parts {
			out = append(out, w.message(f))
		}
		w.gauges[topic] = d.Tellings(topic)
	}
	if !w.resumed {
		w.offset = d.Head()
		w.tail.behind = w.events // what the ring has of the log may not join on
		w.tail.shared = false
	}
	w.stage, w.why = told, ""
	return out, nil
}

// synced says that all before is one view.
func (w *Watch) synced() Message {
	head := w.h.o.Header()
	m := w.own(delta.Synced, struct {
		Position   uint64    `json:"position"`
		ObservedAt time.Time `json:"observed_at"`
	}{head.Position, head.ObservedAt})
	m.ID, w.idAt, w.stage = w.position(), time.Now(), following
	return m
}

// frame appends what a reader gets of a frame.
func (w *Watch) frame(out []Message, f *delta.Frame) ([]Message, error) {
	if !w.r.Has(f.Topic) {
		return out, nil
	}
	if f.Event != delta.Log {
		if f = f.Visible(w.may(f.Topic)); f != nil {
			out = append(out, w.message(f))
		}
		return out, nil
	}
	before := w.tail.at
	switch {
	case w.tail.behind || len(f.Events) == 0:
		w.tail.behind, w.tail.again, w.tail.shared = true, true, false
		return out, nil
	case w.tail.shared && f.Follows:
		w.tail.at = f.At
		if w.r.Match != nil {
			return w.log(out, slices.Clone(f.Events))
		}
		return append(out, w.message(f)), nil
	}
	at := before.Clone()
	fresh := advance(at, f.Events)
	if fresh < 0 { // what is between is in the log
		w.tail.behind, w.tail.again, w.tail.shared = true, true, false
		return out, nil
	}
	w.tail.at, w.tail.shared = at, maps.Equal(f.At, at)
	if fresh == len(f.Events) && w.tail.shared && w.r.Match == nil {
		return append(out, w.message(f)), nil
	}
	return w.log(out, slices.DeleteFunc(slices.Clone(f.Events), func(e event.Event) bool { return e.Seq <= before[e.Source] }))
}

// log appends the events that the reader wants.
func (w *Watch) log(out []Message, events []event.Event) ([]Message, error) {
	if w.r.Match != nil {
		events = slices.DeleteFunc(events, func(e event.Event) bool { return !w.r.Match(&e) })
	}
	if len(events) == 0 {
		return out, nil
	}
	return w.logged(out, events)
}

func (w *Watch) logged(out []Message, events []event.Event) ([]Message, error) {
	f, err := delta.NewLog(TopicEvents, events, w.tail.at)
	if err != nil {
		return nil, err
	}
	w.tail.loggedAt = time.Now()
	return append(out, w.message(f)), nil
}

// search reads the log, for a short while, up to where the ring is.
func (w *Watch) search(ctx context.Context, out []Message) ([]Message, error) {
	if w.tail.last > 0 {
		return w.lastOnes(ctx, out)
	}
	if w.tail.next == nil {
		w.tail.again, w.tail.shared, w.tail.at = false, false, w.tail.at.Clone()
		w.tail.next, w.tail.stop = iter.Pull2(w.h.o.Log.Events(ctx, w.tail.at, w.r.Since, w.r.About))
	}
	var b batch
	began := time.Now()
	for time.Since(began) < searching {
		e, err, ok := w.tail.next()
		if p, is := errors.AsType[*api.Problem](err); is && p.Code == api.CodeCompacted {
			w.rest()
			for s, seq := range w.h.o.Log.Oldest() {
				w.tail.at.Advance(s, seq)
			}
			w.stage, w.why, w.resumed = telling, delta.Compacted, false
			break
		}
		if err != nil {
			return nil, err
		}
		if !ok {
			w.rest()
			w.tail.behind = w.tail.again
			break
		}
		if (w.r.Match == nil || w.r.Match(&e)) && b.add(e) {
			break
		}
	}
	if len(b.events) == 0 && (!w.tail.behind || time.Since(w.tail.loggedAt) < keepalive) {
		return out, nil
	}
	return w.logged(out, b.events)
}

// lastOnes appends the last events, behind which the Watch then is.
func (w *Watch) lastOnes(ctx context.Context, out []Message) ([]Message, error) {
	list, at, err := Last(ctx, w.h.o.Log, w.tail.last, w.r.Since, w.h.o.Header().ObservedAt, w.r.About, w.r.Match)
	if err != nil {
		return nil, err
	}
	w.tail.last, w.tail.at = 0, at
	var b batch
	var frames []batch
	for i, e := range list {
		if b.add(e) || i+1 == len(list) {
			frames, b = append(frames, b), batch{}
		}
	}
	cursors := make([]api.Cursor, len(frames))
	for i, b := range slices.Backward(frames) { // who breaks off behind one wants those behind it
		cursors[i], at = at, at.Clone()
		for _, e := range slices.Backward(b.events) {
			at[e.Source] = e.Seq - 1
		}
	}
	for i, b := range frames {
		w.tail.at = cursors[i]
		if out, err = w.logged(out, b.events); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// gaugesOf appends the gauges that were told since the reader was last here.
func (w *Watch) gaugesOf(out []Message) []Message {
	for _, topic := range w.r.Topics {
		if g := w.h.differ.Gauges(topic, w.gauges[topic], w.may(topic)); g != nil {
			out = append(out, w.message(g))
		}
		w.gauges[topic] = w.h.differ.Tellings(topic)
	}
	return out
}

// position is where the reader is.
func (w *Watch) position() string {
	return delta.Position{Boot: w.boot, Offset: w.offset, Cursor: w.tail.at}.String()
}

// identify tells the reader now and then where it is.
func (w *Watch) identify(out []Message) {
	every := idMin
	if len(w.tail.at) > many {
		every = idMany
	}
	if w.stage != following || time.Since(w.idAt) < every {
		return
	}
	for i := len(out) - 1; i >= 0; i-- {
		if out[i].Event != delta.Gauges { // which need not come
			out[i].ID, w.idAt = w.position(), time.Now()
			return
		}
	}
}

// single reports whether a topic is one job, or one host.
func single(topic string) bool {
	return strings.HasPrefix(topic, topicJob) || strings.HasPrefix(topic, topicRun) || strings.HasPrefix(topic, topicLoad) || strings.HasPrefix(topic, topicLinks)
}
