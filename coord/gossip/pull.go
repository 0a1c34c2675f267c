package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
)

// Proto is the stream protocol by which a host fetches the membership
// records that it lacks: the asker sends pullRequest, the other answers
// pullReply, both as a 4-byte big-endian length and JSON, and closes.
const Proto = "skein-pull/1"

// Bounds of a pull.
const (
	timeout        = 10 * time.Second
	maxPullRequest = 256 << 10
	maxPullItems   = 2 * member.MaxMembers
	pullPause      = time.Second // after the first pull that brought nothing
	maxPullPause   = time.Minute
	pullBatch      = 32 // records merged in one turn of the loop
	maxPulls       = 4  // at once, of all peers
)

// Limits bound what a peer that asks without end gets; an honest one asks
// once a second at most, and not twice at once.
var Limits = transport.Limits{Peer: 2, All: 64, Rate: 5, Burst: 30}

// pullState is about pulls from one peer.
type pullState struct {
	running bool
	again   time.Duration // not before
	pause   time.Duration
	theirs  wire.Digest // digests at the last pull that brought nothing
	ours    [16]byte
}

type pullRequest struct {
	Have []member.Item `json:"have"`
}

type pullReply struct {
	Records member.Records `json:"records"`
}

// Want starts a pull from a peer whose records differ, one at a time and
// not again for a while if the last one with these digests brought nothing.
func (r *Records) Want(from cluster.NodeID, theirs wire.Digest) {
	now := r.o.Now()
	ps := r.pulls[from]
	if ps == nil {
		ps = &pullState{}
		r.pulls[from] = ps
	}
	if ps.running || r.pulling() >= maxPulls {
		return
	}
	if now < ps.again && ps.theirs == theirs && ps.ours == r.digest {
		return
	}
	if ps.theirs != theirs || ps.ours != r.digest {
		ps.pause = 0
	}
	ps.theirs, ps.ours = theirs, r.digest
	have := r.table.Summary()
	ps.running = r.o.Go(func(ctx context.Context) {
		rs, err := r.pull(ctx, from, have)
		stored := false
		if err == nil {
			stored, err = r.merge(ctx, from, rs)
		}
		r.o.Post(func() { r.pulled(from, stored, err) })
	})
}

func (r *Records) pulling() int {
	n := 0
	for _, p := range r.pulls {
		if p.running {
			n++
		}
	}
	return n
}

// pulled ends a pull in the loop.
func (r *Records) pulled(node cluster.NodeID, stored bool, err error) {
	outcome := "same"
	switch {
	case err != nil && !stored:
		outcome = "error"
	case stored:
		outcome = "new"
	}
	r.outcomes.WithLabelValues(outcome).Inc()
	if err != nil && r.o.Gate.Pass("pull/"+string(node)) {
		r.o.Logger.Warn().Err(err).Str("peer", string(node)).Msg("membership records not pulled")
	}
	ps := r.pulls[node]
	if ps == nil {
		return // removed meanwhile
	}
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		r.o.TimedOut(node)
	}
	ps.running = false
	if stored {
		ps.pause, ps.again = 0, 0
		return
	}
	ps.pause = min(max(2*ps.pause, pullPause), maxPullPause)
	ps.again = r.o.Now() + ps.pause
}

// pull fetches what have lacks.
func (r *Records) pull(ctx context.Context, from cluster.NodeID, have []member.Item) (member.Records, error) {
	var reply pullReply
	if err := r.o.Net.Ask(ctx, from, Proto, timeout, pullRequest{Have: have}, member.MaxRecordsBytes, &reply); err != nil {
		return member.Records{}, fmt.Errorf("pull records: %w", err)
	}
	return reply.Records, nil
}

// merge merges records in batches, so that checking a thousand
// signatures does not keep the loop from its lease.
func (r *Records) merge(ctx context.Context, from cluster.NodeID, rs member.Records) (stored bool, err error) {
	var refused error
	for _, batch := range rs.Batches(pullBatch) {
		cerr := r.o.Call(ctx, func() {
			before := r.digest
			if err := r.Add(batch, from, false); err != nil && refused == nil {
				refused = err
			}
			stored = stored || r.digest != before
		})
		if cerr != nil {
			return stored, cerr
		}
	}
	return stored, refused
}

// serve answers one pull.
func (r *Records) serve(ctx context.Context, from cluster.NodeID, conn net.Conn) {
	err := func() error {
		if err := conn.SetDeadline(time.Now().Add(r.o.Net.Paths().TimeFor(from, timeout))); err != nil {
			return err
		}
		var req pullRequest
		if err := transport.ReadFrame(conn, maxPullRequest, &req); err != nil {
			return err
		}
		if len(req.Have) > maxPullItems {
			return fmt.Errorf("%d items, at most %d", len(req.Have), maxPullItems)
		}
		var reply pullReply
		if err := r.o.Call(ctx, func() { reply.Records = r.table.Missing(req.Have) }); err != nil {
			return err
		}
		return transport.WriteFrame(conn, reply)
	}()
	if err != nil && ctx.Err() == nil && r.o.Gate.Pass("serve-pull/"+string(from)) {
		r.o.Logger.Debug().Err(err).Str("peer", string(from)).Msg("pull not served")
	}
}
