package transport

import (
	"context"
	"net"
	"sync"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/path"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/loglimit"
)

// links are the streams between onion services in use, at most one to each
// host, and the goroutines that serve them.
type links struct {
	self cluster.NodeID
	rand func() float64
	// dial opens a stream to a member's onion service; message takes a datagram
	// that came over one.
	dial    func(context.Context, cluster.NodeID) (net.Conn, error)
	message func(cluster.NodeID, []byte)
	// post runs a function on the owner's goroutine; step tells the owner, there,
	// what became of a stream.
	post func(func())
	step func(path.Event)
	m    *metrics
	log  zerolog.Logger
	gate *loglimit.Gate
	wg   sync.WaitGroup // dials, and the streams that came of them

	mu   sync.Mutex
	ctx  context.Context          //nolint:containedctx // guarded by mu; of Run, lent to dials; nil before
	open map[cluster.NodeID]*link // guarded by mu
}

// start lets dials begin; they end with ctx.
func (t *links) start(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ctx = ctx
}

// begin dials a member's onion service and serves the stream. It reports
// whether it did; the owner hears the rest as path events.
func (t *links) begin(node cluster.NodeID) bool {
	t.mu.Lock()
	ctx := t.ctx
	t.mu.Unlock()
	if ctx == nil {
		return false
	}
	jitter := t.rand()
	t.wg.Go(func() {
		dctx, cancel := context.WithTimeout(ctx, onionConnect)
		conn, err := t.dial(dctx, node)
		cancel()
		if err != nil {
			t.m.onionDials.WithLabelValues("error").Inc()
			if ctx.Err() == nil && t.gate.Pass("onion/"+string(node)) {
				t.log.Debug().Err(err).Str("peer", string(node)).Msg("onion service not reached")
			}
			t.post(func() { t.step(path.Failed{Node: node, Jitter: jitter}) })
			return
		}
		t.m.onionDials.WithLabelValues("ok").Inc()
		t.serve(ctx, node, conn, true)
	})
	return true
}

// accept is the Handler of streams that other hosts opened.
func (t *links) accept(ctx context.Context, from cluster.NodeID, conn net.Conn) {
	t.serve(ctx, from, conn, false)
}

// serve carries datagrams both ways until the stream ends.
func (t *links) serve(ctx context.Context, node cluster.NodeID, conn net.Conn, dialled bool) {
	defer conn.Close()
	l := newLink(node, conn, dialled)
	// Which of two streams stays goes by the node ids, so that both ends keep
	// the same one; of two from one end the later.
	if !t.put(l, t.self < node) {
		if dialled {
			t.post(func() { t.second(node) })
		}
		return
	}
	t.m.onionStreams.Inc()
	defer t.m.onionStreams.Dec()
	t.post(func() {
		if t.has(l) {
			t.step(path.Opened{Node: node})
		}
	})
	err := l.run(ctx, linkHooks{
		message: func(b []byte) { t.message(node, b) },
		word: func(deaf bool) {
			t.post(func() {
				if t.has(l) {
					t.step(path.Word{Node: node, Deaf: deaf})
				}
			})
		},
		sent: func(kind wire.Type) { t.m.sent.WithLabelValues(string(kind)).Inc() },
	})
	if err != nil && ctx.Err() == nil && t.gate.Pass("link/"+string(node)) {
		t.log.Debug().Err(err).Str("peer", string(node)).Msg("stream to an onion service ended")
	}
	jitter := t.rand()
	t.post(func() {
		if t.drop(l) {
			t.step(path.Closed{Node: node, Jitter: jitter})
		}
	})
}

// second ends a dial whose stream gave way to another one that stays.
func (t *links) second(node cluster.NodeID) {
	if jitter := t.rand(); t.get(node) == nil {
		t.step(path.Failed{Node: node, Jitter: jitter})
		return
	}
	t.step(path.Opened{Node: node})
}

// put takes l into use, in place of another if that has to go, and reports
// whether it did. Of two streams dialled by different ends that of the host
// with the lower node id stays.
func (t *links) put(l *link, lower bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.open[l.node]
	if old == nil && len(t.open) >= path.MaxStreams {
		return false
	}
	if old != nil {
		if old.dialled != l.dialled && l.dialled != lower {
			return false
		}
		l.deaf = old.isDeaf()
		_ = rawConn(old.conn).Close() // its goroutines end by that
	}
	t.open[l.node] = l
	return true
}

// has reports whether l is in use.
func (t *links) has(l *link) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[l.node] == l
}

// drop takes l out of use; it reports whether it was.
func (t *links) drop(l *link) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[l.node] != l {
		return false
	}
	delete(t.open, l.node)
	return true
}

func (t *links) get(node cluster.NodeID) *link {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[node]
}

// close ends the stream to node; its end is reported like any other.
func (t *links) close(node cluster.NodeID) {
	if l := t.get(node); l != nil {
		_ = rawConn(l.conn).Close() // its goroutines end by that
	}
}

func (t *links) say(node cluster.NodeID, deaf bool) {
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

func (t *links) send(node cluster.NodeID, m linkMessage) linkTake {
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
