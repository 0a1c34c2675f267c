package offline

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/store"
)

// maxLine bounds a line of an export: the largest event, twice.
const maxLine = 64 << 20

// checkExport reads an export and says what it proves. The result says what is wrong with it;
// an error means that it could not be read. Who made the file could have made the keys in
// it as well: only the root key, known from elsewhere, tells that it is of one's cluster.
func checkExport(r io.Reader) (api.ExportCheck, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	c := &checker{lines: lines, tails: map[event.SourceID]*tail{}}
	err := c.run()
	if read := lines.Err(); read != nil && !errors.Is(read, bufio.ErrTooLong) {
		return c.out, fmt.Errorf("read export: %w", read)
	}
	c.out.OK = err == nil
	if err != nil {
		c.out.Problem = err.Error()
	}
	return c.out, nil
}

// tail is how far a chain was followed.
type tail struct {
	seq   uint64
	hash  cluster.Hash
	clock cluster.HLC
}

// checker checks one export.
type checker struct {
	lines *bufio.Scanner
	head  *api.ExportHead
	from  event.Cursor
	tails map[event.SourceID]*tail
	last  event.Event // that was read
	out   api.ExportCheck
}

func (c *checker) run() error {
	if !c.lines.Scan() {
		return errors.New("it is empty")
	}
	var first api.ExportLine
	if err := json.Unmarshal(c.lines.Bytes(), &first); err != nil || first.Export == nil || first.Export.Version != api.ExportVersion {
		return fmt.Errorf("it does not begin as an export of version %d does", api.ExportVersion)
	}
	if err := c.begin(first.Export); err != nil {
		return err
	}
	for c.lines.Scan() {
		var l struct {
			api.ExportEvent
			End *api.ExportEnd `json:"end"`
		}
		if err := json.Unmarshal(c.lines.Bytes(), &l); err != nil {
			return fmt.Errorf("after %d events: a line cannot be read: %w", c.out.Events, err)
		}
		if l.End != nil {
			return c.end(*l.End)
		}
		if err := c.event(l.ExportEvent); err != nil {
			return err
		}
	}
	return fmt.Errorf("it was cut off after %d events", c.out.Events)
}

func (c *checker) begin(h *api.ExportHead) (err error) {
	c.head = h
	sum := sha256.Sum256(h.RootKey)
	c.out = api.ExportCheck{
		Cluster: h.Cluster, ClusterName: h.ClusterName, Host: h.Host, ExportedAt: h.ExportedAt, From: h.From, RootKey: "sha256:" + hex.EncodeToString(sum[:]),
		Partial: h.Since != nil || len(h.Kinds) > 0 || h.Node != "", Sources: []api.LogSource{}, Uncertified: []cluster.NodeID{},
	}
	if c.from, err = event.ParseCursor(h.From); err != nil {
		return fmt.Errorf("where it begins: %w", err)
	}
	return nil
}

// event checks one event and what comes before it.
func (c *checker) event(x api.ExportEvent) error {
	e, err := record.DecodeEvent(x.Raw)
	if err != nil {
		return fmt.Errorf("after %d events: %w", c.out.Events, err)
	}
	e.Hash = record.HashEvent(e.Prev, x.Raw)
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%s at seq %d: %s", e.Source, e.Seq, fmt.Sprintf(format, args...))
	}
	switch {
	case x.Hash != e.Hash:
		return wrong("another hash than its bytes have")
	case x.Source != e.Source || x.Seq != e.Seq || x.Prev != e.Prev || x.HLC != e.HLC || x.Term != e.Term || x.Kind != e.Kind ||
		!x.Time.Equal(e.HLC.Time()) || !sameJSON(x.Body, e.Body):
		return wrong("its bytes say something else than what is written beside them")
	case c.out.Events > 0 && !store.Before(c.last, e):
		return wrong("out of order")
	}
	t := c.tails[e.Source]
	if t == nil {
		t = &tail{seq: c.from[e.Source], hash: e.Prev} // what is before it, it names
		if t.seq == 0 && !c.out.Partial {
			t.hash = cluster.Hash{}
		}
		c.tails[e.Source] = t
	}
	switch {
	case !c.out.Partial && e.Seq != t.seq+1:
		return wrong("after seq %d", t.seq)
	case !c.out.Partial && e.Prev != t.hash:
		return wrong("it does not follow from the one before it")
	case e.Seq <= t.seq || e.HLC <= t.clock:
		return wrong("it goes back")
	}
	*t = tail{seq: e.Seq, hash: e.Hash, clock: e.HLC}
	c.last = e
	c.out.Events++
	return nil
}

