package worker

import (
	"bufio"
	"bytes"
	"container/list"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/scheduler/stream"
)

// outbox keeps results until their fate is stable. It has one user, the
// worker's loop.
type outbox struct {
	limit   int
	keepFor time.Duration

	byRef map[stream.Ref]*list.Element // of *kept
	order *list.List                   // oldest first
	bytes int
}

type kept struct {
	res  stream.Result
	size int
	at   time.Time
}

func newOutbox(limit int, keepFor time.Duration) *outbox {
	return &outbox{limit: limit, keepFor: keepFor, byRef: map[stream.Ref]*list.Element{}, order: list.New()}
}

func (o *outbox) len() int { return o.order.Len() }

// full reports that no further chunk may start.
func (o *outbox) full() bool { return o.bytes >= o.limit }

// add keeps res, in the place of an earlier result of the same attempt.
func (o *outbox) add(res stream.Result, now time.Time) error {
	b, err := json.Marshal(res)
	if err != nil {
		return fmt.Errorf("keep result: %w", err)
	}
	o.drop(res.Ref)
	o.byRef[res.Ref] = o.order.PushBack(&kept{res: res, size: len(b), at: now})
	o.bytes += len(b)
	return nil
}

func (o *outbox) get(ref stream.Ref) (stream.Result, bool) {
	e, ok := o.byRef[ref]
	if !ok {
		return stream.Result{}, false
	}
	return entry(e).res, true
}

func (o *outbox) drop(ref stream.Ref) bool {
	e, ok := o.byRef[ref]
	if !ok {
		return false
	}
	o.bytes -= entry(e).size
	o.order.Remove(e)
	delete(o.byRef, ref)
	return true
}

// refs lists what is kept, oldest first.
func (o *outbox) refs() []stream.Ref {
	out := make([]stream.Ref, 0, o.order.Len())
	for e := o.order.Front(); e != nil; e = e.Next() {
		out = append(out, entry(e).res.Ref)
	}
	return out
}

// relieve drops the oldest results while the outbox is full and they have
// been kept long enough. It returns how many.
func (o *outbox) relieve(now time.Time) int {
	n := 0
	for o.full() {
		e := o.order.Front()
		if e == nil || now.Sub(entry(e).at) < o.keepFor {
			break
		}
		o.drop(entry(e).res.Ref)
		n++
	}
	return n
}

func entry(e *list.Element) *kept {
	k, ok := e.Value.(*kept)
	if !ok {
		panic("worker: foreign element in the outbox")
	}
	return k
}

// save writes what is kept to name, or removes name if there is nothing.
func (o *outbox) save(name string) error {
	if o.len() == 0 {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove outbox: %w", err)
		}
		return nil
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	for e := o.order.Front(); e != nil; e = e.Next() {
		if err := enc.Encode(entry(e).res); err != nil {
			return fmt.Errorf("save outbox: %w", err)
		}
	}
	if err := durable.WriteFile(name, buf.Bytes(), 0o600); err != nil {
		return fmt.Errorf("save outbox: %w", err)
	}
	return nil
}

// load reads what save wrote. Lines that are no result are counted and
// skipped: every result can be computed again.
func (o *outbox) load(name string, now time.Time) (skipped int, err error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read outbox: %w", err)
	}
	defer f.Close()
	skipped, err = o.read(f, now)
	if err != nil {
		return skipped, fmt.Errorf("read outbox %s: %w", name, err)
	}
	return skipped, nil
}

func (o *outbox) read(r io.Reader, now time.Time) (skipped int, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, stream.MaxFrame)
	for lines.Scan() {
		if o.full() {
			skipped++
			continue
		}
		var res stream.Result
		if json.Unmarshal(lines.Bytes(), &res) != nil || (stream.Frame{Result: &res}).Validate() != nil {
			skipped++
			continue
		}
		if err := o.add(res, now); err != nil {
			skipped++
		}
	}
	return skipped, lines.Err()
}
