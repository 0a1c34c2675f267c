package crew

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/stream"
)

// Deadlines and bounds of a holder's stream.
const (
	helloTimeout = 10 * time.Second
	writeTimeout = 10 * time.Second
	idleTimeout  = 5 * time.Minute
	// statusEvery is how often the host says that it is there.
	statusEvery = 2 * time.Second
	writeAtOnce = 32 << 10
	// maxConnections is how many streams one host may have at a time: one that is
	// served, and those that replace it.
	maxConnections = 4
)

// session is a holder's stream.
type session struct {
	from   cluster.NodeID
	term   cluster.Term
	ready  chan struct{}       // capacity 1, full: frames wait; never closed
	refuse chan stream.Refused // capacity 1: the last frame
	end    context.CancelFunc
}

func (s *session) signal() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// Serve speaks with the holder from over conn until the stream ends, then closes conn.
// It is the handler of protocol stream.CrewProto; from has been authenticated.
func (c *Crew) Serve(ctx context.Context, from cluster.NodeID, conn net.Conn) {
	defer conn.Close()
	if !c.enter(from) {
		return
	}
	defer c.exit(from)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(helloTimeout)) // a conn without deadlines still has ctx
	in := stream.NewCrewDecoder(conn)
	f, err := in.Read()
	if err != nil || f.Hello == nil {
		c.log.Debug().Err(err).Str("peer", string(from)).Msg("stream without hello")
		return
	}
	s := &session{from: from, term: f.Hello.Term, ready: make(chan struct{}, 1), refuse: make(chan stream.Refused, 1), end: cancel}
	if refused := c.open(s, f.Hello.Holder); refused != nil {
		c.log.Debug().Str("peer", string(from)).Uint64("term", uint64(s.term)).Str("reason", refused.Reason).Msg("holder refused")
		_ = stream.Write(conn, stream.Frame{Refused: refused}) // it may have gone
		return
	}
	_ = conn.SetDeadline(time.Time{})
	wrote := make(chan struct{}) // closed when the writer ended
	go func() {
		defer close(wrote)
		defer cancel()
		c.write(ctx, s, conn)
	}()
	if err := c.read(s, conn, in); err == nil {
		<-wrote // it says why the stream ends
	} else if ctx.Err() == nil {
		c.log.Debug().Err(err).Str("peer", string(from)).Msg("stream of the holder ended")
	}
	c.step(func(time.Duration) { c.leave(s) })
	<-wrote
}

func (c *Crew) enter(from cluster.NodeID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.serving[from] >= maxConnections {
		return false
	}
	c.serving[from]++
	return true
}

func (c *Crew) exit(from cluster.NodeID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.serving[from]--; c.serving[from] == 0 {
		delete(c.serving, from)
	}
}

// open decides about a new stream; nil accepts it, and ends the one before.
func (c *Crew) open(s *session, holder cluster.NodeID) (refused *stream.Refused) {
	if holder != s.from {
		return &stream.Refused{Reason: "hello names another host than the one that speaks"}
	}
	if err := c.o.CheckHolder(s.from, s.term); err != nil {
		return &stream.Refused{MaxTerm: c.o.MinTerm(), Reason: job.ReasonOf(err)}
	}
	c.step(func(time.Duration) {
		switch known := c.known(); {
		case s.term < known:
			refused = &stream.Refused{MaxTerm: known, Reason: fmt.Sprintf("term %d is over, term %d is known", s.term, known)}
			return
		case s.term == c.term && s.from != c.holder:
			refused = &stream.Refused{MaxTerm: known, Reason: fmt.Sprintf("term %d belongs to %s", s.term, c.holder)}
			return
		}
		c.close(stream.Refused{MaxTerm: s.term, Reason: "replaced by a newer stream"})
		c.term, c.holder, c.sess = s.term, s.from, s
		c.desk.Open(s.term)
	})
	if refused == nil {
		c.log.Info().Str("peer", string(s.from)).Uint64("term", uint64(s.term)).Msg("outside workers serve a holder")
	}
	return refused
}

// close ends the stream that is open, if one is, and says why. The caller has mu.
func (c *Crew) close(why stream.Refused) {
	if s := c.sess; s != nil {
		s.refuse <- why // its only one
		c.sess = nil
		c.desk.Close()
	}
}

// leave ends s, if it is the open one. The caller has mu.
func (c *Crew) leave(s *session) {
	s.end()
	if c.sess == s {
		c.sess = nil
		c.desk.Close()
	}
}

// read takes what the holder says.
func (c *Crew) read(s *session, conn net.Conn, in *stream.Decoder) error {
	for {
		_ = conn.SetReadDeadline(time.Now().Add(idleTimeout)) // ctx closes it at the latest
		f, err := in.Read()
		if errors.Is(err, stream.ErrFrame) {
			c.log.Warn().Err(err).Str("peer", string(s.from)).Msg("invalid frame, stream ended")
		}
		if err != nil {
			return err
		}
		over := false
		c.step(func(time.Duration) {
			if over = c.sess != s; over {
				return
			}
			if known := c.o.MinTerm(); known > s.term {
				c.close(stream.Refused{MaxTerm: known, Reason: fmt.Sprintf("term %d is over, term %d is known", s.term, known)})
				over = true
				return
			}
			if err = c.desk.Frame(f); err != nil {
				c.log.Warn().Err(err).Str("peer", string(s.from)).Msg("holder broke the protocol, stream ended")
				c.close(stream.Refused{MaxTerm: c.known(), Reason: job.ReasonOf(err)})
				over = true
			}
		})
		if over { // the writer says why, and ends the stream
			return nil
		}
	}
}

// write sends the welcome, and then what the desk has for the holder; a Refused is the
// last frame.
func (c *Crew) write(ctx context.Context, s *session, conn net.Conn) {
	status := time.NewTicker(statusEvery)
	defer status.Stop()
	var enc stream.Encoder
	var buf []byte
	send := func(frames ...stream.Frame) bool {
		for len(frames) > 0 {
			n := 0
			var err error
			for buf = buf[:0]; n < len(frames) && len(buf) < writeAtOnce && err == nil; n++ {
				buf, err = enc.Append(buf, frames[n])
			}
			if err != nil {
				c.log.Error().Err(err).Str("peer", string(s.from)).Msg("frame for the holder cannot be sent, stream ended")
				return false
			}
			_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout)) // ctx closes it at the latest
			if _, err := conn.Write(buf); err != nil {
				return false
			}
			frames = frames[n:]
		}
		return true
	}
	if !send(stream.Frame{Welcome: &stream.Welcome{Executors: []string{}, Assigned: []job.Attempt{}, Crew: true}}) {
		return
	}
	s.signal()
	for {
		select {
		case r := <-s.refuse:
			send(stream.Frame{Refused: &r})
			return
		case <-s.ready:
		case <-status.C:
			if !send(stream.Frame{Status: &stream.Status{Running: []job.Attempt{}, Ready: true}}) {
				return
			}
			continue
		case <-ctx.Done():
			return
		}
		for more := true; more; {
			var frames []stream.Frame
			c.mu.Lock()
			if c.sess == s {
				frames = c.desk.Frames()
			}
			c.mu.Unlock()
			if more = len(frames) > 0; more && !send(frames...) {
				return
			}
		}
	}
}
