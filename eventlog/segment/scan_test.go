package segment

import (
	"bytes"
	"crypto/ed25519"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/wire/wiretest"
)

const testCluster = "test-cluster"

func key() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) }

func FuzzSegment(f *testing.F) {
	src := event.SourceID{Node: "n1", Inc: 1}
	events := make([]event.Event, 3)
	for i := range events {
		events[i] = event.Event{Source: src, Seq: uint64(i + 1), HLC: cluster.HLC(i + 1), Kind: "k", Body: []byte("{}")}
	}
	run, _ := wiretest.Run(f, testCluster, key(), cluster.Hash{}, events...)
	p, err := record.AppendHeader(nil, record.Header{Cluster: testCluster, Source: src, First: 1})
	if err != nil {
		f.Fatal(err)
	}
	seg, err := record.AppendFrame([]byte(record.Magic), record.Frame{Type: record.TypeHeader, Base: 1, Payload: p})
	if err != nil {
		f.Fatal(err)
	}
	seg = append(seg, run...)
	f.Add(seg, true)
	f.Add(seg[:len(seg)-5], true)
	f.Add(append(bytes.Clone(seg), make([]byte, 100)...), false)
	f.Fuzz(func(t *testing.T, b []byte, last bool) {
		if b = bytes.Clone(b); len(b) > len(record.Magic) {
			wiretest.Mend(b[len(record.Magic):])
		}
		n := uint64(0)
		s := &Scan{ScanOptions: ScanOptions{Path: "x", Cluster: testCluster, Source: src, First: 1, Last: last, Commit: func(g Group) error {
			for _, e := range g.Events {
				if n++; e.Seq != n {
					t.Fatalf("event %d at place %d", e.Seq, n)
				}
			}
			return nil
		}}}
		if err := s.Run(bytes.NewReader(b), int64(len(b))); err == nil && !s.NoHeader && s.Tail.Seq != n {
			t.Fatalf("tail at %d after %d events", s.Tail.Seq, n)
		}
		if s.End > int64(len(b)) {
			t.Fatalf("end at %d of %d bytes", s.End, len(b))
		}
	})
}
