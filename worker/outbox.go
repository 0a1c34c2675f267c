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
	"slices"
	"time"

	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/scheduler/stream"
)

// maxJournalWaste is how many bytes of what was dropped the journal may hold,
// beside as much as is kept, before it is written anew.
const maxJournalWaste = 1 << 20

// outbox keeps results until their fate is stable, in memory and in a journal:
// a line for each result, as JSON, and one for each set of results that were
// dropped, as a list of what names them. It has one user, the worker's loop.
//
// The journal is written before a result is sent and is not synced: it outlives
// the process, whatever ends it. What a power failure takes runs again.
type outbox struct {
	limit   int
	keepFor time.Duration

	byRef map[stream.Ref]*list.Element // of *kept
	order *list.List                   // oldest first
	bytes int

	name    string   // of the journal; empty: none
	journal *os.File // nil: none, or it could not be written
	written int      // bytes in the journal
	failing int      // writes since the journal failed; 0: it did not
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

// add keeps res, in the place of an earlier result of the same attempt. After
// errJournal it is kept in memory alone.
func (o *outbox) add(res stream.Result, now time.Time) error {
	b, err := json.Marshal(res)
	if err != nil {
		return fmt.Errorf("keep result: %w", err)
	}
	o.forget(res.Ref)
	o.byRef[res.Ref] = o.order.PushBack(&kept{res: res, size: len(b), at: now})
	o.bytes += len(b)
	return o.write(b)
}

func (o *outbox) get(ref stream.Ref) (stream.Result, bool) {
	e, ok := o.byRef[ref]
	if !ok {
		return stream.Result{}, false
	}
	return entry(e).res, true
}

// drop forgets results and says how many there were.
func (o *outbox) drop(refs ...stream.Ref) (int, error) {
	gone := refs[:0:0]
	for _, ref := range refs {
		if o.forget(ref) {
			gone = append(gone, ref)
		}
	}
	if len(gone) == 0 {
		return 0, nil
	}
	b, err := json.Marshal(gone)
	if err != nil {
		return len(gone), fmt.Errorf("drop results: %w", err)
	}
	return len(gone), o.write(b)
}

func (o *outbox) forget(ref stream.Ref) bool {
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
func (o *outbox) relieve(now time.Time) (int, error) {
	var old []stream.Ref
	left := o.bytes
	for e := o.order.Front(); e != nil && left >= o.limit && now.Sub(entry(e).at) >= o.keepFor; e = e.Next() {
		old = append(old, entry(e).res.Ref)
		left -= entry(e).size
	}
	return o.drop(old...)
}

func entry(e *list.Element) *kept {
	k, ok := e.Value.(*kept)
	if !ok {
		panic("worker: foreign element in the outbox")
	}
	return k
}

// errJournal is wrapped when the journal cannot be written: what is kept is in
// memory only, until the journal can be written anew.
var errJournal = errors.New("journal of the outbox")

// write adds a line to the journal, and writes it anew when most of it means
// nothing any more, or when it could not be written before.
func (o *outbox) write(line []byte) error {
	if o.name == "" {
		return nil
	}
	if o.failing > 0 { // each 64th time, because it is a lot to write
		if o.failing++; o.failing%64 != 0 {
			return errJournal
		}
	}
	if o.journal == nil || o.written > 2*o.bytes+maxJournalWaste {
		return o.rewrite()
	}
	n, err := o.journal.Write(append(line, '\n'))
	o.written += n
	if err != nil {
		_ = o.journal.Close() // the next write makes another
		o.journal, o.failing = nil, 1
		return fmt.Errorf("%w: %w", errJournal, err)
	}
	return nil
}

// rewrite replaces the journal by one of what is kept.
func (o *outbox) rewrite() error {
	if o.journal != nil {
		_ = o.journal.Close() // what matters of it is written again
		o.journal = nil
	}
	o.failing = max(1, o.failing)
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	for e := o.order.Front(); e != nil; e = e.Next() {
		if err := enc.Encode(entry(e).res); err != nil {
			return fmt.Errorf("%w: %w", errJournal, err)
		}
	}
	if err := durable.WriteFile(o.name, buf.Bytes(), 0o600); err != nil {
		return fmt.Errorf("%w: %w", errJournal, err)
	}
	f, err := os.OpenFile(o.name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", errJournal, err)
	}
	o.journal, o.written, o.failing = f, buf.Len(), 0
	return nil
}

// open reads the journal, if there is one, and goes on with it. Lines that mean
// nothing are counted and skipped: every result can be computed again.
func (o *outbox) open(name string, now time.Time) (skipped int, err error) {
	f, err := os.Open(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return 0, fmt.Errorf("%w: %w", errJournal, err)
	default:
		skipped, err = o.read(f, now)
		_ = f.Close() // read only
		if err != nil {
			skipped++ // the rest, from a line that is too long
		}
	}
	o.name = name
	return skipped, o.rewrite()
}

func (o *outbox) read(r io.Reader, now time.Time) (skipped int, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, stream.MaxFrame)
	for lines.Scan() {
		line := lines.Bytes()
		if bytes.HasPrefix(line, []byte("[")) {
			var gone []stream.Ref
			if json.Unmarshal(line, &gone) != nil {
				skipped++
			}
			for _, ref := range gone {
				o.forget(ref)
			}
			continue
		}
		var res stream.Result
		if o.full() || json.Unmarshal(line, &res) != nil || (stream.Frame{Result: &res}).Validate() != nil {
			skipped++
			continue
		}
		if err := o.add(res, now); err != nil {
			skipped++
		}
	}
	return skipped, lines.Err()
}

// close leaves a journal of what is kept on the disk, or none.
func (o *outbox) close() error {
	if o.name == "" {
		return nil
	}
	if o.len() > 0 {
		err := o.rewrite()
		if err == nil {
			err = o.journal.Close()
		}
		return err
	}
	if o.journal != nil {
		_ = o.journal.Close() // nothing in it matters
		o.journal = nil
	}
	if err := os.Remove(o.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", errJournal, err)
	}
	return nil
}

// hit lists what is kept of the attempts that match.
func (o *outbox) hit(match func(stream.Ref) bool) []stream.Ref {
	return slices.DeleteFunc(o.refs(), func(r stream.Ref) bool { return !match(r) })
}
