package eventlog

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/store"
)

// rewinds asks for the moments of all events of a log, in any order and twice, with a
// mark at every event and with few, and compares with replays of the files.
func rewinds(t *testing.T, l *Log) {
	t.Helper()
	defer l.snaps.Hold()() // the files that are compared with must not be dropped meanwhile
	clocks := []cluster.HLC{1}
	for e, err := range l.Between(l.Oldest(), l.Heads()) {
		if err != nil {
			t.Fatal(err)
		}
		clocks = append(clocks, e.HLC)
	}
	clocks = append(clocks, clocks[len(clocks)-1]+1)
	type replayed struct {
		is  audit.Replayed
		err error
	}
	d, of := openDir(t, l), make([]replayed, len(clocks))
	for i, clock := range clocks {
		_, of[i].is, of[i].err = d.ReplayAt(t.Context(), audit.At{Clock: clock})
	}
	for _, every := range []int{1, 7, 1000} {
		r := audit.NewRewind(l, l.snaps.Hold, l.files(), every)
		rnd := rand.New(rand.NewPCG(1, uint64(every)))
		order := append(rnd.Perm(len(clocks)), rnd.Perm(len(clocks))...)
		for i := range clocks { // and as it plays
			order = append(order, i)
		}
		for _, i := range order {
			want, failed := of[i].is, of[i].err
			st, got, err := r.At(t.Context(), clocks[i])
			if failed != nil {
				if !errors.Is(failed, store.ErrCompacted) || err != nil && !errors.Is(err, store.ErrCompacted) {
					t.Fatalf("at %s: %v, and %v of the files", clocks[i], err, failed)
				}
				continue
			}
			if err != nil {
				t.Fatalf("at %s: %v", clocks[i], err)
			}
			if !reflect.DeepEqual(got, want) || st.Hash() != want.StateHash {
				t.Fatalf("a mark each %d events, at %s:\n%+v, of the files\n%+v", every, clocks[i], got, want)
			}
		}
	}
}

// TestRewind looks at a log in which a late term voids what was folded before it.
func TestRewind(t *testing.T) {
	a, b := history(t)
	rewinds(t, a)
	rewinds(t, b)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := a.Rewind().At(ended, 1<<62); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestRewindGoesOn has events come while marks are there, late ones too.
func TestRewindGoesOn(t *testing.T) {
	a, b := history(t)
	r := audit.NewRewind(a, a.snaps.Hold, a.files(), 3)
	at := func(clock cluster.HLC) {
		t.Helper()
		_, want := replay(t, openDir(t, a), audit.At{Clock: clock})
		if _, got, err := r.At(t.Context(), clock); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("at %s: %+v, %v, of the files %+v", clock, got, err, want)
		}
	}
	for i := range 5 {
		now := cluster.NewHLC(a.o.Wall(), 0xffff)
		at(now)
		mustAppend(t, b, note(2000+i)) // is not here yet when a goes on
		mustAppend(t, a, note(3000+i))
		at(now)
		if err := a.Sync(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		at(now)
	}
}

// TestRewindFromSnapshot looks at a log of which a part was dropped.
func TestRewindFromSnapshot(t *testing.T) {
	b, _ := dropped(t)
	rewinds(t, b)
	if _, _, err := b.Rewind().At(t.Context(), cluster.NewHLC(time.Unix(1, 0), 0)); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("before what is kept: %v", err)
	}
}
