package coord

import (
	"context"
	"fmt"

	"github.com/skein-project/skein/coord/member"
)

// Leave floods a revocation: this host's own, by which it leaves, or one that
// a sponsor signed for another. It returns when it was sent to every member
// that can be reached. A host that revoked itself sends nothing after that.
func (s *Service) Leave(ctx context.Context, rec member.Signed) error {
	var refused error
	err := s.call(ctx, func() { refused = s.addRecords(member.Records{Revokes: []member.Signed{rec}}, "", true) })
	if err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	return refused
}

// Tune changes what may change while the service runs.
func (s *Service) Tune(t Tunables) { _ = t }
