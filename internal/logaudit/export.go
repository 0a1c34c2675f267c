package logaudit

import (
	"bufio"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Export is what an exported log proves.
type Export struct {
	Cluster string
	From    string // where it begins; empty: with the first event
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

// ReadExport verifies an export without gaps: in one part, or in several that
// each begin where the one before it ended. It believes the keys that the
// export names. What lies before Export.From is vouched for by the hash in the
// first event after it, and not shown.
func ReadExport(parts ...io.Reader) (Export, error) {
	x := reader{chains: map[exportSource]*tail{}, base: map[exportSource]uint64{}}
	for _, r := range parts {
		if err := x.part(r); err != nil {
			return x.out, err
		}
	}
	return x.out, nil
}

// reader knows how far the chains are.
type reader struct {
	out    Export
	chains map[exportSource]*tail
	base   map[exportSource]uint64 // last event of each chain that is not shown
	before *Event
}

func (x *reader) part(r io.Reader) error {
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
		return err
	}
	if head.Export == nil || head.Export.Version != 1 {
		return errors.New("no export of version 1")
	}
	h := head.Export
	if x.out.Cluster == "" && h.From != "" {
		if err := x.begin(h.From); err != nil {
			return err
		}
	}
	switch {
	case h.From != x.out.Cursor || len(h.Since) > 0 || len(h.Kinds) > 0 || h.Node != "":
		return errors.New("the export leaves events out")
	case x.out.Cluster != "" && x.out.Cluster != h.Cluster:
		return errors.New("parts of two clusters")
	}
	x.out.Cluster, x.before = h.Cluster, nil // what came late stands in a later part
	began := x.out.Events
	for {
		l, err := next()
		if err != nil {
			return fmt.Errorf("after %d events: %w", x.out.Events, err)
		}
		if l.End != nil {
			if x.out.Cursor = l.End.Cursor; l.End.Events != x.out.Events-began || lines.Scan() {
				return fmt.Errorf("the export ends after %d events and says %d", x.out.Events-began, l.End.Events)
			}
			break
		}
		if err := x.event(l); err != nil {
			return err
		}
	}
	x.out.Sources = len(x.chains)
	return x.heads(head)
}

// begin notes where the first part begins: "node/inc:seq,...".
func (x *reader) begin(from string) error {
	x.out.From, x.out.Cursor = from, from
	for one := range strings.SplitSeq(from, ",") {
		var src exportSource
		node, rest, _ := strings.Cut(one, "/")
		inc, seq, _ := strings.Cut(rest, ":")
		n, err := strconv.ParseUint(inc, 10, 64)
		m, err1 := strconv.ParseUint(seq, 10, 64)
		if err := errors.Join(err, err1); err != nil {
			return fmt.Errorf("begin of the export: %w", err)
		}
		src.Node, src.Inc = node, n
		x.base[src] = m
	}
	return nil
}

func (x *reader) event(l exportLine) error {
	e, err := parseEvent(l.Raw)
	if err != nil {
		return err
	}
	src := exportSource{e.Node, e.Inc}
	if x.chains[src] == nil {
		x.chains[src] = &tail{}
		if base := x.base[src]; base > 0 {
			x.chains[src] = &tail{seq: base, hash: e.Prev}
		}
	}
	if err := x.chains[src].follow(e); err != nil {
		return fmt.Errorf("%s/%d: %w", e.Node, e.Inc, err)
	}
	if l.Hash != hex.EncodeToString(e.Hash[:]) {
		return fmt.Errorf("%s/%d: hash of seq %d is another", e.Node, e.Inc, e.Seq)
	}
	if x.before != nil && !ordered(*x.before, e) {
		return fmt.Errorf("%s/%d: seq %d is out of order", e.Node, e.Inc, e.Seq)
	}
	x.before = &e
	x.out.Events++
	return nil
}

// heads compares the ends of the chains with what their hosts signed.
func (x *reader) heads(head exportLine) error {
	keys := map[string]ed25519.PublicKey{}
	for _, k := range head.Export.Keys {
		keys[k.Node] = k.Key
	}
	signed := map[exportSource]bool{}
	for _, h := range head.Export.Heads {
		t := x.chains[h.Source]
		if t == nil && h.Seq == x.base[h.Source] {
			continue // nothing of it is shown
		}
		if t == nil || t.seq != h.Seq || hex.EncodeToString(t.hash[:]) != h.Hash {
			return fmt.Errorf("%s/%d does not end at its head", h.Source.Node, h.Source.Inc)
		}
		if len(keys[h.Source.Node]) != ed25519.PublicKeySize {
			return fmt.Errorf("no key of %s", h.Source.Node)
		}
		is := Head{Node: h.Source.Node, Inc: h.Source.Inc, Seq: t.seq, Hash: t.hash, Sig: h.Sig}
		if err := is.Verify(head.Export.Cluster, keys[h.Source.Node]); err != nil {
			return err
		}
		signed[h.Source] = true
	}
	if len(signed) != len(x.chains) {
		return fmt.Errorf("%d of %d chains have a head", len(signed), len(x.chains))
	}
	return nil
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
