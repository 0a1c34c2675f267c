package snapshot

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

const here = "c1"

func keyOf(n cluster.NodeID) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(n))
	return ed25519.NewKeyFromSeed(seed[:])
}

func pubOf(n cluster.NodeID) ed25519.PublicKey {
	if strings.HasPrefix(string(n), "unknown") {
		return nil
	}
	return keyOf(n).Public().(ed25519.PublicKey)
}

func head(node cluster.NodeID, seq uint64) event.Head {
	return event.Head{Source: event.SourceID{Node: node, Inc: 1}, Seq: seq, Hash: cluster.Hash{byte(seq)}, Sig: make([]byte, 64)}
}

// taken returns a valid snapshot of three events, signed by the given hosts.
func taken(signers ...cluster.NodeID) *event.SnapshotTaken {
	s := &event.SnapshotTaken{
		Term: 3, Clock: 77, Size: 5, Sum: sha256.Sum256([]byte("state")), State: cluster.Hash{9},
		Heads: []event.Head{head("a", 1), head("b", 2)},
	}
	s.ID = ID(here, s)
	for _, n := range signers {
		s.Signatures = Add(s.Signatures, Sign(here, s.ID, n, keyOf(n)))
	}
	return s
}

// TestGoldenID holds the form of what is signed: the id was computed by another
// program from docs/log-format.md.
func TestGoldenID(t *testing.T) {
	const want = "31d6fac2f9d68cbe9429acd873c65f985e479f9ff14387b8fac7a637e44a97c1"
	if id := taken().ID.String(); id != want {
		t.Errorf("id %s, want %s", id, want)
	}
}

