package proof

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/store"
)

var (
	blue = member.ClusterID{1, 2, 3}
	n1   = event.SourceID{Node: "n1", Inc: 1}
	n2   = event.SourceID{Node: "n2", Inc: 3}
)

func keyOf(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

// chain is one of a host, each group with a head.
type chain struct {
	events []event.Event
	ends   []uint64 // of groups
	key    ed25519.PrivateKey
}

func newChain(t *testing.T, src event.SourceID, key ed25519.PrivateKey, n int, body []byte, ends ...uint64) chain {
	t.Helper()
	c := chain{ends: ends, key: key}
	var prev cluster.Hash
	for i := range n {
		e := event.Event{Source: src, Seq: uint64(i + 1), Prev: prev, HLC: cluster.HLC(1000 + i), Kind: event.KindHostStarted, Body: body}
		raw, err := record.AppendEvent(nil, e)
		if err != nil {
			t.Fatal(err)
		}
		e.Hash = record.HashEvent(prev, raw)
		prev, c.events = e.Hash, append(c.events, e)
	}
	return c
}

// group has the frames from an event to the next head, as store.Reader.Run.
func (c chain) group(from uint64) (frames []byte, err error) {
	for _, e := range c.events[from-1:] {
		raw, err := record.AppendEvent(nil, e)
		if err != nil {
			return nil, err
		}
		if frames, err = record.AppendFrame(frames, record.Frame{Type: record.TypeEvent, Base: 1, Payload: raw}); err != nil {
			return nil, err
		}
		if slices.Contains(c.ends, e.Seq) {
			head, err := record.AppendHead(nil, record.SignHead(blue.String(), event.Head{Source: e.Source, Seq: e.Seq, Hash: e.Hash}, c.key))
			if err != nil {
				return nil, err
			}
			return record.AppendFrame(frames, record.Frame{Type: record.TypeHead, Base: 1, Payload: head})
		}
	}
	return nil, io.EOF
}

// certs are n1's, a sponsor that the root key certified, and n2's, which n1 did, and
// one of another host that had n2's name before.
func certs(t *testing.T) member.Records {
	t.Helper()
	root := keyOf(9)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Unix()
	cert := func(node cluster.NodeID, key, issuer ed25519.PrivateKey, last byte, sponsor bool) member.Signed {
		c := member.Cert{
			Cluster: blue, Node: node, IDPub: public(key), IP4: netip.AddrFrom4([4]byte{10, 86, 0, last}), IP6: member.ULA(blue, public(key)),
			Serial: uint64(last), Issued: now, Expires: now + 86400, Issuer: public(issuer),
		}
		if sponsor {
			c.Caps, c.Slice, c.Expires = []string{member.CapSponsor}, netip.MustParsePrefix("10.86.0.0/20"), 0
		}
		s, err := c.Sign(issuer)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	return member.Records{Certs: []member.Signed{cert("n2", keyOf(3), keyOf(1), 3, false), cert("n2", keyOf(2), keyOf(1), 2, false), cert("n1", keyOf(1), root, 1, true)}}
}

func proofs(t *testing.T, chains map[event.SourceID]chain, check *api.LogCheck) (*Proofs, *int) {
	t.Helper()
	reads := 0
	return New(Options{
		Cluster: blue, RootKey: public(keyOf(9)),
		Head: func(src event.SourceID) event.Head {
			return event.Head{Source: src, Seq: uint64(len(chains[src].events))}
		},
		Group: func(src event.SourceID, from uint64) ([]byte, error) {
			if from == 1 && src == n2 {
				return nil, &store.CompactedError{Source: src, Seq: 1, Oldest: event.Cursor{n2: 1}}
			}
			return chains[src].group(from)
		},
		Records: func(context.Context) (member.Records, error) { reads++; return certs(t), nil },
		Checked: func() *api.LogCheck { return check },
	}), &reads
}

// verify is what whoever gets a proof does: it knows the root key only.
func verify(t *testing.T, p api.EventProof, src event.SourceID, seq uint64, signers ...cluster.NodeID) {
	t.Helper()
	prev := p.Events[0].Prev
	for i, e := range p.Events {
		if e.Source != src || e.Seq != seq+uint64(i) || e.Prev != prev || record.HashEvent(e.Prev, e.Raw) != e.Hash {
			t.Fatalf("event %d of the answer is %s %d after %s", i, e.Source, e.Seq, e.Prev)
		}
		prev = e.Hash
	}
	key := public(keyOf(9))
	for i, text := range slices.Backward(p.Certs) {
		s, err := member.ParseSigned(text)
		if err != nil {
			t.Fatal(err)
		}
		c, err := member.ParseCert(s)
		if err != nil || c.Cluster.String() != p.Cluster || !ed25519.Verify(key, append([]byte("skein/cert/1\n"), s.Bytes...), s.Sig) {
			t.Fatalf("certificate %d of %s is not signed: %v", i, c.Node, err)
		}
		if c.Node != signers[i] {
			t.Errorf("certificate %d is of %s", i, c.Node)
		}
		key = c.IDPub
	}
	if len(p.Certs) != len(signers) || record.VerifyHead(p.Cluster, p.Head, key) != nil {
		t.Errorf("%d certificates, want %v; head %+v", len(p.Certs), signers, p.Head)
	}
	if last := p.Events[len(p.Events)-1]; last.Seq == p.Head.Seq && last.Hash != p.Head.Hash {
		t.Errorf("the head signs %s, the chain ends with %s", p.Head.Hash, last.Hash)
	}
}

// TestProof proves events of the own chain and of another host's, in the middle of a
// group and at its end, to somebody who knows the root key.
func TestProof(t *testing.T) {
	chains := map[event.SourceID]chain{
		n1: newChain(t, n1, keyOf(1), 9, []byte(`{"a":1}`), 4, 5, 9),
		n2: newChain(t, n2, keyOf(2), 6, []byte(`{}`), 6),
	}
	done := time.Now()
	p, reads := proofs(t, chains, &api.LogCheck{EndedAt: &done, Result: &api.LogVerify{OK: true, Sources: []api.LogSource{{Source: n1, Seq: 5}}}})
	for _, c := range []struct {
		src     event.SourceID
		seq     uint64
		events  int
		checked bool
		signers []cluster.NodeID
	}{
		{n1, 1, 4, true, []cluster.NodeID{"n1"}},
		{n1, 3, 2, true, []cluster.NodeID{"n1"}},
		{n1, 5, 1, true, []cluster.NodeID{"n1"}},
		{n1, 6, 4, false, []cluster.NodeID{"n1"}},
		{n2, 2, 5, false, []cluster.NodeID{"n2", "n1"}},
	} {
		got, err := p.Proof(t.Context(), c.src, c.seq)
		if err != nil || len(got.Events) != c.events || (got.Checked != nil) != c.checked {
			t.Fatalf("%s %d: %d events, checked %+v, %v", c.src, c.seq, len(got.Events), got.Checked, err)
		}
		verify(t, got, c.src, c.seq, c.signers...)
	}
	if *reads != 1 {
		t.Errorf("records were read %d times", *reads)
	}
	if got, err := p.Proof(t.Context(), n1, 7); err != nil || !bytes.HasSuffix(got.Events[0].Raw, []byte(`{"a":1}`)) {
		t.Errorf("%+v %v", got, err)
	}
}

// TestAbsent asks for what is not there.
func TestAbsent(t *testing.T) {
	p, _ := proofs(t, map[event.SourceID]chain{n2: newChain(t, n2, keyOf(2), 2, nil, 2)}, nil)
	for _, c := range []struct {
		src  event.SourceID
		seq  uint64
		code api.Code
		says string
	}{
		{n2, 3, api.CodeNotFound, "has 2"},
		{n2, 1 << 63, api.CodeNotFound, "has 2"},
		{n1, 1, api.CodeNotFound, "no event of n1/1"},
		{event.SourceID{Node: "n2", Inc: 4}, 1, api.CodeNotFound, "no event of n2/4"},
		{n2, 1, api.CodeCompacted, "n2/3"},
	} {
		_, err := p.Proof(t.Context(), c.src, c.seq)
		if got, ok := errors.AsType[*api.Problem](err); !ok || got.Code != c.code || !strings.Contains(got.Detail, c.says) {
			t.Errorf("%s %d: %v", c.src, c.seq, err)
		}
	}
}

// TestBounds has a group that is larger than an answer: it ends with a whole event, and
// the rest is asked for by the number that comes next.
func TestBounds(t *testing.T) {
	body := []byte(`{"a":"` + strings.Repeat("x", 300<<10) + `"}`)
	p, _ := proofs(t, map[event.SourceID]chain{n1: newChain(t, n1, keyOf(1), 8, body, 8)}, nil)
	var seen []uint64
	for next := uint64(1); next <= 8; {
		got, err := p.Proof(t.Context(), n1, next)
		if err != nil || got.Head.Seq != 8 || len(got.Events) == 0 || len(got.Events) > 3 {
			t.Fatalf("from %d: %d events up to %d, %v", next, len(got.Events), got.Head.Seq, err)
		}
		verify(t, got, n1, next, "n1")
		for _, e := range got.Events {
			seen, next = append(seen, e.Seq), e.Seq+1
		}
	}
	if len(seen) != 8 {
		t.Errorf("events %v", seen)
	}
	huge := []byte(`{"a":"` + strings.Repeat("x", 2<<20) + `"}`)
	p, _ = proofs(t, map[event.SourceID]chain{n1: newChain(t, n1, keyOf(1), 2, huge, 2)}, nil)
	if got, err := p.Proof(t.Context(), n1, 1); err != nil || len(got.Events) != 1 {
		t.Errorf("one that is larger than an answer: %d events, %v", len(got.Events), err)
	}
}

// TestUncertified: without the certificate of the key there is none, and not another.
func TestUncertified(t *testing.T) {
	p, _ := proofs(t, map[event.SourceID]chain{
		n1: newChain(t, n1, keyOf(7), 1, nil, 1),
		n2: newChain(t, n2, keyOf(3), 2, nil, 2),
	}, nil)
	if got, err := p.Proof(t.Context(), n1, 1); err != nil || len(got.Certs) != 0 || got.Certs == nil {
		t.Errorf("certificates %q, %v", got.Certs, err)
	}
	got, err := p.Proof(t.Context(), n2, 2)
	if err != nil {
		t.Fatal(err)
	}
	verify(t, got, n2, 2, "n2", "n1")
}

// TestChecked says what the last check of the whole log found, if it came so far.
func TestChecked(t *testing.T) {
	at := time.Now()
	for name, c := range map[string]struct {
		check *api.LogCheck
		want  *api.EventCheck
	}{
		"none":         {nil, nil},
		"running":      {&api.LogCheck{Running: true}, nil},
		"gave up":      {&api.LogCheck{EndedAt: &at, Error: "disk"}, nil},
		"came so far":  {&api.LogCheck{EndedAt: &at, Result: &api.LogVerify{OK: true, Sources: []api.LogSource{{Source: n1, Seq: 7}}}}, &api.EventCheck{At: at, OK: true}},
		"not so far":   {&api.LogCheck{EndedAt: &at, Result: &api.LogVerify{OK: true, Sources: []api.LogSource{{Source: n1, Seq: 6}}}}, nil},
		"another's":    {&api.LogCheck{EndedAt: &at, Result: &api.LogVerify{OK: true, Sources: []api.LogSource{{Source: n2, Seq: 9}}}}, nil},
		"found damage": {&api.LogCheck{EndedAt: &at, Result: &api.LogVerify{Problem: "rot"}}, &api.EventCheck{At: at, Problem: "rot"}},
	} {
		got := checked(c.check, n1, 7)
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
