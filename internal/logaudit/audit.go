package logaudit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Types of frames.
const (
	typeHeader = 1
	typeEvent  = 2
	typeHead   = 3
	typeSeal   = 4
)

const (
	maxPayload = 16 << 20
	maxBody    = maxPayload - 1024
)

// Event is one event as it stands in a chain.
type Event struct {
	Node     string
	Inc, Seq uint64
	Prev     [32]byte
	Clock    uint64
	Term     uint64
	Kind     string
	Body     []byte
	Hash     [32]byte
}

// Head is a signed position.
type Head struct {
	Node     string
	Inc, Seq uint64
	Hash     [32]byte
	Sig      []byte
}

// Chain is the verified content of the segments of one source.
type Chain struct {
	Cluster string
	Events  []Event
	Heads   []Head
	Torn    int // bytes of an interrupted write at the end
}

type frame struct {
	typ     byte
	base    uint64
	payload []byte
}

var (
	errBlank = errors.New("blank space")
	errBad   = errors.New("unreadable frame")
)

// nextFrame reads the frame at the front of b.
func nextFrame(b []byte) (frame, []byte, error) {
	if len(bytes.Trim(b[:min(17, len(b))], "\x00")) == 0 {
		return frame{}, nil, errBlank
	}
	if len(b) < 17 {
		return frame{}, nil, errBad
	}
	n := binary.LittleEndian.Uint32(b)
	if n > maxPayload || len(b) < 17+int(n) || b[8] < typeHeader || b[8] > typeSeal {
		return frame{}, nil, errBad
	}
	f := b[:17+n]
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	sum.Write(f[:4])
	sum.Write(f[8:])
	if sum.Sum32() != binary.LittleEndian.Uint32(f[4:]) {
		return frame{}, nil, errBad
	}
	return frame{typ: f[8], base: binary.LittleEndian.Uint64(f[9:]), payload: f[17:]}, b[17+n:], nil
}

// fields reads the values of a payload.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) take(n uint64) []byte {
	if n > uint64(len(f.b)) {
		f.bad = true
		return make([]byte, min(n, 64))
	}
	v := f.b[:n]
	f.b = f.b[n:]
	return v
}

func (f *fields) u8() uint64      { return uint64(f.take(1)[0]) }
func (f *fields) u32() uint64     { return uint64(binary.BigEndian.Uint32(f.take(4))) }
func (f *fields) u64() uint64     { return binary.BigEndian.Uint64(f.take(8)) }
func (f *fields) hash() [32]byte  { return [32]byte(f.take(32)) }
func (f *fields) version()        { f.refuse(f.u8() != 1) }
func (f *fields) refuse(bad bool) { f.bad = f.bad || bad }

func (f *fields) source() (string, uint64) {
	node := f.take(f.u8())
	f.refuse(len(node) < 1 || len(node) > 32 || !made(node, "abcdefghijklmnopqrstuvwxyz0123456789-") ||
		node[0] == '-' || node[len(node)-1] == '-')
	inc := f.u64()
	f.refuse(inc == 0)
	return string(node), inc
}

// made reports whether b has no other characters than those.
func made(b []byte, of string) bool { return len(bytes.Trim(b, of)) == 0 }

func (f *fields) end(what string) error {
	if f.bad || len(f.b) > 0 {
		return fmt.Errorf("%s payload malformed", what)
	}
	return nil
}

func parseEvent(b []byte) (Event, error) {
	f := &fields{b: b}
	var e Event
	f.version()
	e.Node, e.Inc = f.source()
	e.Seq = f.u64()
	e.Prev = f.hash()
	e.Clock = f.u64()
	e.Term = f.u64()
	kind := f.take(f.u8())
	f.refuse(len(kind) < 1 || len(kind) > 64 || !made(kind, "abcdefghijklmnopqrstuvwxyz0123456789_"))
	e.Kind = string(kind)
	n := f.u32()
	f.refuse(n > maxBody || e.Seq == 0 || e.Seq == 1 && e.Prev != [32]byte{})
	e.Body = f.take(n)
	e.Hash = sha256.Sum256(bytes.Join([][]byte{[]byte("evt1"), e.Prev[:], b}, nil))
	return e, f.end("event")
}

