package logaudit

import (
	"bufio"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Export is what an exported log proves.
type Export struct {
	Cluster string
	Events  int
	Sources int
	Cursor  string
}

type exportLine struct {
	Export *struct {
		Version int             `json:"version"`
		Cluster string          `json:"cluster"`
		From    string          `json:"from"`
		Since   json.RawMessage `json:"since"`
		Kinds   []string        `json:"kinds"`
		Node    string          `json:"node"`
		Heads   []struct {
			Source exportSource `json:"source"`
			Seq    uint64       `json:"seq"`
			Hash   string       `json:"hash"`
			Sig    []byte       `json:"sig"`
		} `json:"heads"`
		Keys []struct {
			Node string `json:"node"`
			Key  []byte `json:"key"`
		} `json:"keys"`
	} `json:"export"`
	End *struct {
		Events int    `json:"events"`
		Cursor string `json:"cursor"`
	} `json:"end"`
	Raw  []byte `json:"raw"`
	Hash string `json:"hash"`
}

type exportSource struct {
	Node string `json:"node"`
	Inc  uint64 `json:"inc"`
}

// ReadExport verifies a whole export that begins with the first event. It
// believes the keys that the export names.
func ReadExport(r io.Reader) (Export, error) {
	var out Export
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	next := func() (l exportLine, err error) {
		if !lines.Scan() {
			return l, errors.Join(io.ErrUnexpectedEOF, lines.Err())
		}
		return l, json.Unmarshal(lines.Bytes(), &l)
	}
	head, err := next()
	if err != nil {
		return out, err
	}
	if head.Export == nil || head.Export.Version != 1 {
		return out, errors.New("no export of version 1")
	}
	h := head.Export
	out.Cluster = h.Cluster
	if h.From != "" || len(h.Since) > 0 || len(h.Kinds) > 0 || h.Node != "" {
		return out, errors.New("the export leaves events out")
	}
	chains := map[exportSource]*tail{}
	var before *Event
	for {
		l, err := next()
		if err != nil {
			return out, fmt.Errorf("after %d events: %w", out.Events, err)
		}
		if l.End != nil {
			if out.Cursor = l.End.Cursor; l.End.Events != out.Events || lines.Scan() {
				return out, fmt.Errorf("the export ends after %d events and says %d", out.Events, l.End.Events)
			}
			break
		}
		e, err := parseEvent(l.Raw)
		if err != nil {
			return out, err
		}
		src := exportSource{e.Node, e.Inc}
		if chains[src] == nil {
			chains[src] = &tail{}
		}
		if err := chains[src].follow(e); err != nil {
			return out, fmt.Errorf("%s/%d: %w", e.Node, e.Inc, err)
		}
		if l.Hash != hex.EncodeToString(e.Hash[:]) {
			return out, fmt.Errorf("%s/%d: hash of seq %d is another", e.Node, e.Inc, e.Seq)
		}
		if before != nil && !ordered(*before, e) {
			return out, fmt.Errorf("%s/%d: seq %d is out of order", e.Node, e.Inc, e.Seq)
		}
		before = &e
		out.Events++
	}
	out.Sources = len(chains)
	keys := map[string]ed25519.PublicKey{}
	for _, k := range h.Keys {
		keys[k.Node] = k.Key
	}
	for _, head := range h.Heads {
		t := chains[head.Source]
		if t == nil || t.seq != head.Seq || hex.EncodeToString(t.hash[:]) != head.Hash {
			return out, fmt.Errorf("%s/%d does not end at its head", head.Source.Node, head.Source.Inc)
		}
		if len(keys[head.Source.Node]) != ed25519.PublicKeySize {
			return out, fmt.Errorf("no key of %s", head.Source.Node)
		}
		signed := Head{Node: head.Source.Node, Inc: head.Source.Inc, Seq: t.seq, Hash: t.hash, Sig: head.Sig}
		if err := signed.Verify(h.Cluster, keys[head.Source.Node]); err != nil {
			return out, err
		}
		delete(chains, head.Source)
	}
	if len(chains) > 0 {
		return out, fmt.Errorf("%d chains without a head", len(chains))
	}
	return out, nil
}

// ordered reports whether a stands before b in the order of all events.
func ordered(a, b Event) bool {
	switch {
	case a.Clock != b.Clock:
		return a.Clock < b.Clock
	case a.Node != b.Node:
		return a.Node < b.Node
	case a.Inc != b.Inc:
		return a.Inc < b.Inc
	}
	return a.Seq < b.Seq
}
