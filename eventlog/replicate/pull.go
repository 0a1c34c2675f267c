package replicate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/eventlog/wire"
	"github.com/skein-project/skein/internal/wait"
)

// pullLoop pulls from a random peer now and then, mostly of this host's zone. It ends when ctx ends.
func (r *Replicator) pullLoop(ctx context.Context) {
	if r.o.PullEvery < 0 {
		return
	}
	for {
		every := r.o.PullEvery
		if r.Voters().Has(r.o.Self) || r.follows.Load() {
			every *= 5 // pushes keep voters current, and following keeps others
		}
		// The pause varies by a tenth either way.
		if wait.For(ctx, time.Duration((0.9+r.o.Float()/5)*float64(every))) != nil {
			return
		}
		own := r.st.Digest()
		peers := slices.DeleteFunc(slices.Clone(r.o.Peers()), func(n cluster.NodeID) bool { return n == r.o.Self || r.same(n, own) })
		if len(peers) == 0 {
			continue
		}
		if here := r.near(); len(here) > 0 && r.o.Float() >= farShare {
			far := func(n cluster.NodeID) bool { return !slices.Contains(here, n) }
			if own := slices.DeleteFunc(slices.Clone(peers), far); len(own) > 0 {
				peers = own
			}
		}
		peer := peers[int(r.o.Float()*float64(len(peers)))%len(peers)]
		if err := r.Sync(ctx, peer); err != nil && ctx.Err() == nil {
			r.log.Debug().Str("peer", string(peer)).Err(err).Msg("pull ended early")
		}
	}
}

// same reports whether a peer has just said that it has what is here: a stream to
// it would show that and no more.
func (r *Replicator) same(peer cluster.NodeID, own [16]byte) bool {
	if r.o.Said == nil {
		return false
	}
	digest, ok := r.o.Said(peer)
	return ok && digest == own
}

// Sync pulls from peer every event that it holds and this log does not. It
// returns at once if a Sync with that peer is under way. What was stored
// before an error stays; a later Sync goes on from there.
func (r *Replicator) Sync(ctx context.Context, peer cluster.NodeID) error {
	r.mu.Lock()
	busy := r.busy[peer]
	r.busy[peer] = true
	r.mu.Unlock()
	if busy {
		return nil
	}
	defer func() {
		r.mu.Lock()
		delete(r.busy, peer)
		r.mu.Unlock()
	}()
	_, err := r.pull(ctx, peer, 0, r.Follow)
	return err
}

// pull exchanges heads with peer and fetches what is missing here. With a
// term, peer must have promised it, and every chain that peer knows must be
// fetched whole, or contradict a signed one here; without, chains of unknown
// hosts are passed over. open opens the stream.
func (r *Replicator) pull(ctx context.Context, peer cluster.NodeID, term cluster.Term, open func(context.Context, cluster.NodeID) (*Conn, error)) (fetched int, err error) {
	result := "error"
	defer func() {
		r.m.pulls.WithLabelValues(result).Inc()
		err = r.m.ended(err)
	}()
	conn, err := open(ctx, peer)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	p := &puller{r: r, conn: conn}
	heads, same, err := conn.askHeads(term, r.st.Digest())
	if err != nil {
		return 0, fmt.Errorf("ask %s for heads: %w", peer, err)
	}
	if same {
		r.m.behind.Set(0)
		result = "equal"
		return 0, nil
	}
	if renewed, err := r.OwnElsewhere(ctx, heads); err != nil {
		return 0, err
	} else if renewed && term > 0 {
		return 0, fmt.Errorf("%w: found on %s", store.ErrRolledBack, peer)
	}
	if err := p.pullForks(ctx); err != nil {
		return 0, fmt.Errorf("ask %s for forks: %w", peer, err)
	}
	fetched, err = p.fetchAll(ctx, heads, term)
	if err != nil {
		r.o.Snapshots.Missed(peer, err)
		return fetched, fmt.Errorf("pull from %s: %w", peer, err)
	}
	result = "fetched"
	return fetched, nil
}

// puller fetches over one stream what a peer has and this host lacks.
type puller struct {
	r    *Replicator
	conn *Conn
}

// fetchAll pulls every chain up to its head, as far as it is missing here. See
// pull for the term.
func (p *puller) fetchAll(ctx context.Context, heads []event.Head, term cluster.Term) (fetched int, err error) {
	r := p.r
	var errs []error
	missing := r.missing(heads)
	r.m.behind.Set(float64(missing))
	began := time.Now()
	defer func() { r.m.caughtUp(fetched, time.Since(began)) }()
	for _, h := range heads {
		n, err := p.fetch(ctx, h)
		fetched += n
		missing -= min(missing, uint64(n))
		r.m.behind.Set(float64(missing))
		switch {
		case err == nil:
			continue
		case term == 0 && errors.Is(err, errUnknownSource):
			continue
		case term > 0 && errors.Is(err, store.ErrEquivocation):
			continue // a second history must not hold up the other chains
		}
		errs = append(errs, fmt.Errorf("fetch %s: %w", h.Source, err))
		if errors.Is(err, errStream) {
			break
		}
	}
	return fetched, errors.Join(errs...)
}

