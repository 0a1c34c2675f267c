package index

import (
	"errors"
	"io/fs"
	"math"
	"sort"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/store"
)

// Find returns where the events about something may be. What it returns is for
// one goroutine, and knows what the log holds when a chain is first asked for.
func (k *Keeper) Find(about event.Subject) store.Find {
	var hashes []uint64
	for _, n := range about.Names() {
		hashes = append(hashes, hashOf(n.Part, []byte(n.Text)))
	}
	chains := map[event.SourceID][]span{}
	return func(src event.SourceID, seq uint64) (uint64, int64) {
		list, asked := chains[src]
		if !asked {
			list = k.chain(src, seq, hashes)
			chains[src] = list
		}
		i := sort.Search(len(list), func(i int) bool { return list[i].last >= seq })
		if at := list[i]; at.first >= seq {
			return at.first, at.off
		}
		return seq, 0
	}
}

// chain lists where in a chain, from seq on, the events may be; the last span has
// no end, for what comes later.
func (k *Keeper) chain(src event.SourceID, seq uint64, hashes []uint64) (out []span) {
	next := seq
	for _, s := range k.o.Log.Segments(src) {
		next = s.Last + 1
		if s.Last < seq {
			continue
		}
		list, err := k.segment(s, hashes)
		if err != nil {
			list = []span{{first: s.First, last: s.Last}}
		}
		out = append(out, list...)
	}
	return append(out, span{first: next, last: math.MaxUint64})
}

func (k *Keeper) segment(s store.Segment, hashes []uint64) (list []span, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t := k.tails[s.Source]; !s.Sealed || t.of(s) {
		t, err := k.tail(s)
		if err != nil {
			return nil, err
		}
		return spans(t, t.blocks, s.Last, hashes)
	}
	path := k.path(s)
	err = k.with(s, path, func(o *opened) (err error) {
		list, err = spans(o, o.blocks, s.Last, hashes)
		return err
	})
	if err != nil && k.kept[path] && (errors.Is(err, errDamaged) || errors.Is(err, fs.ErrNotExist)) {
		delete(k.kept, path)
		select {
		case k.wake <- struct{}{}:
		default:
		}
	}
	return list, err
}
