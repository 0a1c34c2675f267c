package runs

import (
	"context"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/flow"
	decide "github.com/skein-project/skein/scheduler/flow"
)

const (
	// findTime bounds one look at all hosts, findAgain is when hosts are asked again for what
	// none of them had, lostAfter when that is lost although some could not be asked: as
	// long as a host may be silent before it counts as dead.
	findTime  = 15 * time.Second
	findAgain = 5 * time.Second
	lostAfter = 2 * time.Minute
	// seenFor is how long it is believed that a file is there, as many steps that begin
	// together are given the same, maxSeen of how many files that is known.
	seenFor = 5 * time.Second
	maxSeen = 1 << 14
)

// Find says which of some files are on no host that can be asked; sure says that there is
// no other host.
type Find func(ctx context.Context, files []cluster.Hash) (absent []cluster.Hash, sure bool)

// search is for the files of a try.
type search struct {
	run   flow.RunID
	name  decide.Name
	files []cluster.Hash
	fresh bool      // what was there a moment ago may have gone since
	since time.Time // when they were not found at first
}

// finder looks for files. What is not found is looked for until it is, or is lost.
type finder struct {
	find Find // nil: all files are there
	in   chan search
	out  chan<- Stored
	seen map[cluster.Hash]time.Time // when a file was there, at most maxSeen
}

func newFinder(find Find, out chan<- Stored) *finder {
	return &finder{find: find, in: make(chan search, maxDocs), out: out, seen: make(map[cluster.Hash]time.Time)}
}

// put hands a search over, if there is room.
func (f *finder) put(s search) bool {
	select {
	case f.in <- s:
		return true
	default:
		return false
	}
}

// run looks for files until ctx ends.
func (f *finder) run(ctx context.Context) {
	var open []search
	var again <-chan time.Time // nil: nothing is to be asked for again
	for {
		if again == nil && len(open) > 0 {
			again = time.After(findAgain)
		}
		in := f.in
		if len(open) >= maxDocs {
			in = nil
		}
		var look []search
		select {
		case s := <-in:
			look = []search{s}
		case <-again:
			look, open, again = open, nil, nil
		case <-ctx.Done():
			return
		}
		for _, s := range look {
			answer, ok := f.look(ctx, &s)
			if !ok {
				open = append(open, s)
				continue
			}
			select {
			case f.out <- answer:
			case <-ctx.Done():
				return
			}
		}
	}
}

// unseen are the files of a search that were not there a moment ago.
func (f *finder) unseen(s *search) (out []cluster.Hash) {
	for _, h := range s.files {
		if at, ok := f.seen[h]; ok && !s.fresh && time.Since(at) < seenFor {
			continue
		}
		delete(f.seen, h)
		out = append(out, h)
	}
	return out
}

// look asks once; false: it is to be asked again.
func (f *finder) look(ctx context.Context, s *search) (Stored, bool) {
	within, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	absent, sure := f.find(within, f.unseen(s))
	if len(f.seen)+len(s.files) > maxSeen {
		clear(f.seen)
	}
	for _, h := range s.files {
		if _, known := f.seen[h]; !known && !slices.Contains(absent, h) {
			f.seen[h] = time.Now()
		}
	}
	if len(absent) > 0 && !sure {
		if s.since.IsZero() {
			s.since = time.Now()
		}
		if time.Since(s.since) < lostAfter {
			return Stored{}, false
		}
	}
	return Stored{run: s.run, name: s.name, looked: true, lost: absent}, true
}
