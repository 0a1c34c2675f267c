package transport

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
	"github.com/skein-project/skein/internal/bucket"
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
	var frames bucket.Bucket
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
		if !frames.Take(bucket.Rate{PerSecond: linkRate, Burst: linkBurst}, time.Since(start)) {
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
