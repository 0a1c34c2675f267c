package eventlog

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/store"
)

// batched makes the writer take what the calls submit as one batch: it is kept
// busy until all of them are queued.
func batched(t *testing.T, l *Log, calls ...func() error) []error {
	t.Helper()
	held, free := make(chan struct{}), make(chan struct{})
	busy := make(chan error, 1)
	go func() {
		busy <- l.exclusive(context.Background(), urgent, func(*store.Writer) (refused, failed error) {
			close(held)
			<-free
			return nil, nil
		})
	}()
	<-held
	answers := make([]chan error, len(calls))
	for i, call := range calls {
		answers[i] = make(chan error, 1)
		go func() { answers[i] <- call() }()
		eventually(t, "call queued", func() bool {
			l.w.in.mu.Lock()
			defer l.w.in.mu.Unlock()
			return len(l.w.in.urgent)+len(l.w.in.queue) == i+1
		})
	}
	close(free)
	if err := <-busy; err != nil {
		t.Fatal(err)
	}
	out := make([]error, len(calls))
	for i := range answers {
		out[i] = <-answers[i]
	}
	return out
}

// TestRenewTwice asks again for an incarnation that has begun, as two pulls do
// that both find the own chain longer elsewhere. That changes nothing, alone or
// in one batch with an append.
func TestRenewTwice(t *testing.T) {
	o := testOptions(t.TempDir(), "n1")
	l, stop := start(t, o)
	mustAppend(t, l, note(1))
	inc := l.Source().Inc + 1
	renew := func() error { return inbound{l}.Renew(context.Background(), inc, "test") }
	for range 2 {
		if err := renew(); err != nil {
			t.Fatal(err)
		}
	}
	appended := func() error {
		_, err := l.Append(context.Background(), []event.Draft{note(2)})
		return err
	}
	for _, err := range batched(t, l, renew, appended) {
		if err != nil {
			t.Fatal(err)
		}
	}
	last := mustAppend(t, l, note(3))[0]
	if last.Source.Inc != inc || last.Seq != 3 { // after the link and one event
		t.Fatalf("the new chain goes on with %s, event %d", last.Source, last.Seq)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if h := again.Head(last.Source); h.Seq != last.Seq || h.Hash != last.Hash {
		t.Fatalf("head %d after a restart, want %d", h.Seq, last.Seq)
	}
}

// TestFullDiskDoesNotUndoWhatIsDone carries out an exclusive call in one batch
// with an append for which there is no room: only the append is refused.
func TestFullDiskDoesNotUndoWhatIsDone(t *testing.T) {
	ffs := quickFS()
	var full atomic.Bool
	ffs.set(func(op string, _ int) error {
		if op == "preallocate" && full.Load() {
			return syscall.ENOSPC
		}
		return nil
	})
	o := testOptions(t.TempDir(), "n1")
	o.FS, o.SegmentSize = ffs, 4096
	l, stop := start(t, o)
	mustAppend(t, l, note(1))
	full.Store(true)
	did := 0
	errs := batched(t, l,
		func() error {
			return l.exclusive(context.Background(), ordinary, func(*store.Writer) (refused, failed error) {
				did++
				return nil, nil
			})
		},
		func() error {
			_, err := l.Append(context.Background(), []event.Draft{{Kind: event.KindPublishing, Body: event.Publishing{Why: strings.Repeat("x", 10_000)}}})
			return err
		})
	if errs[0] != nil || did != 1 {
		t.Errorf("call carried out %d times: %v", did, errs[0])
	}
	if !errors.Is(errs[1], ErrDiskFull) {
		t.Errorf("append: %v, want ErrDiskFull", errs[1])
	}
	full.Store(false)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}
