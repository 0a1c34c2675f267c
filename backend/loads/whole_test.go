package loads

import (
	"testing"
	"time"

	"github.com/skein-project/skein/load/stat"
)

// TestWholeSeconds: hosts tell what they counted one after the other, and followers are told of each
// second once, with all hosts in it. One that tells nothing is waited for a second, once, and what it
// tells later comes with the next.
func TestWholeSeconds(t *testing.T) {
	m := newMany(t, 3, 1, 1)
	const each = 20 // requests of a host in a second
	tell := func(i, second int) {
		p := m.d.parts[i]
		f := stat.Frame{First: p.shelf.Next(), Last: p.shelf.Next(), At: 10 * second, Span: 10, Bank: m.texts[0]}
		if err := p.shelf.Put(f); err != nil {
			t.Fatal(err)
		}
		p.pending = append(p.pending, f)
	}
	after := ""
	hears := func(what string, at, seconds float64, requests uint64) {
		t.Helper()
		m.j.advance(m.now, false)
		x, more, _ := m.d.since(after)
		after = x.Next
		if n := x.Steps[0].Requests; more != (requests > 0) || n != requests || more && (x.At != at || x.Seconds != seconds) || x.Again {
			t.Errorf("%s: %d requests of %g s up to %g, want %d of %g s up to %g", what, n, x.Seconds, x.At, requests, seconds, at)
		}
	}
	after = "0.0.0"
	tell(0, 1)
	hears("one has told", 0, 0, 0)
	tell(2, 1)
	tell(2, 2)
	hears("two have", 0, 0, 0)
	tell(1, 1)
	hears("all have", 1, 1, 3*each)
	tell(0, 2)
	hears("one lacks", 0, 0, 0)
	m.now = m.now.Add(lagging)
	hears("it was waited for", 2, 1, 2*each)
	tell(0, 3)
	tell(2, 3)
	hears("it is not waited for again", 3, 1, 2*each)
	tell(1, 2)
	tell(1, 3)
	tell(1, 4)
	hears("it tells late", 0, 0, 0)
	tell(0, 4)
	tell(2, 4)
	hears("all tell again", 4, 1, 5*each)
	m.now = m.now.Add(time.Minute)
	tell(0, 5)
	hears("one is waited for again", 0, 0, 0)
}
