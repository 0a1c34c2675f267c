package segment

import "sort"

// IndexStep is the least distance of two entries of an Index.
const IndexStep = 64 << 10

// Entry is the position of an event that starts a commit group, or lies in a
// long one.
type Entry struct {
	Seq uint64
	Off int64
}

// Index finds events in a segment: rising, from the first event on.
type Index []Entry

// Add notes a position, unless the last one is near enough.
func (x *Index) Add(e Entry) {
	if n := len(*x); n == 0 || e.Off-(*x)[n-1].Off >= IndexStep {
		*x = append(*x, e)
	}
}

// Seek returns the last position at or before seq.
func (x Index) Seek(seq uint64) Entry {
	i := sort.Search(len(x), func(i int) bool { return x[i].Seq > seq })
	if i == 0 {
		return Entry{}
	}
	return x[i-1]
}

// Below returns the positions below off.
func (x Index) Below(off int64) Index {
	n := len(x)
	for n > 0 && x[n-1].Off >= off {
		n--
	}
	return x[:n]
}
