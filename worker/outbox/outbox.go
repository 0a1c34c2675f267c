package outbox

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

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/scheduler/stream"
)

// maxJournalWaste is how many bytes of dropped results the journal may hold,
// beside as much as is kept, before it is rewritten.
const maxJournalWaste = 1 << 20

// lineOverhead is what a line of the journal has beside its JSON, and some more.
const lineOverhead = 64

// Outbox keeps results of attempts. Its journal has a line for each result, as
// JSON, and one for each set of results that were dropped, as a list of the
// attempts. Each line has a checksum of its own: a result that the disk changed
// must not count.
type Outbox struct {
	limit   int
	keepFor time.Duration

	byRef map[job.Attempt]*list.Element // of *kept
	order *list.List                    // oldest first
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

// New returns an empty outbox. It is full at limit bytes; Relieve then gives up
// results that were kept for keepFor.
func New(limit int, keepFor time.Duration) *Outbox {
	return &Outbox{limit: limit, keepFor: keepFor, byRef: map[job.Attempt]*list.Element{}, order: list.New()}
}

// Len is how many results are kept.
func (o *Outbox) Len() int { return o.order.Len() }

// Size is how many bytes the results take.
func (o *Outbox) Size() int { return o.bytes }

// JustFailed reports that the journal failed with the latest write, and not before.
func (o *Outbox) JustFailed() bool { return o.failing == 1 }

// Full reports that no further chunk may start.
func (o *Outbox) Full() bool { return o.bytes >= o.limit }

// Add keeps res, in the place of an earlier result of the same attempt. After
// ErrJournal it is kept in memory alone.
func (o *Outbox) Add(res stream.Result, now time.Time) error {
	b, err := json.Marshal(res)
	if err != nil {
		return fmt.Errorf("keep result: %w", err)
	}
	o.forget(res.Attempt)
	o.byRef[res.Attempt] = o.order.PushBack(&kept{res: res, size: len(b), at: now})
	o.bytes += len(b)
	return o.write(b)
}

// Get returns the result of an attempt.
func (o *Outbox) Get(ref job.Attempt) (stream.Result, bool) {
	e, ok := o.byRef[ref]
	if !ok {
		return stream.Result{}, false
	}
	return entry(e).res, true
}

// Drop forgets results and says how many there were.
func (o *Outbox) Drop(refs ...job.Attempt) (int, error) {
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

func (o *Outbox) forget(ref job.Attempt) bool {
	e, ok := o.byRef[ref]
	if !ok {
		return false
	}
	o.bytes -= entry(e).size
	o.order.Remove(e)
	delete(o.byRef, ref)
	return true
}

// Refs lists what is kept, oldest first.
func (o *Outbox) Refs() []job.Attempt {
	out := make([]job.Attempt, 0, o.order.Len())
	for e := o.order.Front(); e != nil; e = e.Next() {
		out = append(out, entry(e).res.Attempt)
	}
	return out
}

// Relieve drops the oldest results while the outbox is full and they have
// been kept long enough. It returns how many.
func (o *Outbox) Relieve(now time.Time) (int, error) {
	var old []job.Attempt
	left := o.bytes
	for e := o.order.Front(); e != nil && left >= o.limit && now.Sub(entry(e).at) >= o.keepFor; e = e.Next() {
		old = append(old, entry(e).res.Attempt)
		left -= entry(e).size
	}
	return o.Drop(old...)
}

func entry(e *list.Element) *kept {
	k, ok := e.Value.(*kept)
	if !ok {
		panic("outbox: foreign element")
	}
	return k
}

// ErrJournal is wrapped when the journal cannot be written: what is kept is in
// memory only, until the journal can be rewritten.
var ErrJournal = errors.New("journal of the outbox")

// write adds a line to the journal. It rewrites the journal when most of it is
// obsolete, or when it could not be written before.
func (o *Outbox) write(line []byte) error {
	if o.name == "" {
		return nil
	}
	if o.failing > 0 { // each 64th time, because it is a lot to write
		if o.failing++; o.failing%64 != 0 {
			return ErrJournal
		}
	}
	if o.journal == nil || o.written > 2*o.bytes+maxJournalWaste {
		return o.rewrite()
	}
	n, err := o.journal.Write(append(durable.SealLine(line), '\n'))
	o.written += n
	if err != nil {
		_ = o.journal.Close() // the next write makes another
		o.journal, o.failing = nil, 1
		return fmt.Errorf("%w: %w", ErrJournal, err)
	}
	return nil
}

// rewrite replaces the journal by one of what is kept.
func (o *Outbox) rewrite() error {
	if o.journal != nil {
		_ = o.journal.Close() // what matters of it is written again
		o.journal = nil
	}
	o.failing = max(1, o.failing)
	var buf bytes.Buffer
	for e := o.order.Front(); e != nil; e = e.Next() {
		line, err := json.Marshal(entry(e).res)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrJournal, err)
		}
		buf.Write(append(durable.SealLine(line), '\n'))
	}
	if err := durable.WriteFile(o.name, buf.Bytes(), 0o600); err != nil {
		return fmt.Errorf("%w: %w", ErrJournal, err)
	}
	f, err := os.OpenFile(o.name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrJournal, err)
	}
	o.journal, o.written, o.failing = f, buf.Len(), 0
	return nil
}

// Open reads the journal, if there is one, and goes on with it. Damaged lines are
// counted and skipped: every result can be computed again.
func (o *Outbox) Open(name string, now time.Time) (skipped int, err error) {
	f, err := os.Open(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return 0, fmt.Errorf("%w: %w", ErrJournal, err)
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

func (o *Outbox) read(r io.Reader, now time.Time) (skipped int, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, stream.MaxFrame+lineOverhead)
	for lines.Scan() {
		line, ok := durable.OpenLine(lines.Bytes(), "}]")
		if !ok {
			skipped++
			continue
		}
		if bytes.HasPrefix(line, []byte("[")) {
			var gone []job.Attempt
			if json.Unmarshal(line, &gone) != nil {
				skipped++
			}
			for _, ref := range gone {
				o.forget(ref)
			}
			continue
		}
		var res stream.Result
		if o.Full() || json.Unmarshal(line, &res) != nil || (stream.Frame{Result: &res}).Validate() != nil {
			skipped++
			continue
		}
		if err := o.Add(res, now); err != nil {
			skipped++
		}
	}
	return skipped, lines.Err()
}

// Close leaves a journal of what is kept on the disk, or none.
func (o *Outbox) Close() error {
	if o.name == "" {
		return nil
	}
	if o.Len() > 0 {
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
		return fmt.Errorf("%w: %w", ErrJournal, err)
	}
	return nil
}

// Hit lists what is kept of the attempts that match.
func (o *Outbox) Hit(match func(job.Attempt) bool) []job.Attempt {
	return slices.DeleteFunc(o.Refs(), func(r job.Attempt) bool { return !match(r) })
}
