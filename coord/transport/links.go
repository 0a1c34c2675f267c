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
func (ls *links) start(ctx context.Context) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.ctx = ctx
}

// begin dials a member's onion service and serves the stream. It reports
// whether it did; the owner hears the rest as path events.
func (ls *links) begin(node cluster.NodeID) bool {
	ls.mu.Lock()
	ctx := ls.ctx
	ls.mu.Unlock()
	if ctx == nil {
		return false
	}
	jitter := ls.rand()
	ls.wg.Go(func() {
		dctx, cancel := context.WithTimeout(ctx, onionConnect)
		conn, err := ls.dial(dctx, node)
		cancel()
		if err != nil {
			ls.m.onionDials.WithLabelValues("error").Inc()
			if ctx.Err() == nil && ls.gate.Pass("onion/"+string(node)) {
				ls.log.Debug().Err(err).Str("peer", string(node)).Msg("onion service not reached")
			}
			ls.post(func() { ls.step(path.Failed{Node: node, Jitter: jitter}) })
			return
		}
		ls.m.onionDials.WithLabelValues("ok").Inc()
		ls.serve(ctx, node, conn, true)
	})
	return true
}

// accept is the Handler of streams that other hosts opened.
func (ls *links) accept(ctx context.Context, from cluster.NodeID, conn net.Conn) {
	ls.serve(ctx, from, conn, false)
}

// serve carries datagrams both ways until the stream ends.
func (ls *links) serve(ctx context.Context, node cluster.NodeID, conn net.Conn, dialled bool) {
	defer conn.Close()
	l := newLink(node, conn, dialled)
	// Which of two streams stays goes by the node ids, so that both ends keep
	// the same one; of two from one end the later.
	if !ls.put(l, ls.self < node) {
		if dialled {
			ls.post(func() { ls.second(node) })
		}
		return
	}
	ls.m.onionStreams.Inc()
	defer ls.m.onionStreams.Dec()
	ls.post(func() {
		if ls.has(l) {
			ls.step(path.Opened{Node: node})
		}
	})
	err := l.run(ctx, linkHooks{
		message: func(b []byte) { ls.message(node, b) },
		word: func(deaf bool) {
			ls.post(func() {
				if ls.has(l) {
					ls.step(path.Word{Node: node, Deaf: deaf})
				}
			})
		},
		sent: func(kind wire.Type) { ls.m.sent.WithLabelValues(string(kind)).Inc() },
	})
	if err != nil && ctx.Err() == nil && ls.gate.Pass("link/"+string(node)) {
		ls.log.Debug().Err(err).Str("peer", string(node)).Msg("stream to an onion service ended")
	}
	jitter := ls.rand()
	ls.post(func() {
		if ls.drop(l) {
			ls.step(path.Closed{Node: node, Jitter: jitter})
		}
	})
}

// second ends a dial whose stream gave way to another one that stays.
func (ls *links) second(node cluster.NodeID) {
	if jitter := ls.rand(); ls.get(node) == nil {
		ls.step(path.Failed{Node: node, Jitter: jitter})
		return
	}
	ls.step(path.Opened{Node: node})
}

// put takes l into use, in place of another if that has to go, and reports
// whether it did. Of two streams dialled by different ends that of the host
// with the lower node id stays.
func (ls *links) put(l *link, lower bool) bool {
	var gone *link
	defer func() {
		if gone != nil {
			_ = rawConn(gone.conn).Close() // its goroutines end by that
		}
	}()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	old := ls.open[l.node]
	if old == nil && len(ls.open) >= path.MaxStreams {
		return false
	}
	if old != nil {
		if old.dialled != l.dialled && l.dialled != lower {
			return false
		}
		l.deaf, gone = old.isDeaf(), old
	}
	ls.open[l.node] = l
	return true
}

// has reports whether l is in use.
func (ls *links) has(l *link) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.open[l.node] == l
}

// drop takes l out of use; it reports whether it was.
func (ls *links) drop(l *link) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.open[l.node] != l {
		return false
	}
	delete(ls.open, l.node)
	return true
}

func (ls *links) get(node cluster.NodeID) *link {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.open[node]
}

// close ends the stream to node; its end is reported like any other.
func (ls *links) close(node cluster.NodeID) {
	if l := ls.get(node); l != nil {
		_ = rawConn(l.conn).Close() // its goroutines end by that
	}
}

func (ls *links) say(node cluster.NodeID, deaf bool) {
	if l := ls.get(node); l != nil {
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

func (ls *links) send(node cluster.NodeID, m linkMessage) linkTake {
	l := ls.get(node)
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
