package words

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster/job"
)

// Bounds of a Ring.
const (
	DefaultBytes = int64(256) << 20
	DefaultAge   = 7 * 24 * time.Hour
	// files is into how many files the bytes are divided: when they are full, one of
	// them goes as a whole.
	files = 16
	// maxFiles bounds them where each start of the daemon begins another.
	maxFiles = 256
	// maxHeader bounds the line before the words of an attempt.
	maxHeader = 4 << 10
	suffix    = ".words"
)

// Options of a Ring; Dir is needed.
type Options struct {
	Dir   string
	Bytes int64         // of all files; default 256 MiB
	Age   time.Duration // of what is kept; default 7 days
	Now   func() time.Time

	Logger zerolog.Logger
}

// Entry is one attempt, and what it said.
type Entry struct {
	job.Attempt
	Began   time.Time
	Seconds float64 // it ran
	Error   string  // why it failed; empty: it has a result, or runs
	Running bool
	Said    Said
}

// Ring keeps what attempts said.
type Ring struct {
	o   Options
	log zerolog.Logger

	mu       sync.Mutex
	live     map[job.Attempt]*Live
	segments []*segment // the oldest first; the last one grows
	file     *os.File   // of the last one; nil: none grows
	used     int64
	broken   bool // the last write failed, which was told
}

// Live is an attempt that runs, or ran when it was listed.
type Live struct {
	job.Attempt
	Began time.Time
	*Words

	ended  chan struct{} // closed when it ended
	took   time.Duration
	failed string
}

// Ended reports whether the attempt has ended, why it failed, and how long it ran.
func (l *Live) Ended() (ended bool, failed string, took time.Duration) {
	select {
	case <-l.ended: // what End wrote before is seen
		return true, l.failed, l.took
	default:
		return false, "", 0
	}
}

// segment is one of the files.
type segment struct {
	n     uint64
	bytes int64
	jobs  map[job.ID]bool // whose attempts are in it
	last  time.Time       // when something was added
}

func (r *Ring) path(s *segment) string {
	return filepath.Join(r.o.Dir, fmt.Sprintf("%016x%s", s.n, suffix))
}

// Open opens what an earlier process left in o.Dir.
func Open(o Options) (*Ring, error) {
	if o.Dir == "" {
		return nil, errors.New("words of attempts: no directory")
	}
	if o.Bytes == 0 {
		o.Bytes = DefaultBytes
	}
	if o.Age == 0 {
		o.Age = DefaultAge
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Bytes < files*(First+Last) || o.Age < 0 {
		return nil, fmt.Errorf("words of attempts: %d bytes for %s, want at least %d", o.Bytes, o.Age, files*(First+Last))
	}
	r := &Ring{o: o, log: o.Logger.With().Str("component", "worker.words").Logger(), live: map[job.Attempt]*Live{}}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("words of attempts: %w", err)
	}
	entries, err := os.ReadDir(o.Dir) // sorted, and so are the numbers
	if err != nil {
		return nil, fmt.Errorf("words of attempts: %w", err)
	}
	for _, e := range entries {
		name, ours := strings.CutSuffix(e.Name(), suffix)
		n, err := strconv.ParseUint(name, 16, 64)
		if !ours || err != nil || len(name) != 16 {
			continue
		}
		s := &segment{n: n, jobs: map[job.ID]bool{}}
		if info, err := e.Info(); err == nil {
			s.bytes, s.last = info.Size(), info.ModTime()
		}
		if err := r.scan(s, func(h header, _ []byte) error { s.jobs[h.Job] = true; return nil }); err != nil {
			r.log.Warn().Err(err).Msg("words of attempts that ran earlier cannot be read")
		}
		r.segments = append(r.segments, s)
		r.used += s.bytes
	}
	r.Prune()
	return r, nil
}

// header stands in a line before the words of an attempt, of which Head bytes are the
// first and Tail bytes the last.
type header struct {
	job.Attempt
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
	Error   string    `json:"error,omitempty"`
	Head    int       `json:"head"`
	Tail    int       `json:"tail"`
	Left    uint64    `json:"left,omitempty"`
	Sum     uint32    `json:"crc"`
}

// Begin returns where an attempt is to say its words, until End.
func (r *Ring) Begin(a job.Attempt) *Words {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &Live{Attempt: a, Began: r.o.Now(), Words: &Words{}, ended: make(chan struct{})}
	r.live[a] = l
	return l.Words
}

// End ends what Begin began, and keeps the words in a file if it is told to. Why it
// failed is empty if the attempt has a result.
func (r *Ring) End(a job.Attempt, keep bool, failed string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, ok := r.live[a]
	if !ok {
		return
	}
	delete(r.live, a)
	l.took, l.failed = r.o.Now().Sub(l.Began), failed
	close(l.ended)
	said := l.Said()
	if !keep || said.Empty() && failed == "" {
		return
	}
	h := header{
		Attempt: a, Began: l.Began.UTC(), Seconds: l.took.Seconds(), Error: failed,
		Head: len(said.Head), Tail: len(said.Tail), Left: said.Left,
		Sum: crc32.ChecksumIEEE(append(slices.Clip(said.Head), said.Tail...)),
	}
	switch err := r.append(h, said); {
	case err != nil && !r.broken:
		r.broken = true
		r.log.Warn().Err(err).Msg("words of attempts are not kept")
	case err == nil:
		r.broken = false
	}
}

