package trust

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// What strangers are given, and what they must show.
const (
	// After is how many confirmed results in a row let a worker be believed.
	After = 10
	// MaxWrong is how many contradicted results end what a stranger may do.
	MaxWrong = 3
	// BadEnds is how many attempts at a chunk may end badly at strangers before it
	// is kept for members.
	BadEnds = 3
	// Grace is how long a stranger may be without a stream before its attempts are
	// copied elsewhere: a page is loaded again, a laptop changes its network.
	Grace = 30 * time.Second
	// MaxSlots is how many slots one stranger may have.
	MaxSlots = 64

	// maxOpen is how much of a stranger that has shown too little may be open.
	maxOpen = 16
	// sampleOneIn is how seldom results of those that are believed are checked.
	sampleOneIn = 64
)

// Salt hides which results are checked. It is random in each term.
type Salt [32]byte

// Samples reports whether the results of a chunk are checked, whoever sends one.
func (s Salt) Samples(id job.ID, chunk int) bool {
	h := sha256.New()
	h.Write(s[:])
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(chunk))
	h.Write(n[:])
	h.Write([]byte(id))
	return binary.BigEndian.Uint64(h.Sum(nil))%sampleOneIn == 0
}

// Standing is what a worker has shown in this term.
type Standing struct {
	Stranger bool // no member of the cluster runs it
	Agreed   int  // confirmed results since the last that was not
	Wrong    int  // results that others contradicted
	Open     int  // results of which it is not known yet
}

// Established reports that enough in a row were right.
func (s *Standing) Established() bool { return s.Agreed >= After }

// Trusted reports that its results are believed without another's, unless the job
// asks for checks.
func (s *Standing) Trusted() bool { return !s.Stranger || s.Established() }

// Distrusted reports that it is given nothing any more.
func (s *Standing) Distrusted() bool { return s.Stranger && s.Wrong >= MaxWrong }

// Full reports that a stranger with so many attempts gets no more before it is known what
// its results are worth: the holder keeps them until then.
func (s *Standing) Full(attempts int) bool {
	return s.Stranger && !s.Established() && s.Open+attempts >= maxOpen
}

// Confirm takes in that others computed the same.
func (s *Standing) Confirm() { s.Agreed++ }

// Contradict takes in that others agree on another result.
func (s *Standing) Contradict() {
	s.Agreed = 0
	s.Wrong++
}

// maxKept bounds a Book.
const maxKept = 1 << 14

// Book keeps what strangers that went have shown, the latest of them, so that none is
// new by coming again. The zero value is empty.
type Book struct {
	of   map[cluster.NodeID]Standing
	line []cluster.NodeID // in the order in which they went, some of them back
}

// Keep remembers a stranger that goes.
func (b *Book) Keep(n cluster.NodeID, s Standing) {
	if !s.Stranger || s.Agreed == 0 && s.Wrong == 0 {
		return
	}
	s.Open = 0
	if b.of == nil {
		b.of = make(map[cluster.NodeID]Standing)
	}
	if _, had := b.of[n]; !had {
		b.line = append(b.line, n)
	}
	b.of[n] = s
	for len(b.line) > maxKept {
		delete(b.of, b.line[0])
		b.line = b.line[1:]
	}
}

// Standing is that of a worker that comes. One that has the form of an outside
// worker's id is a stranger until it is known.
func (b *Book) Standing(n cluster.NodeID) Standing {
	s, ok := b.of[n]
	if !ok {
		s.Stranger = cluster.IsOutside(n)
	}
	return s
}
