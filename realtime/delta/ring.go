package delta

// ring keeps the newest frames.
type ring struct {
	limit  int64
	size   int64
	first  uint64 // offset before the first frame
	frames []*Frame
}

func (r *ring) head() uint64 { return r.first + uint64(len(r.frames)) }

func (r *ring) append(f *Frame) {
	r.frames = append(r.frames, f)
	r.size += f.size()
	drop := 0
	for r.size > r.limit {
		r.size -= r.frames[drop].size()
		r.frames[drop] = nil
		drop++
	}
	r.frames, r.first = r.frames[drop:], r.first+uint64(drop)
}

func (r *ring) after(offset uint64, most int) (list []*Frame, ok bool) {
	if offset < r.first || offset > r.head() {
		return nil, false
	}
	list = r.frames[offset-r.first:]
	return list[:min(len(list), most)], true
}
