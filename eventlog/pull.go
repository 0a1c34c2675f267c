package eventlog

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/record"
)

// pullLoop pulls from a random peer now and then. It ends when ctx ends.
func (rep *replicator) pullLoop(ctx context.Context) {
	l := rep.l
	if l.o.PullEvery < 0 {
		return
	}
	for {
		every := l.o.PullEvery
		rep.stab.mu.Lock()
		if rep.stab.cfg.Has(l.o.Self) || rep.tailing.Load() {
			every *= 5 // pushes keep voters current, and a peer who follows one
		}
		rep.stab.mu.Unlock()
		// The pause varies by a tenth either way.
		if !after(ctx, time.Duration((0.9+l.o.Float()/5)*float64(every))) {
			return
		}
		peers := slices.DeleteFunc(slices.Clone(l.o.Peers()), func(n cluster.NodeID) bool { return n == l.o.Self })
		if len(peers) == 0 {
			continue
		}
		peer := peers[int(l.o.Float()*float64(len(peers)))%len(peers)]
		if err := l.Sync(ctx, peer); err != nil && ctx.Err() == nil {
			l.log.Debug().Str("peer", string(peer)).Err(err).Msg("pull ended early")
		}
	}
}

// Sync pulls from peer every event that it holds and this log does not. It
// returns at once if a Sync with that peer is under way. What was stored
// before an error stays; a later Sync goes on from there.
func (l *Log) Sync(ctx context.Context, peer cluster.NodeID) error {
	rep := l.rep
	rep.mu.Lock()
	busy := rep.busy[peer]
	rep.busy[peer] = true
	rep.mu.Unlock()
	if busy {
		return nil
	}
	defer func() {
		rep.mu.Lock()
		delete(rep.busy, peer)
		rep.mu.Unlock()
	}()
	_, err := l.pull(ctx, peer, 0)
	return err
}

// pull exchanges heads with peer and fetches what is missing here. With a
// term, peer must have promised it, and every chain that peer knows must be
// fetched whole, or contradict a signed one here; without, chains of unknown
// hosts are passed over.
func (l *Log) pull(ctx context.Context, peer cluster.NodeID, term cluster.Term) (fetched int, err error) {
	result := "error"
	defer func() {
		l.m.pulls.WithLabelValues(result).Inc()
		err = l.ended(err)
	}()
	conn, done, err := l.dial(ctx, peer)
	if err != nil {
		return 0, err
	}
	defer done()
	br := bufio.NewReaderSize(conn, 64<<10)
	heads, same, err := l.askHeads(conn, br, term)
	if err != nil {
		return 0, fmt.Errorf("ask %s for heads: %w", peer, err)
	}
	if same {
		l.m.behind.Set(0)
		result = "equal"
		return 0, nil
	}
	if renewed, err := l.ownElsewhere(ctx, heads); err != nil {
		return 0, err
	} else if renewed && term > 0 {
		return 0, fmt.Errorf("%w: found on %s", ErrRolledBack, peer)
	}
	if err := l.pullForks(ctx, conn, br); err != nil {
		return 0, fmt.Errorf("ask %s for forks: %w", peer, err)
	}
	fetched, err = l.fetchAll(ctx, conn, br, heads, term)
	if err != nil {
		l.snap.missed(peer, err)
		return fetched, fmt.Errorf("pull from %s: %w", peer, err)
	}
	result = "fetched"
	return fetched, nil
}

// fetchAll pulls every chain up to its head, as far as it is missing here. See
// pull for the term.
func (l *Log) fetchAll(ctx context.Context, conn net.Conn, br *bufio.Reader, heads []cluster.Head, term cluster.Term) (fetched int, err error) {
	var errs []error
	missing := l.missing(heads)
	l.m.behind.Set(float64(missing))
	began := time.Now()
	defer func() { l.caughtUp(fetched, time.Since(began)) }()
	for _, h := range heads {
		n, err := l.fetch(ctx, conn, br, h)
		fetched += n
		missing -= min(missing, uint64(n))
		l.m.behind.Set(float64(missing))
		switch {
		case err == nil:
			continue
		case term == 0 && errors.Is(err, errUnknownSource):
			continue
		case term > 0 && errors.Is(err, ErrEquivocation):
			continue // the second history of a liar must not hold up the others
		}
		errs = append(errs, fmt.Errorf("fetch %s: %w", h.Source, err))
		if errors.Is(err, errStream) {
			break
		}
	}
	return fetched, errors.Join(errs...)
}

// missing is how many events up to the heads are not here.
func (l *Log) missing(heads []cluster.Head) (n uint64) {
	for _, h := range heads {
		if have := l.Head(h.Source).Seq; have < h.Seq {
			n += h.Seq - have
		}
	}
	return n
}

func (l *Log) askHeads(conn net.Conn, br *bufio.Reader, term cluster.Term) (heads []cluster.Head, same bool, err error) {
	m, err := l.ask(conn, br, msgHeads, headsQuestion(term, l.Digest()))
	if err != nil {
		return nil, false, err
	}
	switch {
	case m.kind == msgSame && term == 0:
		return nil, true, nil
	case m.kind == msgRefused && len(m.payload) == 8:
		return nil, false, fmt.Errorf("%w: it has promised term %d, not %d", ErrRefused, binary.BigEndian.Uint64(m.payload), term)
	case m.kind != msgHeadsAre:
		return nil, false, fmt.Errorf("%w: answer %d to a heads question", ErrPeer, m.kind)
	}
	heads, err = record.DecodeHeads(m.payload, MaxSources)
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrPeer, err)
	}
	return heads, false, nil
}

