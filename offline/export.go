package offline

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/store"
)

// ExportOptions select the events of an export. The zero value exports all.
type ExportOptions struct {
	From  event.Cursor   // only later events
	Since time.Time      // by the writers' clocks
	Kinds []string       // as api.ParseKinds returns them
	Node  cluster.NodeID // of the source
}

// ExportLog writes the event log of a state directory to w, in the total order of
// events: a line with what is needed to verify them, a line per event, and a line
// that marks the end. It also returns how far it came with an error, so that a later
// export can go on from there.
func ExportLog(ctx context.Context, stateDir string, o ExportOptions, w io.Writer) (api.ExportEnd, error) {
	l, err := openLogFiles(stateDir)
	if err != nil {
		return api.ExportEnd{}, adviseCommand(err)
	}
	x := &exporter{w: bufio.NewWriterSize(w, 64<<10), at: o.From.Clone()}
	if len(x.at) == 0 {
		x.at = l.dir.Oldest().Clone()
	}
	err = x.run(ctx, l, o)
	if err1 := x.w.Flush(); err1 != nil {
		return api.ExportEnd{Cursor: o.From.String()}, fmt.Errorf("write export: %w", err1) // how much was written is unknown
	}
	if gone, ok := errors.AsType[*store.CompactedError](err); ok {
		err = &hinted{error: err, hint: fmt.Sprintf("go on with --since %s", gone.Oldest)}
	}
	if err != nil {
		return x.end(), fmt.Errorf("export event log of %s: %w", stateDir, err)
	}
	return x.end(), nil
}

// exporter writes one export.
type exporter struct {
	w   *bufio.Writer
	at  event.Cursor // all up to it is written
	n   uint64
	raw []byte
}

func (x *exporter) end() api.ExportEnd { return api.ExportEnd{Events: x.n, Cursor: x.at.String()} }

func (x *exporter) run(ctx context.Context, l *logFiles, o ExportOptions) error {
	head := l.exportHead(o)
	head.From = x.at.String()
	if err := x.line(api.ExportLine{Export: &head}); err != nil {
		return err
	}
	for e, err := range l.dir.After(ctx, x.at, store.Filter{Kinds: o.Kinds, Node: o.Node, Since: o.Since}) {
		if err != nil {
			return err
		}
		if err := x.event(e); err != nil {
			return err
		}
	}
	return x.line(api.ExportLine{End: new(x.end())})
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

// exportHead is the first line of an export.
func (l *logFiles) exportHead(o ExportOptions) api.ExportHead {
	h := api.ExportHead{
		Version: api.ExportVersion, Cluster: l.id.Cluster.String(), ClusterName: l.id.ClusterName, Host: l.id.Node,
		ExportedAt: time.Now().UTC(), Kinds: o.Kinds, Node: o.Node, Heads: l.dir.Heads(),
		RootKey: l.id.RootPub, Certs: []string{}, Keys: []api.ExportKey{},
	}
	if !o.Since.IsZero() {
		h.Since = &o.Since
	}
	for _, m := range l.roster.Members {
		h.Keys = append(h.Keys, api.ExportKey{Node: m.Node, Key: m.IDPub})
	}
	for _, r := range l.roster.Retired {
		h.Keys = append(h.Keys, api.ExportKey{Node: r.Node, Key: r.Cert.IDPub})
	}
	for _, c := range l.records.Certs {
		h.Certs = append(h.Certs, c.String())
	}
	return h
}