// TestIDCoversEverything changes each field; the id must follow, and a
// snapshot with the old id must be refused.
func TestIDCoversEverything(t *testing.T) {
	for name, change := range map[string]func(*event.SnapshotTaken){
		"term":        func(s *event.SnapshotTaken) { s.Term++ },
		"clock":       func(s *event.SnapshotTaken) { s.Clock++ },
		"previous":    func(s *event.SnapshotTaken) { s.Previous[0]++ },
		"size":        func(s *event.SnapshotTaken) { s.Size++ },
		"sum":         func(s *event.SnapshotTaken) { s.Sum[31]++ },
		"state":       func(s *event.SnapshotTaken) { s.State[0]++ },
		"source":      func(s *event.SnapshotTaken) { s.Heads[1].Source.Node = "c" },
		"incarnation": func(s *event.SnapshotTaken) { s.Heads[1].Source.Inc++ },
		"seq":         func(s *event.SnapshotTaken) { s.Heads[0].Seq++ },
		"hash":        func(s *event.SnapshotTaken) { s.Heads[0].Hash[5]++ },
		"one less":    func(s *event.SnapshotTaken) { s.Heads = s.Heads[:1] },
		"fork": func(s *event.SnapshotTaken) {
			s.Heads[0].Sig, s.Forks = nil, []event.SourceFork{{Source: s.Heads[0].Source, Seq: 2}}
		},
	} {
		s := taken("a")
		if err := Validate(here, s); err != nil {
			t.Fatal(err)
		}
		change(s)
		if ID(here, s) == s.ID {
			t.Errorf("%s: the id is the same", name)
		}
		if err := Validate(here, s); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	if err := Validate("c2", taken("a")); !errors.Is(err, ErrInvalid) {
		t.Errorf("valid in another cluster: %v", err)
	}
}

func TestValidateRefuses(t *testing.T) {
	for name, change := range map[string]func(*event.SnapshotTaken){
		"no term":           func(s *event.SnapshotTaken) { s.Term = 0 },
		"empty state":       func(s *event.SnapshotTaken) { s.Size = 0 },
		"huge state":        func(s *event.SnapshotTaken) { s.Size = MaxSize + 1 },
		"negative state":    func(s *event.SnapshotTaken) { s.Size = -1 },
		"no cut":            func(s *event.SnapshotTaken) { s.Heads = nil },
		"unsorted":          func(s *event.SnapshotTaken) { slices.Reverse(s.Heads) },
		"repeated":          func(s *event.SnapshotTaken) { s.Heads[1] = s.Heads[0] },
		"seq 0":             func(s *event.SnapshotTaken) { s.Heads[0].Seq = 0 },
		"bad name":          func(s *event.SnapshotTaken) { s.Heads[0].Source.Node = "A!" },
		"unsigned head":     func(s *event.SnapshotTaken) { s.Heads[0].Sig = nil },
		"signed fork":       func(s *event.SnapshotTaken) { s.Forks = []event.SourceFork{{Source: s.Heads[0].Source, Seq: 2}} },
		"fork at 0":         func(s *event.SnapshotTaken) { s.Forks = []event.SourceFork{{Source: head("z", 1).Source}} },
		"short signature":   func(s *event.SnapshotTaken) { s.Signatures[0].Sig = s.Signatures[0].Sig[:63] },
		"unsorted signers":  func(s *event.SnapshotTaken) { slices.Reverse(s.Signatures) },
		"repeated signer":   func(s *event.SnapshotTaken) { s.Signatures[1] = s.Signatures[0] },
		"signer's bad name": func(s *event.SnapshotTaken) { s.Signatures[0].Node = "" },
		"too many signers": func(s *event.SnapshotTaken) {
			for _, n := range []cluster.NodeID{"c", "d", "e", "f", "g", "h"} {
				s.Signatures = Add(s.Signatures, Sign(here, s.ID, n, keyOf(n)))
			}
		},
		"too many sources": func(s *event.SnapshotTaken) { s.Heads = make([]event.Head, MaxSources+1) },
	} {
		s := taken("a", "b")
		change(s)
		s.ID = ID(here, s)
		if err := Validate(here, s); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

func TestCheckCountsVotersOnly(t *testing.T) {
	voters := []cluster.NodeID{"a", "b", "c"}
	forged := func(s *event.SnapshotTaken, n cluster.NodeID) *event.SnapshotTaken {
		s.Signatures = Add(s.Signatures, Sign(here, s.ID, n, keyOf("x")))
		return s
	}
	elsewhere := taken("a")
	elsewhere.Signatures = Add(elsewhere.Signatures, Sign("c2", elsewhere.ID, "b", keyOf("b")))
	other := taken("a")
	other.Signatures = Add(other.Signatures, Sign(here, cluster.Hash{1}, "b", keyOf("b")))
	for name, tc := range map[string]struct {
		s    *event.SnapshotTaken
		q    Quorum
		want error
	}{
		"majority":            {taken("a", "c"), Quorum{Voters: voters}, nil},
		"all":                 {taken("a", "b", "c"), Quorum{Voters: voters, All: true}, nil},
		"one voter":           {taken("a"), Quorum{Voters: voters[:1]}, nil},
		"too few":             {taken("a"), Quorum{Voters: voters}, ErrSignatures},
		"none":                {taken(), Quorum{Voters: voters}, ErrSignatures},
		"not all":             {taken("a", "b"), Quorum{Voters: voters, All: true}, ErrSignatures},
		"no voters":           {taken("a", "b"), Quorum{}, ErrSignatures},
		"signers do not vote": {taken("a", "x", "y"), Quorum{Voters: voters}, ErrSignatures},
		"half of four":        {taken("a", "b"), Quorum{Voters: []cluster.NodeID{"a", "b", "c", "d"}}, ErrSignatures},
		"key unknown":         {taken("a", "unknown1"), Quorum{Voters: []cluster.NodeID{"a", "unknown1"}}, ErrSignatures},
		"forged":              {forged(taken("a", "b"), "c"), Quorum{Voters: voters}, ErrForged},
		"other cluster":       {elsewhere, Quorum{Voters: voters}, ErrForged},
		"other snapshot":      {other, Quorum{Voters: voters}, ErrForged},
		"forged by no voter":  {forged(taken("a", "b"), "x2"), Quorum{Voters: voters}, nil},
	} {
		if _, err := Check(here, tc.s, tc.q, pubOf); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

func TestCovers(t *testing.T) {
	of := func(heads ...event.Head) *event.SnapshotTaken { return &event.SnapshotTaken{Heads: heads} }
	other := head("a", 2)
	other.Hash[9]++
	for name, tc := range map[string]struct {
		a, b *event.SnapshotTaken
		want bool
	}{
		"itself":      {of(head("a", 2)), of(head("a", 2)), true},
		"more":        {of(head("a", 3), head("b", 1)), of(head("a", 2)), true},
		"nothing":     {of(head("a", 1)), of(), true},
		"less":        {of(head("a", 1)), of(head("a", 2)), false},
		"other chain": {of(head("b", 9)), of(head("a", 1)), false},
		"crossed":     {of(head("a", 3), head("b", 1)), of(head("a", 2), head("b", 2)), false},
		"other hash":  {of(head("a", 2)), of(other), false},
	} {
		if got := Covers(tc.a, tc.b); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestFileNamesAndText reads back what is written, and refuses every flipped
// byte of the part before the state.
func TestFileNamesAndText(t *testing.T) {
	s := taken("a", "b")
	events, id, ok := ParseFileName(FileName(s))
	if !ok || events != 3 || id != s.ID {
		t.Fatalf("name %s: %d, %s, %t", FileName(s), events, id, ok)
	}
	for _, name := range []string{"", "manifest", FileName(s) + "x", "1-" + s.ID.String() + Suffix, strings.ToUpper(FileName(s))} {
		if _, _, ok := ParseFileName(name); ok {
			t.Errorf("%q is taken for a snapshot", name)
		}
	}
	b, err := AppendMeta(nil, s)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeMeta(here, b)
	if err != nil || ID(here, got) != s.ID || len(got.Signatures) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= 0x20
		if _, err := DecodeMeta(here, bad); !errors.Is(err, ErrInvalid) {
			t.Fatalf("byte %d flipped: %v", i, err)
		}
		if _, err := DecodeMeta(here, b[:i]); !errors.Is(err, ErrInvalid) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
	if err := CheckState(s, []byte("state")); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "stat", "State", "state1"} {
		if err := CheckState(s, []byte(bad)); !errors.Is(err, ErrInvalid) {
			t.Errorf("state %q: %v", bad, err)
		}
	}
}

func testManifest() *Manifest {
	src := event.SourceID{Node: "a", Inc: 1}
	m := &Manifest{Cluster: here}
	m = m.With(map[event.SourceID]event.Mark{src: {Seq: 10, Hash: cluster.Hash{1}}}, []Dropped{
		{Source: src, First: 1, Last: 10, Hash: cluster.Hash{1}, Size: 100},
	})
	return m.With(map[event.SourceID]event.Mark{src: {Seq: 25, Hash: cluster.Hash{2}}, {Node: "b", Inc: 2}: {Seq: 7}}, []Dropped{
		{Source: src, First: 11, Last: 25, Prev: cluster.Hash{1}, Hash: cluster.Hash{2}, Size: 100},
	})
}

func TestManifest(t *testing.T) {
	m := testManifest()
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeManifest(here, b)
	if err != nil || got.Base(event.SourceID{Node: "a", Inc: 1}).Seq != 25 || len(got.Segments) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= 1
		if _, err := DecodeManifest(here, bad); !errors.Is(err, ErrInvalid) {
			t.Fatalf("byte %d flipped: %v", i, err)
		}
	}
	for name, change := range map[string]func(*Manifest){
		"other cluster": func(m *Manifest) { m.Cluster = "c2" },
		"unsorted":      func(m *Manifest) { slices.Reverse(m.Bases) },
		"base 0":        func(m *Manifest) { m.Bases[1].Seq = 0 },
		"beyond base":   func(m *Manifest) { m.Segments[1].Last = 26 },
		"hash of base":  func(m *Manifest) { m.Segments[1].Hash[0]++ },
		"broken chain":  func(m *Manifest) { m.Segments[1].Prev[0]++ },
		"overlap":       func(m *Manifest) { m.Segments[1].First = 10 },
		"backward":      func(m *Manifest) { m.Segments[1].First = 26 },
	} {
		m := testManifest()
		change(m)
		b, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeManifest(here, b); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

// FuzzDecode reads texts of snapshots. What it takes must mean the same when
// it is written again.
func FuzzDecode(f *testing.F) {
	for _, s := range []*event.SnapshotTaken{taken(), taken("a", "b")} {
		text, err := json.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Decode(here, b)
		if err != nil {
			return
		}
		meta, err := AppendMeta(nil, s)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeMeta(here, meta)
		if err != nil || again.ID != s.ID || !Covers(again, s) || !Covers(s, again) {
			t.Fatalf("%+v, %v", again, err)
		}
		_, _ = Check(here, s, Quorum{Voters: []cluster.NodeID{"a", "b"}}, pubOf)
	})
}

// FuzzFile reads the part of a snapshot file before the state.
func FuzzFile(f *testing.F) {
	b, err := AppendMeta(nil, taken("a"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:PreambleLen()])
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, err := MetaLen(b); err == nil && n > MaxMeta+PreambleLen() {
			t.Fatalf("length %d", n)
		}
		if s, err := DecodeMeta(here, b); err == nil && Validate(here, s) != nil {
			t.Fatal("decoded and invalid")
		}
	})
}

// FuzzManifest reads manifests.
func FuzzManifest(f *testing.F) {
	b, err := testManifest().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeManifest(here, b)
		if err != nil {
			return
		}
		again, err := m.Encode()
		if err == nil {
			_, err = DecodeManifest(here, again)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}