func parseHead(b []byte) (Head, error) {
	f := &fields{b: b}
	var h Head
	f.version()
	h.Node, h.Inc = f.source()
	h.Seq = f.u64()
	h.Hash = f.hash()
	h.Sig = f.take(64)
	f.refuse(h.Seq == 0)
	return h, f.end("head")
}

// Verify checks the head's signature.
func (h Head) Verify(cluster string, key ed25519.PublicKey) error {
	m := append([]byte("skein/head/1\n"), byte(len(cluster)))
	m = append(m, cluster...)
	m = append(append(m, byte(len(h.Node))), h.Node...)
	m = binary.BigEndian.AppendUint64(m, h.Inc)
	m = binary.BigEndian.AppendUint64(m, h.Seq)
	if m = append(m, h.Hash[:]...); !ed25519.Verify(key, m, h.Sig) {
		return fmt.Errorf("head of %s/%d at seq %d is not signed by its host", h.Node, h.Inc, h.Seq)
	}
	return nil
}

// tail is where a chain stands.
type tail struct {
	seq   uint64
	hash  [32]byte
	clock uint64
}

// follow checks that e comes next and moves on.
func (t *tail) follow(e Event) error {
	switch {
	case e.Seq != t.seq+1:
		return fmt.Errorf("seq %d after %d", e.Seq, t.seq)
	case e.Prev != t.hash:
		return fmt.Errorf("hash chain broken at seq %d", e.Seq)
	case e.Clock <= t.clock:
		return fmt.Errorf("clock goes back at seq %d", e.Seq)
	}
	*t = tail{seq: e.Seq, hash: e.Hash, clock: e.Clock}
	return nil
}

// Segments verifies the segment files of one chain, in order and from the
// first, of the source node/inc whose host has key.
func Segments(node string, inc uint64, key ed25519.PublicKey, files [][]byte) (*Chain, error) {
	c := &Chain{}
	var t tail
	for i, file := range files {
		if err := c.segment(node, inc, key, file, &t, i == len(files)-1); err != nil {
			return c, fmt.Errorf("segment %d: %w", i+1, err)
		}
	}
	return c, nil
}

func (c *Chain) segment(node string, inc uint64, key ed25519.PublicKey, b []byte, t *tail, last bool) error {
	b, ok := bytes.CutPrefix(b, []byte("skeinlg\x01"))
	if !ok {
		return errors.New("not a segment")
	}
	fr, b, err := nextFrame(b)
	if err != nil || fr.typ != typeHeader {
		return errors.New("no header")
	}
	f := &fields{b: fr.payload}
	f.version()
	cluster := f.take(f.u8())
	n, in := f.source()
	first, prev := f.u64(), f.hash()
	f.refuse(len(cluster) < 1 || len(cluster) > 128)
	if err := f.end("header"); err != nil {
		return err
	}
	if n != node || in != inc || first != t.seq+1 || prev != t.hash || c.Cluster != "" && c.Cluster != string(cluster) {
		return fmt.Errorf("header is of %s/%d from seq %d", n, in, first)
	}
	c.Cluster = string(cluster)
	return c.groups(node, inc, key, b, t, last)
}

