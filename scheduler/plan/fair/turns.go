package fair

import "slices"

// Turns is who may use the one place of something, and who waits for it: owners come
// in turn, and each owner's in the order in which they asked. It is bounded, and a
// pure value like the rest.
type Turns struct {
	Most, Each int // that wait, and those of one owner

	owner string   // who has the place, while busy
	busy  bool     // it is taken
	line  []string // owners with some that wait; the first is next
	waits map[string][]uint64
	count int // that wait
}

// Ask takes the place for id of owner, or a place in the line. It is not ok where
// that is full; id then waits for nothing.
func (t *Turns) Ask(owner string, id uint64) (now, ok bool) {
	switch {
	case !t.busy:
		t.owner, t.busy = owner, true
		return true, true
	case t.count >= t.Most, len(t.waits[owner]) >= t.Each:
		return false, false
	}
	if t.waits == nil {
		t.waits = make(map[string][]uint64)
	}
	if len(t.waits[owner]) == 0 {
		t.line = append(t.line, owner)
	}
	t.waits[owner] = append(t.waits[owner], id)
	t.count++
	return false, true
}

// Done gives the place up, and to the next one if some wait.
func (t *Turns) Done() (id uint64, next bool) {
	if len(t.line) == 0 {
		t.owner, t.busy = "", false
		return 0, false
	}
	first := 0
	if t.Others() && t.line[0] == t.owner { // it had its turn just now
		first = 1
	}
	t.owner = t.line[first]
	id = t.waits[t.owner][0]
	t.drop(t.owner, 0)
	if len(t.waits[t.owner]) > 0 { // behind those that have had none since
		t.line = append(slices.Delete(t.line, first, first+1), t.owner)
	}
	return id, true
}

// Leave takes id of owner out of the line. It returns false if it does not wait: it
// has the place, or had none.
func (t *Turns) Leave(owner string, id uint64) bool {
	i := slices.Index(t.waits[owner], id)
	if i < 0 {
		return false
	}
	t.drop(owner, i)
	return true
}

func (t *Turns) drop(owner string, i int) {
	t.count--
	if t.waits[owner] = slices.Delete(t.waits[owner], i, i+1); len(t.waits[owner]) == 0 {
		delete(t.waits, owner)
		t.line = slices.Delete(t.line, slices.Index(t.line, owner), slices.Index(t.line, owner)+1)
	}
}

// Others reports whether another owner waits than the one that has the place.
func (t *Turns) Others() bool {
	return len(t.line) > 1 || len(t.line) == 1 && t.line[0] != t.owner
}
