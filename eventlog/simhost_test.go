package eventlog

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/replicate"
	"github.com/skein-project/skein/internal/simnet"
)

const simPort = 7000

// simHost is one host of a simulated cluster: a disk that survives it, a
// promise that it has synced, and a log while it is up.
type simHost struct {
	w    *simWorld
	id   cluster.NodeID
	net  *simnet.Host
	dir  string
	disk *powerFS

	promised atomic.Uint64 // as a voter; durable
	skew     atomic.Int64  // of the clock

	// Guarded by simWorld.mu.
	life   *simLife // nil: down
	image  *powerFS // the disk as it was once
	rolled map[event.SourceID]bool
	term   cluster.Term // that it believes to hold
	until  time.Time
}

// simLife is one run of a host's process.
type simLife struct {
	h      *simHost
	log    *Log
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	ready  atomic.Bool // its own chain was checked
}

func (h *simHost) wall() time.Time { return time.Now().Add(time.Duration(h.skew.Load())) }

func (h *simHost) options() Options {
	o := testOptions(h.dir, h.id)
	o.FS, o.SegmentSize, o.Prealloc = h.disk, 32<<10, 8<<10
	o.PullEvery, o.IOTimeout = 4*time.Second, 3*time.Second // a voter pulls every 20 s
	o.Wall = h.wall
	o.Logger = zerolog.New(h.w).Level(zerolog.WarnLevel).With().Str("host", string(h.id)).Logger()
	o.SnapshotEvents = -1
	if h.w.compacts {
		o.SnapshotEvents, o.SnapshotCheck, o.RetainBytes = 200, 2*time.Second, 1
	}
	o.Promised = func() cluster.Term { return cluster.Term(h.promised.Load()) }
	o.MayAct = func(t cluster.Term) bool { return h.w.mayAct(h, t) }
	o.Peers = func() []cluster.NodeID { return h.w.others(h) }
	o.Dial = func(ctx context.Context, to cluster.NodeID) (net.Conn, error) {
		return h.net.Dial(ctx, netip.AddrPortFrom(h.w.host(to).net.Addr(), simPort))
	}
	return o
}

// start brings the host up on its disk. The log must open without complaint
// and hold what the host acknowledged.
func (h *simHost) start() {
	l, err := Open(h.options())
	if err != nil {
		h.w.failf("%s does not start: %v", h.id, err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	life := &simLife{h: h, log: l, ctx: ctx, cancel: cancel}
	h.w.checkAcked(h, l)
	l.SetVoters(h.w.cfg)
	h.net.Start()
	ln, err := h.net.Listen(simPort)
	if err != nil {
		h.w.failf("%s: %v", h.id, err)
		cancel()
		return
	}
	life.wg.Go(func() { life.accept(ln) })
	life.wg.Go(func() {
		if err := l.Run(ctx); err != nil && !errors.Is(err, errPower) {
			h.w.failf("%s: the log ended: %v", h.id, err)
		}
		cancel()
		ln.Close()
	})
	life.wg.Go(func() { h.w.work(life) })
	h.w.mu.Lock()
	h.life = life
	h.w.mu.Unlock()
}

func (life *simLife) accept(ln *simnet.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		from := h2id(life.h.w, c.RemoteAddr())
		life.wg.Go(func() { life.log.Serve(life.ctx, from, c) })
	}
}

func h2id(w *simWorld, a net.Addr) cluster.NodeID {
	ap, err := netip.ParseAddrPort(a.String())
	if err == nil {
		for _, h := range w.hosts {
			if h.net.Addr() == ap.Addr() {
				return h.id
			}
		}
	}
	return ""
}

// stop ends the process in order; crash cuts the power, at once or within a
// few operations of the disk. Both return when nothing of it runs.
func (h *simHost) stop() { h.end(func() {}) }

func (h *simHost) crash(rng *rand.Rand) {
	h.end(func() {
		soon := rng.IntN(4)
		h.disk.mu.Lock()
		h.disk.left = soon
		h.disk.mu.Unlock()
		if soon > 0 {
			time.Sleep(time.Duration(rng.Int64N(int64(time.Second))))
		}
		h.disk.mu.Lock()
		h.disk.left = 0
		h.disk.mu.Unlock()
	})
	h.disk = h.disk.restart()
}

func (h *simHost) end(first func()) {
	h.w.mu.Lock()
	life := h.life
	h.w.mu.Unlock()
	if life == nil {
		return
	}
	first()
	h.w.mu.Lock()
	h.life = nil
	h.w.mu.Unlock()
	h.net.Crash()
	life.cancel()
	life.wg.Wait()
}

// photograph keeps what of the disk is synced, for a later restore.
func (h *simHost) photograph() {
	p := h.disk
	p.mu.Lock()
	defer p.mu.Unlock()
	image := newPowerFS(p.rng)
	image.slow = p.slow
	image.dirs, image.ddirs = maps.Clone(p.ddirs), maps.Clone(p.ddirs)
	for name, f := range p.durable {
		nf := &powerFile{name: name, disk: image, data: f.synced, synced: f.synced}
		image.files[name], image.durable[name] = nf, nf
	}
	h.image = image
}

// restore crashes the host and puts the old disk in. It has forgotten what it
// promised, so it votes no more.
func (h *simHost) restore(rng *rand.Rand) {
	h.crash(rng)
	h.w.mu.Lock()
	for src := range h.w.acked {
		if src.Node == h.id {
			h.rolled[src] = true
		}
	}
	h.w.mu.Unlock()
	h.promised.Store(uint64(replicate.Abstaining))
	h.disk, h.image = h.image, nil
}
