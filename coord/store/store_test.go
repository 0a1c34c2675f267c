package store

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/election"
	"github.com/skein-project/skein/coord/member"
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
		for _, bad := range [][]byte{good[:i], slices.Concat(good[:i], []byte{good[i] ^ 1}, good[i+1:])} {
			if err := os.WriteFile(name, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			v, found, err := s.LoadVote()
			same := err == nil && found && reflect.DeepEqual(v, want)
			if !same && !errors.Is(err, election.ErrVoteLost) && !errors.Is(err, ErrVoteFile) {
				t.Fatalf("damage at %d: %+v, %t, %v", i, v, found, err)
			}
		}
	}
	if err := os.WriteFile(name, good, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, other := range []*File{New(dir, member.ClusterID{2}, "host-a"), New(dir, member.ClusterID{1}, "host-b")} {
		if _, _, err := other.LoadVote(); !errors.Is(err, ErrVoteFile) {
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
	data, err := os.ReadFile(filepath.Join(dir, recordsFile))
	if err != nil {
		t.Fatal(err)
	}
	if back, err := member.DecodeRecords(data); err != nil || len(back.Certs) != 1 || !back.Certs[0].Equal(rs.Certs[0]) {
		t.Errorf("loaded %+v, %v", back, err)
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
