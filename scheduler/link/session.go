package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/scheduler/stream"
)

// What ends a stream beside errors of the network.
var (
	ErrSlow    = errors.New("slow reader")
	ErrOffence = errors.New("protocol broken")
	ErrRefused = errors.New("refused")
)

// Frames that may wait for one stream to be written: on one to outside workers more for each
// that joins, as all of them may be given something at once.
const (
	outFrames   = 256
	crewFrames  = 16384
	joinFrames  = 4
	worstFrames = 1 << 20
	// writeAtOnce is how many bytes of waiting frames one write takes.
	writeAtOnce = 32 << 10
)

// Session is one open stream.
type Session struct {
	Node  cluster.NodeID // the host
	Crew  bool           // of stream.CrewProto
	Begin stream.Welcome
	RTT   time.Duration // from the hello to the welcome

	out queue
	end context.CancelCauseFunc
	// pinged is when the latest ping went, in nanoseconds of Options.Now; 0: its
	// pong came. The writer sets it, the reader takes it.
	pinged atomic.Int64
}

func newSession(o *Options, end context.CancelCauseFunc) *Session {
	s := &Session{Node: o.Node, Crew: o.Crew, end: end, out: queue{most: outFrames, ready: make(chan struct{}, 1)}}
	if o.Crew {
		s.out.most = crewFrames
	}
	return s
}

// Send hands f to the writer; a host that does not read loses its stream.
func (s *Session) Send(f stream.Frame) {
	if !s.out.put(f) {
		s.End(ErrSlow)
	}
}

// End ends the stream.
func (s *Session) End(why error) { s.end(why) }

// queue is what waits to be written.
type queue struct {
	ready chan struct{} // capacity 1, full: the writer knows that something waits; never closed

	mu      sync.Mutex
	most    int
	waiting []stream.Frame // beside those that the writer has taken and not written
}

// grow makes room for what one more worker may be sent.
func (q *queue) grow() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.most = min(q.most+joinFrames, worstFrames)
}

// put reports false if there is no room.
func (q *queue) put(f stream.Frame) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= q.most {
		return false
	}
	q.waiting = append(q.waiting, f)
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return true
}

// take gives all that waits, and keeps buf for what comes.
func (q *queue) take(buf []stream.Frame) []stream.Frame {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := q.waiting
	clear(buf)
	q.waiting = buf[:0]
	return out
}

// write sends all frames that wait, as many at once as fit.
func (l *Link) write(ctx context.Context, conn net.Conn, s *Session) error {
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	nonce := uint64(0)
	var enc stream.Encoder
	var buf []byte
	var spare []stream.Frame
	pinging := make([]stream.Frame, 1)
	for {
		var frames []stream.Frame
		taken := false
		select {
		case <-s.out.ready:
			frames, taken = s.out.take(spare), true
		case <-ping.C:
			nonce++
			s.pinged.Store(int64(l.o.Now()))
			pinging[0] = stream.Frame{Ping: &stream.Ping{Term: l.o.Term, Nonce: nonce}}
			frames = pinging
		case <-ctx.Done():
			return nil
		}
		for left := frames; len(left) > 0; {
			n := 0
			var err error
			for buf = buf[:0]; n < len(left) && len(buf) < writeAtOnce && err == nil; n++ {
				buf, err = enc.Append(buf, left[n])
			}
			if err == nil {
				err = conn.SetWriteDeadline(time.Now().Add(writeTimeout))
			}
			if err == nil {
				_, err = conn.Write(buf)
			}
			if err != nil {
				return fmt.Errorf("worker %s: %w", l.o.Node, err)
			}
			left = left[n:]
		}
		if spare = frames; !taken || cap(spare) > 2*outFrames {
			spare = nil // a rush is over
		}
	}
}
