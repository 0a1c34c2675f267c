package store

import (
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/internal/durable"
)

// TestSeen: what was seen comes back as it was, or not at all.
func TestSeen(t *testing.T) {
	dir := t.TempDir()
	s := New(dir, member.ClusterID{1}, "n1")
	if _, ok := s.LoadSeen(); ok {
		t.Error("an empty directory has seen somebody")
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := Seen{Stopped: at, Heard: map[cluster.NodeID]time.Time{"n2": at.Add(-40 * time.Second), "n3": {}}}
	if err := s.SaveSeen(want); err != nil {
		t.Fatal(err)
	}
	if got, ok := s.LoadSeen(); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("%t %+v", ok, got)
	}
	for _, other := range []*File{New(dir, member.ClusterID{2}, "n1"), New(dir, member.ClusterID{1}, "n2")} {
		if _, ok := other.LoadSeen(); ok {
			t.Errorf("%s of %s took another's", other.self, other.cluster)
		}
	}
	name := durable.Seen.Path(dir)
	good, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		for _, bad := range [][]byte{good[:i], slices.Concat(good[:i], []byte{good[i] ^ 1}, good[i+1:])} {
			if err := os.WriteFile(name, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, ok := s.LoadSeen(); ok && !reflect.DeepEqual(got, want) {
				t.Fatalf("damage at %d: %+v", i, got)
			}
		}
	}
	s.DropSeen()
	if _, ok := s.LoadSeen(); ok {
		t.Error("dropped, and there")
	}
	s.DropSeen()
}

// TestSeenAfter: a start in which nobody was heard does not forget who was heard
// before it.
func TestSeenAfter(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	former := Seen{Stopped: at, Heard: map[cluster.NodeID]time.Time{"n2": at.Add(-time.Hour), "n3": at, "n9": at}}
	now := Seen{Stopped: at.Add(time.Hour), Heard: map[cluster.NodeID]time.Time{"n2": {}, "n3": at.Add(time.Minute), "n4": {}}}
	want := map[cluster.NodeID]time.Time{"n2": at.Add(-time.Hour), "n3": at.Add(time.Minute), "n4": {}}
	if got := now.After(former); !got.Stopped.Equal(now.Stopped) || !reflect.DeepEqual(got.Heard, want) {
		t.Errorf("%+v", got)
	}
}
