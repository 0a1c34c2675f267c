package offline

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/store"
)

// ExportedLog is an event log.
type ExportedLog interface {
	Heads() []event.Head
	Oldest() event.Cursor
	LastBefore(h event.Head, before func(cluster.HLC) bool) (uint64, error)
	After(ctx context.Context, at event.Cursor, f store.Filter) iter.Seq2[event.Event, error]
}

// ExportOptions select the events of an export. The zero value exports all.
type ExportOptions struct {
	From  event.Cursor   // only later events
	Since time.Time      // by the writers' clocks
	Kinds []string       // as api.ParseKinds returns them
	Node  cluster.NodeID // of the source
}

// AboutLog is what a host knows that is needed to verify its log: the cluster, the keys and
// what certifies them.
func AboutLog(id *join.Identity, records member.Records) api.ExportHead {
	h := api.ExportHead{
		Version: api.ExportVersion, Cluster: id.Cluster.String(), ClusterName: id.ClusterName, Host: id.Node, RootKey: id.RootPub,
		Certs: []string{}, Keys: []api.ExportKey{},
	}
	roster := id.Roster(records)
	for _, m := range roster.Members {
		h.Keys = append(h.Keys, api.ExportKey{Node: m.Node, Key: m.IDPub})
	}
	for _, r := range roster.Retired {
		h.Keys = append(h.Keys, api.ExportKey{Node: r.Node, Key: r.Cert.IDPub})
	}
	for _, c := range records.Certs {
		h.Certs = append(h.Certs, c.String())
	}
	return h
}

// WriteLog writes a log to w, in the total order of events: a line with what is needed to
// verify them, a line per event, and a line that marks the end. It returns how far it
// came, with an error too, so that a later export can go on from there. What a log takes
// meanwhile is not in it.
func WriteLog(ctx context.Context, log ExportedLog, about api.ExportHead, o ExportOptions, w io.Writer) (api.ExportEnd, error) {
	x := &exporter{w: bufio.NewWriterSize(w, 64<<10), at: o.From.Clone(), heads: event.Cursor{}}
	if len(x.at) == 0 {
		x.at = log.Oldest().Clone()
	}
	about.ExportedAt, about.From, about.Kinds, about.Node, about.Heads = time.Now().UTC(), x.at.String(), o.Kinds, o.Node, log.Heads()
	if !o.Since.IsZero() {
		about.Since = &o.Since
	}
	for _, h := range about.Heads {
		x.heads[h.Source] = h.Seq
	}
	err := x.run(ctx, log, about, store.Filter{Kinds: o.Kinds, Node: o.Node, Since: o.Since})
	if err1 := x.w.Flush(); err1 != nil {
		// How much was written is unknown.
		return api.ExportEnd{Cursor: o.From.String()}, fmt.Errorf("write export: %w", err1)
	}
	return x.end(), err
}

// exporter writes one export.
type exporter struct {
	w     *bufio.Writer
	at    event.Cursor // all up to it is written
	heads event.Cursor // ends of the chains
	n     uint64
	raw   []byte
}

func (x *exporter) end() api.ExportEnd { return api.ExportEnd{Events: x.n, Cursor: x.at.String()} }

func (x *exporter) run(ctx context.Context, log ExportedLog, head api.ExportHead, f store.Filter) error {
	if err := x.line(api.ExportLine{Export: &head}); err != nil {
		return err
	}
	// The log may have moved on since its heads were taken: beyond them nothing is signed
	// here.
	at := x.at.Clone()
	for e, err := range log.After(ctx, at, f) {
		if err != nil {
			return err
		}
		if e.Seq > x.heads[e.Source] {
			continue
		}
		if err := x.event(e); err != nil {
			return err
		}
		x.to(at)
	}
	x.to(at)
	return x.line(api.ExportLine{End: new(x.end())})
}

// to notes how far the log was read.
func (x *exporter) to(at event.Cursor) {
	for source, seq := range at {
		if seq = min(seq, x.heads[source]); seq > x.at[source] {
			x.at[source] = seq
		}
	}
}

