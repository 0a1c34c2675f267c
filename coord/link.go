package coord

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/path"
	"github.com/skein-project/skein/coord/wire"
)

// Bounds of a stream between onion services.
const (
	linkQueue = 64               // messages; a full one drops the newest, counted
	linkPing  = 30 * time.Second // between two pings
	linkReply = 30 * time.Second // for the pong; nothing for both together ends the stream
	linkWrite = 30 * time.Second
	// linkRate and linkBurst are frames per second that one host may send: more
	// than what is accepted of it, and what is above ends the stream.
	linkRate, linkBurst = 100, 300
)

var errFlood = errors.New("more frames than a host may send")

// linkMessage is a datagram on its way out.
type linkMessage struct {
	kind wire.Type
	data []byte
}

// link is one stream between onion services.
type link struct {
	node    cluster.NodeID
	conn    net.Conn
	dialled bool
	out     chan linkMessage // capacity linkQueue, never closed
	// words wakes the writer to say whether this host is deaf; capacity 1, a
	// full one already wakes.
	words chan struct{}
	// pongs asks the writer for an answer; likewise.
	pongs chan struct{}

	mu   sync.Mutex
	deaf bool // guarded by mu
}

func newLink(node cluster.NodeID, conn net.Conn, dialled bool) *link {
	return &link{
		node: node, conn: conn, dialled: dialled, out: make(chan linkMessage, linkQueue),
		words: make(chan struct{}, 1), pongs: make(chan struct{}, 1),
	}
}

// linkHooks are what a link tells: message on the goroutine of run, which it
// lends the bytes, sent on that of the writer.
type linkHooks struct {
	message func([]byte)
	word    func(deaf bool)
	sent    func(wire.Type)
}

// run reads until the stream ends, and has a goroutine that writes, which ends
// before run returns.
func (l *link) run(ctx context.Context, h linkHooks) error {
	ctx, cancel := context.WithCancel(ctx)
	var writer sync.WaitGroup
	stop := context.AfterFunc(ctx, func() { _ = rawConn(l.conn).Close() }) // ends reads and writes
	writer.Go(func() {
		defer cancel()
		l.write(ctx, h.sent)
	})
	err := l.read(h)
	cancel()
	writer.Wait()
	stop()
	return err
}

func (l *link) read(h linkHooks) error {
	in := bufio.NewReaderSize(l.conn, 4096)
	buf := make([]byte, 4096)
	var rate bucket
	start := time.Now()
	said, first := false, true
	for {
		if err := l.conn.SetReadDeadline(time.Now().Add(linkPing + linkReply)); err != nil {
			return fmt.Errorf("read frame: %w", err)
		}
		var head [4]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return fmt.Errorf("read frame: %w", err)
		}
		n, err := path.Length(head)
		if err != nil {
			return err
		}
		if _, err := io.ReadFull(in, buf[:n]); err != nil {
			return fmt.Errorf("read frame: %w", err)
		}
		if !rate.take(time.Since(start), linkRate, linkBurst) {
			return errFlood
		}
		f, err := path.Parse(buf[:n])
		if err != nil {
			return err
		}
		switch f.Kind {
		case path.KindDatagram:
			h.message(f.Body)
		case path.KindPing, path.KindPong:
			if first || f.Deaf != said {
				first, said = false, f.Deaf
				h.word(f.Deaf)
			}
			if f.Kind == path.KindPing {
				wake(l.pongs)
			}
		}
	}
}

// write sends what waits until the stream or ctx ends.
func (l *link) write(ctx context.Context, sent func(wire.Type)) {
	ping := time.NewTicker(linkPing)
	defer ping.Stop()
	for {
		var f path.Frame
		var kind wire.Type
		select {
		case <-ctx.Done():
			return
		case m := <-l.out:
			f, kind = path.Frame{Kind: path.KindDatagram, Body: m.data}, m.kind
		case <-l.words:
			f = path.Frame{Kind: path.KindPing, Deaf: l.isDeaf()}
		case <-ping.C:
			f = path.Frame{Kind: path.KindPing, Deaf: l.isDeaf()}
		case <-l.pongs:
			f = path.Frame{Kind: path.KindPong, Deaf: l.isDeaf()}
		}
		if l.conn.SetWriteDeadline(time.Now().Add(linkWrite)) != nil {
			return
		}
		if _, err := l.conn.Write(f.Append(make([]byte, 0, 8+len(f.Body)))); err != nil {
			return // the reader ends as well, since run's context does
		}
		if kind != "" {
			sent(kind)
		}
	}
}

func (l *link) isDeaf() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deaf
}

func (l *link) say(deaf bool) {
	l.mu.Lock()
	l.deaf = deaf
	l.mu.Unlock()
	wake(l.words)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// links are the streams in use, at most one to each host.
type links struct {
	mu *sync.Mutex
	m  map[cluster.NodeID]*link // guarded by mu
}

func newLinks() links { return links{mu: new(sync.Mutex), m: make(map[cluster.NodeID]*link)} }

// put takes l into use, in place of another if that is to go, and reports
// whether it did. Of two streams dialled by different ends that of the host
// with the lower node id stays.
func (t links) put(l *link, lower bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.m[l.node]
	if old == nil && len(t.m) >= path.MaxStreams {
		return false
	}
	if old != nil {
		if old.dialled != l.dialled && l.dialled != lower {
			return false
		}
		l.deaf = old.isDeaf()
		_ = rawConn(old.conn).Close() // its goroutines end by that
	}
	t.m[l.node] = l
	return true
}

// has reports whether l is in use.
func (t links) has(l *link) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.m[l.node] == l
}

// drop takes l out of use; it reports whether it was.
func (t links) drop(l *link) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m[l.node] != l {
		return false
	}
	delete(t.m, l.node)
	return true
}

func (t links) get(node cluster.NodeID) *link {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.m[node]
}

// close ends the stream to node; its end is told as every other.
func (t links) close(node cluster.NodeID) {
	if l := t.get(node); l != nil {
		_ = rawConn(l.conn).Close() // its goroutines end by that
	}
}

func (t links) say(node cluster.NodeID, deaf bool) {
	if l := t.get(node); l != nil {
		l.say(deaf)
	}
}

// linkTake is what became of a message.
type linkTake int

const (
	linkNone linkTake = iota // there is no stream
	linkFull
	linkTaken
)

func (t links) send(node cluster.NodeID, m linkMessage) linkTake {
	l := t.get(node)
	if l == nil {
		return linkNone
	}
	select {
	case l.out <- m:
		return linkTaken
	default:
		return linkFull
	}
}
