package replicate

import (
	"context"
	"crypto/ed25519"
	"net"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/eventlog/wire"
	"github.com/skein-project/skein/eventlog/wire/wiretest"
)

const testCluster = "test-cluster"

func key() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) }

// noSnapshots stands for a log without any.
type noSnapshots struct{}

func (noSnapshots) Floor(event.SourceID) event.Mark { return event.Mark{} }
func (noSnapshots) Head(src event.SourceID) event.Head {
	return event.Head{Source: src}
}

// slowWriter stores a run when the test says so.
type slowWriter struct {
	Writer
	w       *store.Writer
	offered chan *wire.Run
	sync    chan struct{} // one token for each run
}

func (s *slowWriter) Offer(_ context.Context, ru *wire.Run) (func(context.Context) error, error) {
	s.offered <- ru
	return func(ctx context.Context) error {
		select {
		case <-s.sync:
		case <-ctx.Done():
			return ctx.Err()
		}
		var b store.Batch
		if err := s.w.StageRun(&b, ru); err != nil {
			return err
		}
		if err := s.w.MakeRoom(b); err != nil {
			return err
		}
		s.w.Launch(b)
		if err := s.w.Flush(b, nil); err != nil {
			return err
		}
		s.w.Show(b)
		return nil
	}, nil
}

// TestPushesAreTakenInAhead pushes runs to a voter whose disk is slow: it takes in
// the later ones meanwhile, acknowledges none before it is on the disk, and each
// with its own end.
func TestPushesAreTakenInAhead(t *testing.T) {
	room, err := disk.NewRoom(disk.Options{Dir: t.TempDir(), FS: disk.OSFS(), SourceRate: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	keyOf := func(cluster.NodeID) ed25519.PublicKey { return key().Public().(ed25519.PublicKey) }
	st, w, err := store.Open(store.Options{
		Dir: t.TempDir(), Cluster: testCluster, Self: "b", Incarnation: 1, Key: key(), KeyOf: keyOf, FS: disk.OSFS(), Room: room,
		SegmentSize: 1 << 20, Prealloc: 1 << 16, Shown: func(event.SourceID, []event.Event, int64) {}, Logger: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Recover(store.Recovery{Base: noSnapshots{}, Load: func([]event.Event) {}}); err != nil {
		t.Fatal(err)
	}
	slow := &slowWriter{w: w, offered: make(chan *wire.Run, 8), sync: make(chan struct{}, 8)}
	r, err := New(Options{
		Cluster: testCluster, Self: "b", Store: st, Writer: slow, KeyOf: keyOf, Promised: func() cluster.Term { return 7 },
		Admit: func(cluster.NodeID, int64) (string, error) { return "", nil }, Wall: time.Now, IOTimeout: time.Minute,
		Logger: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	here, there := net.Pipe()
	done := make(chan struct{})
	go func() { r.Serve(t.Context(), "a", there); close(done) }()
	defer func() { here.Close(); <-done }()
	var end event.Mark
	const runs = 3
	for i := range uint64(runs) {
		var b []byte
		b, end = wiretest.Run(t, testCluster, key(), end.Hash, event.Event{
			Source: event.SourceID{Node: "a", Inc: 1}, Seq: i + 1, HLC: cluster.HLC(i + 1), Kind: event.KindHostStarted, Body: []byte(`{}`),
		})
		if err := wire.WriteMessage(here, wire.MsgPush, b); err != nil {
			t.Fatal(err)
		}
	}
	for range runs { // before any is on the disk
		<-slow.offered
	}
	if err := here.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if m, err := wire.ReadMessage(here); err == nil {
		t.Fatalf("answer %d before the run is on the disk", m.Kind)
	}
	if err := here.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(runs) {
		slow.sync <- struct{}{}
		m, err := wire.ReadMessage(here)
		if err != nil || m.Kind != wire.MsgAck {
			t.Fatalf("answer %d, %v", m.Kind, err)
		}
		a, err := wire.DecodeAck(m.Payload)
		if err != nil || a.Mark.Seq != i+1 || a.Promised != 7 {
			t.Fatalf("acknowledged %+v, %v; want seq %d", a, err, i+1)
		}
	}
}