// errDropped says that the peer has dropped what was asked for.
var errDropped = errors.New("peer keeps no more")

// errStream says that a stream can carry no more questions.
var errStream = errors.New("log stream broken")

// fetch pulls one chain up to h, or to where it forks.
func (l *Log) fetch(ctx context.Context, conn net.Conn, br *bufio.Reader, h cluster.Head) (n int, err error) {
	key := l.o.keyOf(h.Source.Node)
	if key == nil {
		return 0, fmt.Errorf("%w %s", errUnknownSource, h.Source.Node)
	}
	have := l.Head(h.Source)
	upto := h.Seq
	if f, ok := l.fork(h.Source); ok {
		upto = min(upto, f.Seq-1)
		if hash, ok := l.hashAt(h.Source, f.Seq-1); ok && hash != f.Prev {
			return 0, l.investigate(ctx, conn, br, h.Source, upto)
		}
	} else if have.Seq == h.Seq && have.Hash != h.Hash {
		return 0, l.investigate(ctx, conn, br, h.Source, h.Seq)
	}
	if have.Seq >= upto {
		return 0, nil
	}
	n, err = l.fetchRuns(ctx, conn, br, h.Source, have.Seq, upto)
	if held := l.Head(h.Source).Seq; errors.Is(err, ErrEquivocation) && !errors.Is(err, errStream) && l.unproven(h.Source, held) {
		if err := l.investigate(ctx, conn, br, h.Source, held); err != nil {
			return n, err
		}
	}
	return n, err
}

// HeadsOf asks peer for the ends of its chains. With a term, peer answers
// only once it has promised that term, so that whatever an older term gets
// acknowledged there is below these heads; else the error wraps ErrRefused.
func (l *Log) HeadsOf(ctx context.Context, peer cluster.NodeID, term cluster.Term) ([]cluster.Head, error) {
	conn, done, err := l.dial(ctx, peer)
	if err != nil {
		return nil, err
	}
	defer done()
	heads, same, err := l.askHeads(conn, bufio.NewReader(conn), term)
	if err != nil {
		return nil, fmt.Errorf("ask %s for heads: %w", peer, err)
	}
	if same {
		return l.Heads(), nil
	}
	for _, h := range heads {
		if key := l.o.keyOf(h.Source.Node); key != nil {
			if err := record.VerifyHead(l.o.Cluster, h, key); err != nil {
				return nil, fmt.Errorf("%w: head of %s from %s: %w", ErrPeer, h.Source, peer, err)
			}
		}
	}
	return heads, nil
}

// CatchUp returns when this log holds everything that a majority of voters
// held after they promised term: the granters of the term, among them this
// host if it is a voter. It asks all granters at once, and again while ctx
// lasts those that fail. Every event that was stable in an older term is then
// in the log, and so in the next Cut.
func (l *Log) CatchUp(ctx context.Context, term cluster.Term, granters []cluster.NodeID, majority int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		peer cluster.NodeID
		err  error
	}
	answers := make(chan answer, len(granters)) // one slot each: never full
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, g := range granters {
		wg.Go(func() { answers <- answer{g, l.catchUpFrom(ctx, g, term)} })
	}
	got := 0
	var errs []error
	for range granters {
		if got >= majority {
			break
		}
		if a := <-answers; a.err != nil { // ends with ctx
			errs = append(errs, a.err)
		} else {
			got++
		}
	}
	if got < majority {
		return fmt.Errorf("catch up for term %d: %d of %d voters answered: %w", term, got, majority, errors.Join(errs...))
	}
	return nil
}

// catchUpFrom pulls everything from one granter, until it works or ctx ends.
// Its error is the last answer of the peer: the attempt that the end of ctx
// cuts off says nothing about the peer.
func (l *Log) catchUpFrom(ctx context.Context, peer cluster.NodeID, term cluster.Term) error {
	var last error
	for {
		var err error
		if peer == l.o.Self {
			if p := l.o.Promised(); p < term || p == Abstaining {
				err = fmt.Errorf("%w: this host has promised term %d, not %d", ErrRefused, p, term)
			}
		} else {
			_, err = l.pull(ctx, peer, term)
		}
		if err == nil {
			return ctx.Err()
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		if !after(ctx, backoffMin) {
			return errors.Join(last, ctx.Err())
		}
	}
}

// CheckOwnHead asks peers how much of this host's own chain they hold. It is
// for the time after a start, before the first Append: if one of them knows
// more than the disk, the log goes on as a new incarnation. It returns how
// many answered.
func (l *Log) CheckOwnHead(ctx context.Context, peers []cluster.NodeID) (answered int, err error) {
	var mu sync.Mutex
	var all []cluster.Head
	var wg sync.WaitGroup
	for _, p := range peers {
		if p == l.o.Self {
			continue
		}
		wg.Go(func() {
			heads, err := l.HeadsOf(ctx, p, 0)
			if err != nil {
				l.log.Debug().Str("peer", string(p)).Err(err).Msg("own head not checked")
				return
			}
			mu.Lock()
			answered++
			all = append(all, heads...)
			mu.Unlock()
		})
	}
	wg.Wait()
	if _, err := l.ownElsewhere(ctx, all); err != nil {
		return answered, err
	}
	return answered, nil
}
