package plan

// heaped is an element of a heap: it knows its order and its place, 1 more than
// its index; 0: it is in none.
type heaped[T any] interface {
	before(T) bool
	place() *int
}

// heap is a binary heap whose elements can be moved and removed.
type heap[T heaped[T]] struct{ items []T }

// fix puts x in, or where it belongs after its order changed.
func (h *heap[T]) fix(x T) {
	at := x.place()
	if *at == 0 {
		h.items = append(h.items, x)
		*at = len(h.items)
	}
	if !h.up(*at - 1) {
		h.down(*at - 1)
	}
}

func (h *heap[T]) remove(x T) {
	i := *x.place() - 1
	if i < 0 {
		return
	}
	*x.place() = 0
	last := len(h.items) - 1
	moved := h.items[last]
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	if i == last {
		return
	}
	h.put(i, moved)
	if !h.up(i) {
		h.down(i)
	}
}

func (h *heap[T]) put(i int, x T) {
	h.items[i] = x
	*x.place() = i + 1
}

func (h *heap[T]) up(i int) (moved bool) {
	x := h.items[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !x.before(h.items[parent]) {
			break
		}
		h.put(i, h.items[parent])
		i, moved = parent, true
	}
	if moved {
		h.put(i, x)
	}
	return moved
}

func (h *heap[T]) down(i int) {
	x := h.items[i]
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if right := child + 1; right < len(h.items) && h.items[right].before(h.items[child]) {
			child = right
		}
		if !h.items[child].before(x) {
			break
		}
		h.put(i, h.items[child])
		i = child
	}
	h.put(i, x)
}
