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
func (m *Members) Leave(ctx context.Context, rec member.Signed) error {
	r, err := member.ParseRevoke(rec)
	if err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	own := m.key.Equal(r.IDPub)
	var members []cluster.Member // as they were
	var refused error
	err = m.loop.call(ctx, func() {
		members = m.hosts.members
		if own {
			m.elector.Leave()
			m.elector.Stop()
		}
		refused = m.records.Add(member.Records{Revokes: []member.Signed{rec}}, "", true)
	})
	if err = errors.Join(err, refused); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	for range leaveRounds - 1 {
		if err := wait.For(ctx, leavePause); err != nil {
			return fmt.Errorf("leave: %w", err)
		}
		err := m.loop.call(ctx, func() { m.records.SendRevoke(rec, members, len(members)) })
		if err != nil {
			return fmt.Errorf("leave: %w", err)
		}
	}
	return nil
}