// missing is how many events up to the heads are not here.
func (r *Replicator) missing(heads []event.Head) (n uint64) {
	for _, h := range heads {
		if have := r.st.Head(h.Source).Seq; have < h.Seq {
			n += h.Seq - have
		}
	}
	return n
}

// fetch pulls one chain up to h, or to where it forks.
func (p *puller) fetch(ctx context.Context, h event.Head) (n int, err error) {
	r := p.r
	key := r.st.KeyOf(h.Source.Node)
	if key == nil {
		return 0, fmt.Errorf("%w %s", errUnknownSource, h.Source.Node)
	}
	have := r.st.Head(h.Source)
	upto := h.Seq
	if f, ok := r.st.Fork(h.Source); ok {
		upto = min(upto, f.Seq-1)
		if hash, ok, err := r.st.HashAt(h.Source, f.Seq-1); err == nil && ok && hash != f.Prev {
			return 0, p.investigate(ctx, h.Source, upto)
		}
	} else if have.Seq == h.Seq && have.Hash != h.Hash {
		return 0, p.investigate(ctx, h.Source, h.Seq)
	}
	if have.Seq >= upto {
		return 0, nil
	}
	n, err = p.fetchRuns(ctx, h.Source, have.Seq, upto)
	if held := r.st.Head(h.Source).Seq; errors.Is(err, store.ErrEquivocation) && !errors.Is(err, errStream) && (evidence{p.r}).unproven(h.Source, held) {
		if err := p.investigate(ctx, h.Source, held); err != nil {
			return n, err
		}
	}
	return n, err
}

// HeadsOf asks peer for the ends of its chains. With a term, peer answers
// only once it has promised that term, so that whatever an older term gets
// acknowledged there is below these heads; else the error wraps ErrRefused.
func (r *Replicator) HeadsOf(ctx context.Context, peer cluster.NodeID, term cluster.Term) ([]event.Head, error) {
	conn, err := r.dial(ctx, peer)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	heads, same, err := conn.askHeads(term, r.st.Digest())
	if err != nil {
		return nil, fmt.Errorf("ask %s for heads: %w", peer, err)
	}
	if same {
		return r.st.Heads(), nil
	}
	for _, h := range heads {
		if key := r.st.KeyOf(h.Source.Node); key != nil {
			if err := record.VerifyHead(r.o.Cluster, h, key); err != nil {
				return nil, fmt.Errorf("%w: head of %s from %s: %w", wire.ErrPeer, h.Source, peer, err)
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
func (r *Replicator) CatchUp(ctx context.Context, term cluster.Term, granters []cluster.NodeID, majority int) error {
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
		wg.Go(func() { answers <- answer{g, r.catchUpFrom(ctx, g, term)} })
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
func (r *Replicator) catchUpFrom(ctx context.Context, peer cluster.NodeID, term cluster.Term) error {
	var last error
	for {
		var err error
		if peer == r.o.Self {
			if p := r.o.Promised(); p < term || p == Abstaining {
				err = fmt.Errorf("%w: this host has promised term %d, not %d", ErrRefused, p, term)
			}
		} else {
			_, err = r.pull(ctx, peer, term, r.dial)
		}
		if err == nil {
			return ctx.Err()
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		if wait.For(ctx, backoffMin) != nil {
			return errors.Join(last, ctx.Err())
		}
	}
}

// CheckOwnHead asks peers how much of this host's own chain they hold. It is
// for the time after a start, before the first Append: if one of them knows
// more than the disk, the log goes on as a new incarnation. It returns how
// many answered.
func (r *Replicator) CheckOwnHead(ctx context.Context, peers []cluster.NodeID) (answered int, err error) {
	var mu sync.Mutex
	var all []event.Head
	var wg sync.WaitGroup
	for _, p := range peers {
		if p == r.o.Self {
			continue
		}
		wg.Go(func() {
			heads, err := r.HeadsOf(ctx, p, 0)
			if err != nil {
				r.log.Debug().Str("peer", string(p)).Err(err).Msg("own head not checked")
				return
			}
			mu.Lock()
			answered++
			all = append(all, heads...)
			mu.Unlock()
		})
	}
	wg.Wait()
	if _, err := r.OwnElsewhere(ctx, all); err != nil {
		return answered, err
	}
	return answered, nil
}
