package replicate

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/wire"
	"github.com/skein-project/skein/internal/wait"
)

const (
	// maxFollowers bounds how many hosts follow the changes of this log.
	maxFollowers = 64
	// followFor is how long one peer is asked before another one is chosen.
	followFor = 30 * time.Second
	// followGap is the least pause between two answers: what changes meanwhile
	// comes with the next.
	followGap = 50 * time.Millisecond
	// followWait is how long an answer may wait for a change.
	followWait = 2 * time.Second
)

// followLoop makes a host to which nothing is pushed learn of new events at once:
// it keeps asking a voter, or another host, what has changed, and fetches that.
// What it misses comes with the pulls. It ends when ctx ends.
func (r *Replicator) followLoop(ctx context.Context) {
	if r.o.PullEvery < 0 {
		return
	}
	near := true // whom it follows may be in its zone
	for {
		if peer, ok := r.peerToFollow(near); ok {
			err := r.follow(ctx, peer)
			near = err == nil || !near
			r.m.following.Set(0)
			r.follows.Store(false)
			if err != nil && ctx.Err() == nil {
				r.log.Debug().Str("peer", string(peer)).Err(err).Msg("following of a peer ended")
			}
		}
		// Between half and the whole of a pull's pause, so that many hosts spread out.
		pause := func() error {
			return wait.For(ctx, time.Duration((0.5+r.o.Float()/2)*float64(r.o.PullEvery)))
		}
		if pause() != nil {
			return
		}
		for {
			_, changed := r.stab.others()
			if !r.Voters().Has(r.o.Self) {
				break
			}
			select {
			case <-changed: // perhaps it votes no longer
			case <-ctx.Done():
				return
			}
			if pause() != nil {
				return
			}
		}
	}
}

// peerToFollow chooses whom to follow; near allows the host of this zone that upstream
// names. Otherwise it is mostly a voter, sometimes any host, since each serves only so
// many. A voter follows nobody.
func (r *Replicator) peerToFollow(near bool) (cluster.NodeID, bool) {
	cfg := r.Voters()
	if cfg.IsZero() || cfg.Has(r.o.Self) {
		return "", false
	}
	if here := r.near(); near && len(here) > 0 && r.o.Float() >= farShare {
		if to, ok := upstream(r.o.Self, here, cfg.Has); ok {
			return to, true
		}
	}
	peers := slices.DeleteFunc(slices.Clone(r.o.Peers()), func(n cluster.NodeID) bool { return n == r.o.Self })
	voters := slices.DeleteFunc(slices.Clone(peers), func(n cluster.NodeID) bool { return !cfg.Has(n) })
	if len(voters) > 0 && r.o.Float() < 0.75 {
		peers = voters
	}
	if len(peers) == 0 {
		return "", false
	}
	return peers[int(r.o.Float()*float64(len(peers)))%len(peers)], true
}

// follow follows one peer for a while.
func (r *Replicator) follow(ctx context.Context, peer cluster.NodeID) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration((0.9+r.o.Float()/5)*float64(followFor)))
	defer cancel()
	conn, err := r.Follow(ctx, peer)
	if err != nil {
		return err
	}
	defer conn.Close()
	p := &puller{r: r, conn: conn}
	idle := 0 // answers in a row without anything new
	for ctx.Err() == nil {
		heads, err := conn.askChanges(r.st.Digest())
		if err != nil {
			return r.followErr(ctx, err)
		}
		r.m.following.Set(1)
		r.follows.Store(true)
		if len(heads) == 0 {
			if idle++; idle >= staleAnswers && r.otherwise(peer) {
				return fmt.Errorf("%w: %s", errStale, peer)
			}
			_ = wait.For(ctx, followGap) // it should have waited itself
			continue
		}
		idle = 0
		if _, err := r.OwnElsewhere(ctx, heads); err != nil {
			return err
		}
		if _, err := p.fetchAll(ctx, heads, 0); err != nil {
			r.o.Snapshots.Missed(peer, err)
			return r.followErr(ctx, err)
		}
		_ = wait.For(ctx, followGap) // the loop looks at ctx
	}
	return nil
}

// followErr hides what the planned end of a session breaks, and counts the rest.
func (r *Replicator) followErr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return r.m.ended(err)
}

// answerTail answers with what changed since the last answer on the stream, at
// once or when something does.
func (s *stream) answerTail(ctx context.Context, b []byte) (wire.Type, []byte, error) {
	r := s.r
	if len(b) != 24 || binary.BigEndian.Uint64(b) != 0 {
		return 0, nil, fmt.Errorf("%w: question for changes", wire.ErrPeer)
	}
	if s.sent == nil {
		if r.followers.Add(1) > maxFollowers {
			r.followers.Add(-1)
			return wire.MsgRefused, binary.BigEndian.AppendUint64(nil, uint64(r.o.Promised())), nil
		}
		s.sent = map[event.SourceID]uint64{}
		if heads := r.st.Heads(); r.st.Digest() == [16]byte(b[8:]) {
			for _, h := range heads {
				s.sent[h.Source] = h.Seq
			}
		}
	}
	end := time.NewTimer(min(followWait, r.o.IOTimeout/2))
	defer end.Stop()
	for {
		changed := r.st.Changed()
		if heads := s.unsent(); len(heads) > 0 {
			frames, err := record.AppendHeads(nil, heads)
			return wire.MsgHeadsAre, frames, err
		}
		if err := r.st.Err(); err != nil {
			return 0, nil, err
		}
		select {
		case <-changed:
		case <-end.C:
			return wire.MsgSame, nil, nil
		case <-ctx.Done():
			return 0, nil, context.Cause(ctx)
		}
	}
}

// unsent are the heads that the other side was not sent yet.
func (s *stream) unsent() []event.Head {
	heads := slices.DeleteFunc(s.r.st.Heads(), func(h event.Head) bool { return s.sent[h.Source] == h.Seq })
	for _, h := range heads {
		s.sent[h.Source] = h.Seq
	}
	return heads
}

// endFollowing gives back the place of a stream that followed.
func (s *stream) endFollowing() {
	if s.sent != nil {
		s.r.followers.Add(-1)
	}
}
