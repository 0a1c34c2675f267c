package stream

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

const (
	// maxSpecs is how many specs both ends of a stream remember. Whoever would
	// remember one more forgets all: both ends do so at the same frame.
	maxSpecs = 64
	// readBuffer holds many frames of chunks.
	readBuffer = 16 << 10
)

// Encoder makes the frames of one direction of one stream. It sends the spec
// of a job and its owner, which never change, once, and then only names the job. The zero value
// is ready.
type Encoder struct {
	sent   map[job.ID]bool // jobs whose spec was sent
	worker cluster.NodeID  // of the last frame in short form that named one
}

// Append appends f with its length to b. After an error the stream cannot be
// used any more.
func (e *Encoder) Append(b []byte, f Frame) ([]byte, error) {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	b, short := e.short(b, &f)
	if !short {
		j, err := json.Marshal(f)
		if err != nil {
			return nil, fmt.Errorf("encode worker frame: %w", err)
		}
		b = append(b, j...)
		if f.Assign != nil {
			if !e.sent[f.Assign.Job] && len(e.sent) >= maxSpecs {
				clear(e.sent)
			}
			if e.sent == nil {
				e.sent = make(map[job.ID]bool)
			}
			e.sent[f.Assign.Job] = true
		}
	}
	n := len(b) - start - 4
	if n > MaxFrame {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrFrame, n, MaxFrame)
	}
	binary.BigEndian.PutUint32(b[start:], uint32(n))
	return b, nil
}

// short appends the short form of f, if it has one.
func (e *Encoder) short(b []byte, f *Frame) ([]byte, bool) {
	before := len(b)
	if f.Worker != "" {
		b = append(b, compactWorker)
		if f.Worker == e.worker {
			b = appendString(b, "")
		} else {
			b = appendString(b, string(f.Worker))
		}
	}
	short := f.Assign != nil && e.sent[f.Assign.Job] && len(f.Assign.Resume) == 0
	if short {
		b = appendAssign(b, f.Assign)
	} else if b, short = compact(b, f); !short {
		return b[:before], false
	}
	if f.Worker != "" {
		e.worker = f.Worker
	}
	return b, true
}

// Decoder reads the frames that an Encoder made.
type Decoder struct {
	r     *bufio.Reader
	crew  bool              // of stream CrewProto
	known map[job.ID]Assign // the spec and the owner of each job
	last  job.ID            // of the Result before

	worker cluster.NodeID // of the last frame in short form that named one
}

// NewDecoder reads from r, and more than it needs at once.
func NewDecoder(r io.Reader) *Decoder { return &Decoder{r: bufio.NewReaderSize(r, readBuffer)} }

// Buffered is how many bytes were read that no frame has used.
func (d *Decoder) Buffered() int { return d.r.Buffered() }

// Read returns the next frame, as the function Read does.
func (d *Decoder) Read() (Frame, error) {
	n, err := length(d.r)
	if err != nil {
		return Frame{}, err
	}
	if n > readBuffer {
		b, err := body(d.r, n)
		if err != nil {
			return Frame{}, err
		}
		return d.decode(b)
	}
	b, err := d.r.Peek(n)
	if err != nil {
		return Frame{}, cut(err)
	}
	f, err := d.decode(b)
	_, _ = d.r.Discard(n) // it was there to peek at
	return f, err
}

// decode reads one frame; nothing of it refers to b afterwards.
func (d *Decoder) decode(b []byte) (f Frame, err error) {
	short := len(b) > 0 && b[0] >= compactAssign && b[0] <= compactWorker
	if short {
		f, err = d.expand(b)
	} else if err = json.Unmarshal(b, &f); err != nil {
		err = fmt.Errorf("%w: %w", ErrFrame, err)
	}
	if err != nil {
		return Frame{}, err
	}
	if err := f.Validate(); err != nil {
		return f, err
	}
	if err := f.placed(d.crew); err != nil {
		return f, err
	}
	if f.Assign != nil && !short {
		d.remember(f.Assign)
	}
	return f, nil
}

// expand reads a short form, of which compactWorker names the worker of another.
func (d *Decoder) expand(b []byte) (Frame, error) {
	var worker cluster.NodeID
	if b[0] == compactWorker {
		c := &cursor{b: b[1:], last: string(d.worker)}
		if n := c.string(); n != "" {
			d.worker = cluster.NodeID(n)
		}
		if worker, b = d.worker, c.b; c.bad || len(b) == 0 || worker == "" || b[0] >= compactWorker {
			return Frame{}, fmt.Errorf("%w: about no worker, or nothing", ErrFrame)
		}
	}
	f, err := expand(b, d.last, func(id job.ID) (a Assign, ok bool) {
		a, ok = d.known[id]
		return a, ok
	})
	if err != nil {
		return Frame{}, err
	}
	if f.Worker = worker; f.Result != nil {
		d.last = f.Result.Job
	}
	return f, nil
}

func (d *Decoder) remember(a *Assign) {
	if _, ok := d.known[a.Job]; !ok && len(d.known) >= maxSpecs {
		clear(d.known)
	}
	if d.known == nil {
		d.known = make(map[job.ID]Assign)
	}
	d.known[a.Job] = Assign{Spec: a.Spec, Owner: a.Owner}
}

// length reads how long the next frame is. A length over MaxFrame is refused
// before anything is allocated.
func length(r io.Reader) (int, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return 0, io.EOF
		}
		return 0, fmt.Errorf("read worker frame: %w", err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > MaxFrame {
		return 0, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrFrame, n, MaxFrame)
	}
	return int(n), nil
}

// cut is the error of a stream that ends within a frame: no clean end.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read worker frame: %w", err)
}
