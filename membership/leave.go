package membership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
)

// Bounds of leaving.
const (
	// leaveTime bounds a leave as a whole, answer included.
	leaveTime = 25 * time.Second
	// leftLogWait bounds the wait until others have the event of a leave.
	leftLogWait = 3 * time.Second
	// noticeTime bounds the sending of the notice, which takes half a second.
	noticeTime = 3 * time.Second
)

// ErrLeft ends the daemon of a host that left, which is no failure.
var ErrLeft = errors.New("left the cluster")

// Leave takes this host out of the cluster. actor asked for it.
func (s *Own) Leave(ctx context.Context, actor string) (api.Left, error) {
	return ask(ctx, s, func(ctx context.Context) (api.Left, error) { return s.leave(ctx, actor) })
}

// leave carries out Leave: the voters go on without this host, the state
// directory is marked, the log says so, and every member gets the notice that
// ends its key. Until the mark is on disk everything can be undone; from then on
// leaving runs to its end even if the caller stops waiting. If the host dies
// meanwhile, the others must remove it.
func (s *Own) leave(ctx context.Context, actor string) (api.Left, error) {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	others := s.others()
	if err := s.mayLeave(others); err != nil {
		return api.Left{}, err
	}
	var rec member.Signed
	if len(others) > 0 {
		var err error
		if rec, err = s.selfRevoke(ctx); err != nil {
			return api.Left{}, fmt.Errorf("leave: %w", err)
		}
		// The holder takes this host out of the voters; if that is this host,
		// it hands over first.
		if err := s.o.Depart(ctx, actor); err != nil {
			return api.Left{}, err
		}
	}
	if err := join.MarkLeft(s.o.StateDir); err != nil {
		return api.Left{}, fmt.Errorf("leave: %w", err)
	}
	s.left.Store(true)
	informed := []cluster.NodeID{}
	if len(others) > 0 {
		ctx := context.WithoutCancel(ctx) // each step has its own bound
		s.logLeave(ctx, actor)
		informed = s.o.Alive()
		s.notice(ctx, rec)
	}
	s.o.Logger.Info().Str("actor", actor).Int("informed", len(informed)).Msg("left the cluster")
	s.o.End(ErrLeft)
	return api.Left{Told: informed}, nil
}

// notice informs the others that this host's key ends.
func (s *Own) notice(ctx context.Context, rec member.Signed) {
	ctx, cancel := context.WithTimeout(ctx, noticeTime)
	defer cancel()
	if err := s.o.Coord.Leave(ctx, rec); err != nil {
		s.o.Logger.Warn().Err(err).Msg("notice of departure not sent to every member")
	}
}

// mayLeave refuses to leave where that would take the root key from the others.
func (s *Own) mayLeave(others []cluster.NodeID) error {
	if s.left.Load() {
		return api.Errorf(api.CodeConflict, "%s has left the cluster", s.id.Node)
	}
	root, err := join.RootKey(s.o.StateDir, s.id.RootPub)
	if err != nil {
		return err
	}
	if root != nil && len(others) > 0 {
		return api.Errorf(api.CodeConflict, "the cluster's root key lies on this host, in %s", s.o.StateDir).
			WithHint("move it to a safe place first: `skein root export --out FILE --remove`")
	}
	return nil
}

// logLeave logs the departure and waits briefly until others have the event.
func (s *Own) logLeave(ctx context.Context, actor string) {
	ctx, cancel := context.WithTimeout(ctx, leftLogWait)
	defer cancel()
	seq, err := s.o.Journal.Append(ctx, event.KindMemberLeft, event.MemberLeft{Node: s.id.Node, Actor: actor})
	if err == nil {
		_, err = s.o.WaitStable(ctx, seq)
	}
	if err != nil {
		s.o.Logger.Warn().Err(err).Msg("event of the departure may not reach the others")
	}
}

// selfRevoke signs the end of this host's own key.
func (s *Own) selfRevoke(ctx context.Context) (member.Signed, error) {
	var cert member.Cert
	var ok bool
	if err := s.o.Coord.WithTable(ctx, func(t *member.Table) { cert, ok = t.Cert(s.id.Node) }); err != nil {
		return member.Signed{}, err
	}
	if !ok {
		return member.Signed{}, fmt.Errorf("no certificate of %s", s.id.Node)
	}
	return join.Leave(s.id, cert, time.Now())
}
