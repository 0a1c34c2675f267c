package coord

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/lease"
)

func TestFileStore(t *testing.T) {
	dir := t.TempDir()
	s := NewFileStore(dir, member.ClusterID{1}, "host-a")
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
			if !same && !errors.Is(err, ErrVoteLost) && !errors.Is(err, ErrVoteFile) {
				t.Fatalf("damage at %d: %+v, %t, %v", i, v, found, err)
			}
		}
	}
	if err := os.WriteFile(name, good, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, other := range []*FileStore{NewFileStore(dir, member.ClusterID{2}, "host-a"), NewFileStore(dir, member.ClusterID{1}, "host-b")} {
		if _, _, err := other.LoadVote(); !errors.Is(err, ErrVoteFile) {
			t.Errorf("vote of another host or cluster: %v", err)
		}
	}
	if err := NewFileStore(filepath.Join(dir, "gone"), member.ClusterID{1}, "host-a").SaveVote(want); err == nil {
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
	s := NewFileStore("", member.ClusterID{1}, "host-a")
	f.Add([]byte(`{"format":1,"cluster":"aeaaaaaaaaaaaaaaaaaaaaaaaa","node":"host-a","vote":{},"sha256":"00"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, _, err := s.decodeVote(data)
		if err == nil && !v.Config.IsZero() && v.Config.Validate() != nil {
			t.Errorf("accepted %+v", v)
		}
	})
}

func FuzzDecodeLease(f *testing.F) {
	f.Add([]byte(`{"priority":1,"term":9,"phase":"vote","round":3,"config":{"epoch":1,"term":2,"voters":["a"],"mode":"single"},"profile":"lan"}`), false)
	f.Add([]byte(`{"priority":1,"term":9,"phase":"release","released":{"term":9,"holder":"a","proof":"AA=="}}`), true)
	f.Add([]byte(`{"term":-1}`), false)
	f.Fuzz(func(t *testing.T, data []byte, release bool) {
		kind := wire.TypeLeaseClaim
		if release {
			kind = wire.TypeLeaseRelease
		}
		m, err := decodeLease(kind, data)
		if err != nil {
			if wire.ReasonOf(err) == wire.ReasonParse {
				t.Errorf("refusal without a reason: %v", err)
			}
			return
		}
		if m.Term == 0 || m.Validate() != nil || (m.Phase == lease.ReleaseTerm) != release {
			t.Errorf("accepted %+v", m)
		}
	})
}

func FuzzReadFrame(f *testing.F) {
	var b bytes.Buffer
	if err := writeFrame(&b, pullReply{Records: member.Records{Certs: []member.Signed{{Bytes: []byte("c"), Sig: make([]byte, 64)}}}}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0, 0, 0, 2, '{'})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		var reply pullReply
		if err := readFrame(r, 1<<16, &reply); err != nil {
			return
		}
		if rest, _ := io.ReadAll(r); len(data)-len(rest) > 4+1<<16 {
			t.Errorf("read %d bytes", len(data)-len(rest))
		}
		if n := len(reply.Records.Batches(pullBatch)); n > len(data) {
			t.Errorf("%d batches", n)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	if _, err := New(Options{Self: "host-a"}); err == nil {
		t.Error("empty options accepted")
	}
}
