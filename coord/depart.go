package coord

import (
	"context"
	"fmt"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/transport"
)

// Depart tells the lease core that a member is about to leave for good, so
// that the holder takes it out of the voters while it still can say that it
// knows. It holds for d; a host that then is still a member counts again. A
// voter whose key were revoked first could not confirm its own going, which in
// a configuration of two that goes by majority blocks every change.
func (s *Service) Depart(ctx context.Context, node cluster.NodeID, d time.Duration) error {
	var refused error
	err := s.call(ctx, func() {
		p := s.peers[node]
		if p == nil {
			refused = transport.ErrNotMember
			return
		}
		now := s.now()
		p.departs = now + d
		s.reportPeers(now)
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		return fmt.Errorf("depart %s: %w", node, err)
	}
	return nil
}