// groups reads the commit groups of a segment.
func (c *Chain) groups(node string, inc uint64, key ed25519.PublicKey, b []byte, t *tail, last bool) error {
	whole, end, sealed := b, *t, false
	var group []Event
	for {
		fr, rest, err := nextFrame(b)
		if err != nil {
			return c.finish(whole, end.seq, sealed, last)
		}
		if b = rest; sealed {
			return errors.New("frame after the seal")
		}
		switch fr.typ {
		case typeEvent:
			e, err := parseEvent(fr.payload)
			if err == nil {
				err = t.follow(e)
			}
			if err != nil {
				return err
			}
			if e.Node != node || e.Inc != inc || fr.base == 0 || fr.base > end.seq+1 {
				return fmt.Errorf("event %d is not of this chain or group", e.Seq)
			}
			group = append(group, e)
		case typeHead:
			h, err := parseHead(fr.payload)
			if err != nil {
				return err
			}
			if len(group) == 0 || h.Node != node || h.Inc != inc || h.Seq != t.seq || h.Hash != t.hash {
				return fmt.Errorf("head at seq %d is not that of its group", h.Seq)
			}
			if err := h.Verify(c.Cluster, key); err != nil {
				return err
			}
			c.Events, c.Heads = append(c.Events, group...), append(c.Heads, h)
			group, whole, end = nil, b, *t
		case typeSeal:
			f := &fields{b: fr.payload}
			f.version()
			seq, hash := f.u64(), f.hash()
			if err := f.end("seal"); err != nil {
				return err
			}
			if len(group) > 0 || seq != t.seq || hash != t.hash {
				return fmt.Errorf("seal at seq %d", seq)
			}
			sealed, whole = true, b
		default:
			return errors.New("second header")
		}
	}
}

// finish judges what follows the last whole group or the seal.
func (c *Chain) finish(rest []byte, seq uint64, sealed, last bool) error {
	switch {
	case !last && (!sealed || len(rest) > 0):
		return errors.New("only the last segment may be open")
	case len(bytes.Trim(rest, "\x00")) == 0:
		return nil
	case sealed:
		return errors.New("bytes after the seal")
	}
	for i := range rest {
		if f, _, err := nextFrame(rest[i:]); err == nil && f.base > seq+1 {
			return fmt.Errorf("event %d is damaged: a later group follows", seq+1)
		}
	}
	c.Torn = len(rest)
	return nil
}

// Proof verifies that the host with key signed two histories of node/inc, and
// returns the seq from which they differ.
func Proof(cluster string, key ed25519.PublicKey, b []byte) (node string, inc, seq uint64, err error) {
	f := &fields{b: b}
	f.version()
	var first [2]Event
	for i := range first {
		events, head, err := parseRun(f.take(f.u32()))
		if err == nil {
			err = head.Verify(cluster, key)
		}
		if err != nil {
			return "", 0, 0, err
		}
		first[i] = events[0]
	}
	if err := f.end("proof"); err != nil {
		return "", 0, 0, err
	}
	x, y := first[0], first[1]
	if x.Node != y.Node || x.Inc != y.Inc || x.Seq != y.Seq || x.Prev != y.Prev || x.Hash == y.Hash {
		return "", 0, 0, errors.New("the histories do not part at their first events")
	}
	return x.Node, x.Inc, x.Seq, nil
}

// parseRun reads a run and checks all but the signature.
func parseRun(b []byte) ([]Event, Head, error) {
	var events []Event
	var t tail
	for len(b) > 0 {
		fr, rest, err := nextFrame(b)
		if err != nil {
			return nil, Head{}, err
		}
		b = rest
		if fr.typ == typeHead && len(b) == 0 && len(events) > 0 {
			h, err := parseHead(fr.payload)
			if err == nil && (h.Node != events[0].Node || h.Inc != events[0].Inc || h.Seq != t.seq || h.Hash != t.hash) {
				err = errors.New("head is not that of its run")
			}
			return events, h, err
		}
		if fr.typ != typeEvent {
			return nil, Head{}, fmt.Errorf("run with a frame of type %d", fr.typ)
		}
		e, err := parseEvent(fr.payload)
		if err != nil {
			return nil, Head{}, err
		}
		if len(events) == 0 {
			t = tail{seq: e.Seq - 1, hash: e.Prev}
		}
		if err := t.follow(e); err != nil {
			return nil, Head{}, err
		}
		events = append(events, e)
	}
	return nil, Head{}, errors.New("run without head")
}