// sameJSON compares values as they may be written.
func sameJSON(a, b []byte) bool {
	plain := func(v []byte) ([]byte, bool) {
		var out, safe bytes.Buffer
		if len(v) == 0 {
			v = []byte("null")
		}
		if json.Compact(&out, v) != nil {
			return nil, false
		}
		json.HTMLEscape(&safe, out.Bytes())
		return safe.Bytes(), true
	}
	x, ok := plain(a)
	y, ok1 := plain(b)
	return ok && ok1 && bytes.Equal(x, y)
}

// end checks the last line, the ends of the chains, and the keys.
func (c *checker) end(l api.ExportEnd) error {
	switch {
	case l.Events != c.out.Events:
		return fmt.Errorf("it has %d events and says %d", c.out.Events, l.Events)
	case c.lines.Scan():
		return errors.New("there is more behind its end")
	}
	keys := map[cluster.NodeID]ed25519.PublicKey{}
	for _, k := range c.head.Keys {
		if len(k.Key) == ed25519.PublicKeySize {
			keys[k.Node] = k.Key
		}
	}
	signed := 0
	for _, h := range c.head.Heads {
		t, key := c.tails[h.Source], keys[h.Source.Node]
		switch {
		case t == nil && !c.out.Partial && h.Seq != c.from[h.Source]:
			return fmt.Errorf("%s: nothing of it up to its end at seq %d", h.Source, h.Seq)
		case t == nil:
			continue // nothing of it is shown
		case key == nil:
			return fmt.Errorf("no key of %s", h.Source.Node)
		}
		if err := record.VerifyHead(c.head.Cluster, h, key); err != nil {
			return fmt.Errorf("%s: the end at seq %d: %w", h.Source, h.Seq, err)
		}
		if !c.out.Partial && (t.seq != h.Seq || t.hash != h.Hash) {
			return fmt.Errorf("%s ends at seq %d, its host has signed another end, at seq %d", h.Source, t.seq, h.Seq)
		}
		signed++
		c.out.Sources = append(c.out.Sources, api.LogSource{Source: h.Source, Seq: h.Seq, Hash: h.Hash})
	}
	if signed != len(c.tails) {
		return fmt.Errorf("%d of %d chains have a signed end", signed, len(c.tails))
	}
	return c.certify(keys)
}

// certify names the hosts whose keys nothing certifies.
func (c *checker) certify(keys map[cluster.NodeID]ed25519.PublicKey) error {
	v := member.Verifier{RootPub: c.head.RootKey}
	if err := v.Cluster.UnmarshalText([]byte(c.head.Cluster)); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	var certs []member.Signed
	for _, text := range c.head.Certs {
		s, err := member.ParseSigned(text)
		if err != nil {
			return fmt.Errorf("certificate: %w", err)
		}
		certs = append(certs, s)
	}
	good := v.Certified(certs)
	for _, s := range c.out.Sources {
		node := s.Source.Node
		if !slices.ContainsFunc(good[node], func(k ed25519.PublicKey) bool { return k.Equal(keys[node]) }) && !slices.Contains(c.out.Uncertified, node) {
			c.out.Uncertified = append(c.out.Uncertified, node)
		}
	}
	return nil
}
