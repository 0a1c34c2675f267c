package order

// Element is an element of a heap: it knows its order and its place, 1 more than
// its index; 0: it is in none.
type Element[T any] interface {
	Before(T) bool
	Place() *int
}

// Heap is a binary heap whose elements can be moved and removed.
type Heap[T Element[T]] struct{ items []T }

// Items returns the elements, the least of them first. The caller must not change
// the slice.
func (h *Heap[T]) Items() []T { return h.items }

// Least returns the first element, if there is one.
func (h *Heap[T]) Least() (x T, ok bool) {
	if len(h.items) > 0 {
		return h.items[0], true
	}
	return x, false
}

// Misplaced finds an element that is not where it belongs; below 0: there is none.
func (h *Heap[T]) Misplaced() int {
	for i, x := range h.items {
		if *x.Place() != i+1 || i > 0 && x.Before(h.items[(i-1)/2]) {
			return i
		}
	}
	return -1
}

// Fix puts x in, or where it belongs after its order changed.
func (h *Heap[T]) Fix(x T) {
	at := x.Place()
	if *at == 0 {
		h.items = append(h.items, x)
		*at = len(h.items)
	}
	if !h.up(*at - 1) {
		h.down(*at - 1)
	}
}

// Remove takes x out, if it is in.
func (h *Heap[T]) Remove(x T) {
	i := *x.Place() - 1
	if i < 0 {
		return
	}
	*x.Place() = 0
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

func (h *Heap[T]) put(i int, x T) {
	h.items[i] = x
	*x.Place() = i + 1
}

func (h *Heap[T]) up(i int) (moved bool) {
	x := h.items[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !x.Before(h.items[parent]) {
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

func (h *Heap[T]) down(i int) {
	x := h.items[i]
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if right := child + 1; right < len(h.items) && h.items[right].Before(h.items[child]) {
			child = right
		}
		if !h.items[child].Before(x) {
			break
		}
		h.put(i, h.items[child])
		i = child
	}
	h.put(i, x)
}