// append writes a record. The caller holds mu.
func (r *Ring) append(h header, said Said) error {
	line, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("keep words: %w", err)
	}
	if len(line) >= maxHeader {
		return fmt.Errorf("keep words: header of %d bytes", len(line))
	}
	record := append(append(append(append(line, '\n'), said.Head...), said.Tail...), '\n')
	s, err := r.room(int64(len(record)))
	if err != nil {
		return fmt.Errorf("keep words: %w", err)
	}
	if _, err := r.file.Write(record); err != nil {
		_ = r.file.Close() // what follows a cut record would not be found
		r.file = nil
		return fmt.Errorf("keep words: %w", err)
	}
	s.bytes, s.last = s.bytes+int64(len(record)), r.o.Now()
	s.jobs[h.Job] = true
	r.used += int64(len(record))
	return nil
}

// room returns the segment that grows, with room for n bytes. The caller holds mu.
func (r *Ring) room(n int64) (*segment, error) {
	if last := len(r.segments) - 1; r.file != nil && r.segments[last].bytes+n <= r.o.Bytes/files {
		return r.segments[last], nil
	}
	if r.file != nil {
		_ = r.file.Close() // not synced either
		r.file = nil
	}
	for len(r.segments) > 0 && (r.used+n > r.o.Bytes || len(r.segments) >= maxFiles) {
		r.drop()
	}
	s := &segment{n: 1, jobs: map[job.ID]bool{}}
	if last := len(r.segments) - 1; last >= 0 {
		s.n = r.segments[last].n + 1
	}
	f, err := os.OpenFile(r.path(s), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	r.file, r.segments = f, append(r.segments, s)
	return s, nil
}

// drop removes the oldest segment. The caller holds mu.
func (r *Ring) drop() {
	s := r.segments[0]
	if err := os.Remove(r.path(s)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.log.Warn().Err(err).Msg("old words of attempts are not removed")
	}
	r.segments = slices.Delete(r.segments, 0, 1)
	r.used -= s.bytes
}

// Prune removes what is too old.
func (r *Ring) Prune() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.segments) > 0 && r.o.Now().Sub(r.segments[0].last) > r.o.Age {
		if len(r.segments) == 1 && r.file != nil {
			_ = r.file.Close() // it is removed
			r.file = nil
		}
		r.drop()
	}
}

// Live lists the attempts at a job that run here, by chunk and number.
func (r *Ring) Live(id job.ID) []*Live {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*Live
	for a, l := range r.live {
		if a.Job == id {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b *Live) int { return a.Compare(b.Attempt) })
	return out
}

// Read passes to f what is kept of a job in the order in which the attempts ended, as
// far as want wants it, until f returns an error.
func (r *Ring) Read(id job.ID, want func(a job.Attempt, failed bool) bool, f func(Entry) error) error {
	r.mu.Lock()
	var list []*segment
	for _, s := range r.segments {
		if s.jobs[id] {
			list = append(list, s)
		}
	}
	r.mu.Unlock()
	oldest := r.o.Now().Add(-r.o.Age)
	for _, s := range list {
		err := r.scan(s, func(h header, said []byte) error {
			if h.Job != id || h.Began.Before(oldest) || !want(h.Attempt, h.Error != "") {
				return nil
			}
			return f(Entry{
				Attempt: h.Attempt, Began: h.Began, Seconds: h.Seconds, Error: h.Error,
				Said: Said{Head: said[:h.Head:h.Head], Tail: said[h.Head:], Left: h.Left},
			})
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it made room meanwhile
			return err
		}
	}
	return nil
}

// scan passes the records of a segment to f, up to the end or to one that is cut or
// damaged, or still being written. The words are f's.
func (r *Ring) scan(s *segment, f func(header, []byte) error) error {
	file, err := os.Open(r.path(s))
	if err != nil {
		return fmt.Errorf("read words: %w", err)
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, 64<<10)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil || len(line) > maxHeader {
			return nil
		}
		var h header
		if json.Unmarshal(line, &h) != nil || h.Head < 0 || h.Head > First || h.Tail < 0 || h.Tail > Last {
			return nil
		}
		said := make([]byte, h.Head+h.Tail+1)
		if _, err := io.ReadFull(in, said); err != nil {
			return nil
		}
		said = said[:len(said)-1]
		if crc32.ChecksumIEEE(said) != h.Sum {
			return nil
		}
		if err := f(h, said); err != nil {
			return err
		}
	}
}
