package stream

import (
	"cmp"
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// maxFloors bounds how many jobs have a floor; the oldest go first.
const maxFloors = 8192

// mark orders the commands of holders about one job.
type mark struct {
	term cluster.Term
	seq  uint64
}

func (m mark) compare(o mark) int {
	return cmp.Or(cmp.Compare(m.term, o.term), cmp.Compare(m.seq, o.seq))
}

// Floors keeps for each job the last command that was obeyed, also after its
// work is done: a dispatch that the network delivers late must start nothing.
type Floors map[job.ID]mark

// Order is what a command means.
type Order uint8

// Values of Order.
const (
	OrderNew   Order = iota // higher than any before
	OrderAgain              // the same as the last
	OrderStale              // lower: refused
)

// Take says what a command means and raises the floor; one without order (seq
// 0) is new.
func (f Floors) Take(j job.ID, term cluster.Term, seq uint64) Order {
	if seq == 0 {
		return OrderNew
	}
	m := mark{term, seq}
	if have, ok := f[j]; ok {
		switch d := m.compare(have); {
		case d == 0:
			return OrderAgain
		case d < 0:
			return OrderStale
		}
	}
	f[j] = m
	if len(f) > maxFloors {
		jobs := slices.SortedFunc(maps.Keys(f), func(a, b job.ID) int { return f[a].compare(f[b]) })
		for _, old := range jobs[:maxFloors/2] {
			delete(f, old)
		}
	}
	return OrderNew
}
