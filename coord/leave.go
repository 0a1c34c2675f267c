package coord

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/internal/wait"
)

const (
	// leaveRounds and leavePause say how often a host says that it leaves:
	// afterwards nobody can ask it.
	leaveRounds = 4
	leavePause  = 150 * time.Millisecond
)

// Leave takes a revocation, this host's own or one that a sponsor signed for
// another, and tells every member at once; it returns when that is sent,
// several times since datagrams get lost. A host that revoked itself gives the
// lease up before and says nothing after that.
func (s *Service) Leave(ctx context.Context, rec member.Signed) error {
	r, err := member.ParseRevoke(rec)
	if err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	own := publicKey(s.o.Key).Equal(r.IDPub)
	var members []cluster.Member // as they were
	var refused error
	err = s.call(ctx, func() {
		members = s.members
		if own {
			s.elector.Leave()
			s.elector.Stop()
		}
		refused = s.records.Add(member.Records{Revokes: []member.Signed{rec}}, "", true)
	})
	if err = errors.Join(err, refused); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	for range leaveRounds - 1 {
		if err := wait.For(ctx, leavePause); err != nil {
			return fmt.Errorf("leave: %w", err)
		}
		err := s.call(ctx, func() { s.records.SendRevoke(rec, members, len(members)) })
		if err != nil {
			return fmt.Errorf("leave: %w", err)
		}
	}
	return nil
}

// Tune changes what may change while the service runs.
func (s *Service) Tune(t Tunables) {
	if t.Tolerance <= 0 {
		t.Tolerance = DefaultTolerance
	}
	s.net.SetTolerance(t.Tolerance)
}
