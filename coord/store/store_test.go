package store

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/election"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/lease"
)

func TestFile(t *testing.T) {
	dir := t.TempDir()
	s := New(dir, member.ClusterID{1}, "host-a")
	if _, found, err := s.LoadVote(); found || err != nil {
		t.Fatalf("empty directory: %t, %v", found, err)
	}
	want := lease.VoteRecord{PromisedTerm: 7, PromisedTo: "host-b", Config: cluster.VoterConfig{
		Epoch: 3, Term: 6, Voters: []cluster.NodeID{"host-a", "host-b"}, Mode: cluster.ModeAvailable,
	}}
	if err := s.SaveVote(want); err != nil {
		t.Fatal(err)
	}
	got, found, err := s.LoadVote()
	if !found || err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("loaded %+v, %t, %v", got, found, err)
	}
	name := filepath.Join(dir, "vote.json")
	good, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	// Any damage is an error: a voter must not forget or change its promises.
	for i := range good {
		if i > 1024 && i%61 != 0 {
			continue // the rest is padding
		}
		for _, bad := range [][]byte{good[:i], slices.Concat(good[:i], []byte{good[i] ^ 1}, good[i+1:])} {
			if err := os.WriteFile(name, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			v, found, err := s.LoadVote()
			same := err == nil && found && reflect.DeepEqual(v, want)
			if !same && !errors.Is(err, election.ErrVoteLost) {
				t.Fatalf("damage at %d: %+v, %t, %v", i, v, found, err)
			}
			if err != nil && strings.Contains(err.Error(), "invalid character") {
				t.Fatalf("damage at %d is told in the words of a decoder: %v", i, err)
			}
		}
	}
	if err := os.WriteFile(name, good, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, other := range []*File{New(dir, member.ClusterID{2}, "host-a"), New(dir, member.ClusterID{1}, "host-b")} {
		if _, _, err := other.LoadVote(); !errors.Is(err, election.ErrVoteLost) {
			t.Errorf("vote of another host or cluster: %v", err)
		}
	}
	if err := New(filepath.Join(dir, "gone"), member.ClusterID{1}, "host-a").SaveVote(want); err == nil {
		t.Error("saved into a directory that is not there")
	}
	rs := member.Records{Certs: []member.Signed{{Bytes: []byte("c"), Sig: make([]byte, 64)}}}
	if err := s.SaveRecords(rs); err != nil {
		t.Fatal(err)
	}
	data, _, err := durable.Records.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := member.DecodeRecords(data); err != nil || len(back.Certs) != 1 || !back.Certs[0].Equal(rs.Certs[0]) {
		t.Errorf("loaded %+v, %v", back, err)
	}
}

// TestSlots tears the newest write, which leaves the one before, and damages it
// once it was acknowledged, which must not.
func TestSlots(t *testing.T) {
	dir := t.TempDir()
	open := func() *File { return New(dir, member.ClusterID{1}, "host-a") }
	name, count := filepath.Join(dir, voteFile), filepath.Join(dir, writesFile)
	// A record of format 1 is read, and replaced as a whole.
	old := open()
	raw := []byte(`{"promised_term":5}`)
	line, err := json.Marshal(voteOnDisk{Format: 1, Writes: 9, Cluster: old.cluster, Node: old.self, Vote: raw, Sum: sha256.Sum256(raw)})
	if err != nil {
		t.Fatal(err)
	}
	for file, data := range map[string][]byte{name: line, count: []byte("9\n")} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := open()
	v, found, err := s.LoadVote()
	if err != nil || !found || v.PromisedTerm != 5 {
		t.Fatalf("format 1: %+v, %t, %v", v, found, err)
	}
	for term := cluster.Term(10); term <= 13; term++ { // the numbers of the writes
		before, _ := os.ReadFile(count)
		if err := s.SaveVote(lease.VoteRecord{PromisedTerm: term}); err != nil {
			t.Fatal(err)
		}
		if v, _, err := open().LoadVote(); err != nil || v.PromisedTerm != term {
			t.Fatalf("term %d: %+v, %v", term, v, err)
		}
		good, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(count)
		if err != nil {
			t.Fatal(err)
		}
		torn := slices.Clone(good)
		clear(torn[int(term%2)*slotSize+100:][:200])
		for what, c := range map[string]struct {
			count []byte
			lost  bool
		}{
			"torn":                  {before, term == 10}, // nothing is in the other slot
			"damaged":               {after, true},
			"damaged, none counted": {nil, true},
		} {
			for file, data := range map[string][]byte{name: torn, count: c.count} {
				if err := os.WriteFile(file, data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			v, _, err := open().LoadVote()
			if c.lost != errors.Is(err, election.ErrVoteLost) || !c.lost && (err != nil || v.PromisedTerm != term-1) {
				t.Errorf("%s, write %d: %+v, %v", what, term, v, err)
			}
		}
		for file, data := range map[string][]byte{name: good, count: after} {
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Without its file the next record is not saved, the one after is.
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := s.SaveVote(lease.VoteRecord{PromisedTerm: 14}); err == nil {
		t.Error("saved into a file that is gone")
	}
	if err := s.SaveVote(lease.VoteRecord{PromisedTerm: 14}); err != nil {
		t.Error(err)
	}
	if v, _, err := open().LoadVote(); err != nil || v.PromisedTerm != 14 {
		t.Errorf("after that: %+v, %v", v, err)
	}
	many := lease.VoteRecord{Lost: strings.Repeat("x", slotSize)}
	if err := s.SaveVote(many); err == nil {
		t.Error("saved a record that is larger than a slot")
	}
}

func FuzzDecodeVote(f *testing.F) {
	s := New("", member.ClusterID{1}, "host-a")
	f.Add([]byte(`{"format":1,"cluster":"aeaaaaaaaaaaaaaaaaaaaaaaaa","node":"host-a","vote":{},"sha256":"00"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, _, err := s.decodeVote(data)
		if err == nil && !v.Config.IsZero() && v.Config.Validate() != nil {
			t.Errorf("accepted %+v", v)
		}
	})
}