func (x *exporter) event(e event.Event) (err error) {
	if x.raw, err = record.AppendEvent(x.raw[:0], e); err != nil {
		return err
	}
	if record.HashEvent(e.Prev, x.raw) != e.Hash {
		return fmt.Errorf("%s at seq %d does not encode to the bytes that were read", e.Source, e.Seq)
	}
	x.n++
	return x.line(api.ExportEvent{
		Source: e.Source, Seq: e.Seq, Prev: e.Prev, Time: e.HLC.Time(), HLC: e.HLC, Term: e.Term,
		Kind: e.Kind, Body: e.Body, Hash: e.Hash, Raw: x.raw,
	})
}

func (x *exporter) line(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := x.w.Write(b); err != nil {
		return err
	}
	return x.w.WriteByte('\n')
}

// errFull ends an export that is larger than it may be.
var errFull = errors.New("no more room")

// room is a buffer of at most so many bytes.
type room struct {
	bytes.Buffer
	most int
}

func (r *room) Write(p []byte) (int, error) {
	if r.Len()+len(p) > r.most {
		return 0, errFull
	}
	return r.Buffer.Write(p)
}

// leastSpan is the shortest part of a log that is tried.
const leastSpan = time.Second

// RecentLog returns the newest part of a log, from span before now, or half of that span and
// so on until it has at most so many bytes; from is where it begins. It is whole: each
// chain goes on from where it stood then, up to its head.
func RecentLog(ctx context.Context, log ExportedLog, about api.ExportHead, now time.Time, span time.Duration, most int) (text []byte, from time.Time, err error) {
	for ; span >= leastSpan; span /= 2 {
		from = now.Add(-span)
		at, err := position(log, from)
		if err != nil {
			return nil, from, err
		}
		r := room{most: most}
		_, err = WriteLog(ctx, log, about, ExportOptions{From: at}, &r)
		if err == nil {
			return r.Bytes(), from, nil
		}
		if !errors.Is(err, errFull) {
			return nil, from, err
		}
	}
	return nil, from, fmt.Errorf("the events of %s have more than %d bytes", leastSpan, most)
}

// RecentEvents returns a RecentLog of the log of a running daemon, up to now.
func RecentEvents(
	log ExportedLog, id *join.Identity, records func(context.Context) (member.Records, error),
) func(ctx context.Context, span time.Duration, most int) ([]byte, time.Time, error) {
	return func(ctx context.Context, span time.Duration, most int) ([]byte, time.Time, error) {
		known, err := records(ctx)
		if err != nil {
			return nil, time.Time{}, err
		}
		return RecentLog(ctx, log, AboutLog(id, known), time.Now(), span, most)
	}
}

// position is where the chains stood at a time.
func position(log ExportedLog, then time.Time) (event.Cursor, error) {
	at := log.Oldest().Clone()
	if at == nil {
		at = event.Cursor{}
	}
	for _, h := range log.Heads() {
		seq, err := log.LastBefore(h, func(clock cluster.HLC) bool { return clock.Time().Before(then) })
		if err != nil {
			return nil, err
		}
		if seq > 0 {
			at.Advance(h.Source, seq)
		}
	}
	return at, nil
}

// ExportLog writes the event log of a state directory to w: see WriteLog.
func ExportLog(ctx context.Context, stateDir string, o ExportOptions, w io.Writer) (api.ExportEnd, error) {
	l, err := openLogFiles(stateDir)
	if err != nil {
		return api.ExportEnd{}, adviseCommand(err)
	}
	end, err := WriteLog(ctx, l.dir, AboutLog(l.id, l.records), o, w)
	if gone, ok := errors.AsType[*store.CompactedError](err); ok {
		err = &hinted{error: err, hint: fmt.Sprintf("go on with --since %s", gone.Oldest)}
	}
	if err != nil {
		return end, fmt.Errorf("export event log of %s: %w", stateDir, err)
	}
	return end, nil
}

// CheckExport checks a file that ExportLog, or a bundle, has written.
func CheckExport(file string) (api.ExportCheck, error) {
	f, err := os.Open(file)
	if err != nil {
		return api.ExportCheck{}, err
	}
	defer f.Close()
	return checkExport(f)
}
