package coord

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/wire"
)

// ProtoPull is the stream protocol by which a host fetches the membership
// records that it lacks: the asker sends pullRequest, the other answers
// pullReply, both as a 4-byte big-endian length and JSON, and closes.
const ProtoPull = "skein-pull/1"

// Bounds of a pull.
const (
	pullTimeout    = 10 * time.Second
	maxPullRequest = 256 << 10
	maxPullItems   = 2 * member.MaxMembers
	pullPause      = time.Second // after the first pull that brought nothing
	maxPullPause   = time.Minute
	pullBatch      = 32 // records merged in one turn of the loop
	maxPulls       = 4  // at once, of all peers
)

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

// wantPull starts a pull from a peer whose records differ, one at a time and
// not again for a while if the last one with these digests brought nothing.
func (s *Service) wantPull(p *peerState, theirs wire.Digest) {
	now := s.now()
	ps := &p.pull
	if ps.running || s.pulling() >= maxPulls {
		return
	}
	if now < ps.again && ps.theirs == theirs && ps.ours == s.digest {
		return
	}
	if ps.theirs != theirs || ps.ours != s.digest {
		ps.pause = 0
	}
	ps.running, ps.theirs, ps.ours = true, theirs, s.digest
	have := s.table.Summary()
	ctx, node := s.runCtx, p.node
	s.pulls.Go(func() {
		rs, err := s.pull(ctx, node, have)
		stored := false
		if err == nil {
			stored, err = s.mergePulled(ctx, node, rs)
		}
		s.post(func() { s.pulled(node, stored, err) })
	})
}

func (s *Service) pulling() int {
	n := 0
	for _, p := range s.peers {
		if p.pull.running {
			n++
		}
	}
	return n
}

// pulled ends a pull in the loop.
func (s *Service) pulled(node cluster.NodeID, stored bool, err error) {
	outcome := "same"
	switch {
	case err != nil && !stored:
		outcome = "error"
	case stored:
		outcome = "new"
	}
	s.m.pulls.WithLabelValues(outcome).Inc()
	if err != nil && s.logGate.pass("pull/"+string(node)) {
		s.log.Warn().Err(err).Str("peer", string(node)).Msg("pull of membership records")
	}
	p := s.peers[node]
	if p == nil {
		return
	}
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		p.probe.next = 0 // perhaps full packets do not get through
	}
	ps := &p.pull
	ps.running = false
	if stored {
		ps.pause, ps.again = 0, 0
		return
	}
	ps.pause = min(max(2*ps.pause, pullPause), maxPullPause)
	ps.again = s.now() + ps.pause
}

// pull fetches what have lacks.
func (s *Service) pull(ctx context.Context, from cluster.NodeID, have []member.Item) (member.Records, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeFor(from, pullTimeout))
	defer cancel()
	conn, err := s.streams.dial(ctx, from, ProtoPull)
	if err != nil {
		return member.Records{}, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(s.timeFor(from, pullTimeout))); err != nil {
		return member.Records{}, fmt.Errorf("pull from %s: %w", from, err)
	}
	if err := writeFrame(conn, pullRequest{Have: have}); err != nil {
		return member.Records{}, fmt.Errorf("pull from %s: %w", from, err)
	}
	var reply pullReply
	if err := readFrame(conn, member.MaxRecordsBytes, &reply); err != nil {
		return member.Records{}, fmt.Errorf("pull from %s: %w", from, err)
	}
	return reply.Records, nil
}

// mergePulled merges records in batches, so that checking a thousand
// signatures does not keep the loop from its lease.
func (s *Service) mergePulled(ctx context.Context, from cluster.NodeID, rs member.Records) (stored bool, err error) {
	var refused error
	for _, batch := range rs.Batches(pullBatch) {
		cerr := s.call(ctx, func() {
			before := s.digest
			if err := s.addRecords(batch, from, false); err != nil && refused == nil {
				refused = err
			}
			stored = stored || s.digest != before
		})
		if cerr != nil {
			return stored, cerr
		}
	}
	return stored, refused
}

// servePull answers one pull.
func (s *Service) servePull(ctx context.Context, from cluster.NodeID, conn net.Conn) {
	err := func() error {
		if err := conn.SetDeadline(time.Now().Add(s.timeFor(from, pullTimeout))); err != nil {
			return err
		}
		var req pullRequest
		if err := readFrame(conn, maxPullRequest, &req); err != nil {
			return err
		}
		if len(req.Have) > maxPullItems {
			return fmt.Errorf("%d items, at most %d", len(req.Have), maxPullItems)
		}
		var reply pullReply
		if err := s.call(ctx, func() { reply.Records = s.table.Missing(req.Have) }); err != nil {
			return err
		}
		return writeFrame(conn, reply)
	}()
	if err != nil && ctx.Err() == nil && s.logGate.pass("serve-pull/"+string(from)) {
		s.log.Debug().Err(err).Str("peer", string(from)).Msg("pull not served")
	}
}

// writeFrame writes v as one length-prefixed JSON value.
func writeFrame(w io.Writer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode frame: %w", err)
	}
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body)))
	if _, err := w.Write(append(b, body...)); err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	return nil
}

// readFrame reads what writeFrame wrote, if it is at most limit bytes long.
// Memory grows with what arrives, not with what the length claims.
func readFrame(r io.Reader, limit int, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return fmt.Errorf("read frame: %w", err)
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n > int64(limit) {
		return fmt.Errorf("read frame: %d bytes, at most %d", n, limit)
	}
	body, err := io.ReadAll(io.LimitReader(r, n))
	if err != nil {
		return fmt.Errorf("read frame: %w", err)
	}
	if int64(len(body)) < n {
		return fmt.Errorf("read frame: %w", io.ErrUnexpectedEOF)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("decode frame: %w", err)
	}
	return nil
}
