package daemon

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/mesh/topo"
)

// The change of the WireGuard key. The steps, each safe to be cut short by a
// crash at any time:
//
//  1. The new key is written down beside the old one.
//  2. It is announced as the next one. Peers add it without addresses.
//  3. Once every peer that is alive knows, the new key replaces the old one on
//     disk, then in the device, which at once begins a handshake with every
//     peer, and then it is announced. Peers move the addresses when they see
//     the handshake, or hear of it.
//
// A daemon that starts after step 1 or 2 announces its old key, which takes
// back step 2; after step 3 it starts with the new key, which every peer knows
// already. Peers never move by the clock alone: a host that crashed and still
// has its old key would be locked out.

// rotateLead is how long the peers have to learn of the next key, or as long
// as rotateBeats of their heartbeats take, which say that they did. In a large
// cluster few of them say so in time; there it is rotateEach per peer, twice as
// long as it takes to tell them all.
const (
	rotateLead  = 10 * time.Second
	rotateBeats = 3
	rotateEach  = 100 * time.Millisecond
)

// rotation is a change of key that was announced.
type rotation struct {
	key   [32]byte
	at    time.Time
	actor string
}

// begin announces a new key, or tells of the change that is under way.
func (s *selfCare) begin(ctx context.Context, actor string) (api.Rotated, error) {
	if s.gone {
		return api.Rotated{}, api.Errorf(api.CodeConflict, "%s has left the cluster", s.n.id.Node)
	}
	if s.rotation == nil {
		others := s.others()
		if len(others) > 0 && len(s.n.reachable()) == 0 {
			return api.Rotated{}, api.Errorf(api.CodeConflict, "no other host is alive: they would not learn of the new key").
				WithHint("see `skein members`")
		}
		key, err := join.StageWGKey(s.n.cfg.StateDir, s.id)
		if err != nil {
			return api.Rotated{}, fmt.Errorf("rotate key: %w", err)
		}
		lead := max(rotateLead, rotateBeats*s.n.timing.Heartbeat, time.Duration(len(others))*rotateEach)
		s.rotation = &rotation{key: key, at: time.Now().Add(lead).Truncate(time.Second), actor: actor}
		about, err := s.about()
		if err == nil {
			err = s.announce(ctx, about)
		}
		if err != nil {
			s.rotation = nil
			return api.Rotated{}, fmt.Errorf("rotate key: %w", err)
		}
		s.n.log.Info().Str("actor", actor).Time("at", s.rotation.at).Msg("next wireguard key announced")
	}
	return api.Rotated{
		PublicKey:     base64.StdEncoding.EncodeToString(s.id.WGPub[:]),
		NextPublicKey: base64.StdEncoding.EncodeToString(s.rotation.key[:]),
		At:            s.rotation.at.UTC(),
	}, nil
}

// others lists the other members that did not leave.
func (s *selfCare) others() []cluster.NodeID {
	var out []cluster.NodeID
	for _, m := range s.n.coord.View().Members {
		if m.Node != s.n.id.Node {
			out = append(out, m.Node)
		}
	}
	return out
}

// rotate carries an announced change out once the peers know. Hosts that do
// not answer learn the key from the others; so at least one must know it.
func (s *selfCare) rotate(ctx context.Context) error {
	r := s.rotation
	if r == nil {
		return nil
	}
	var known int
	var waiting []string
	for _, m := range s.n.coord.View().Members {
		switch {
		case m.Node == s.n.id.Node || m.Health != cluster.Alive:
		case m.Synced:
			known++
		default:
			waiting = append(waiting, string(m.Node))
		}
	}
	if len(waiting) > 0 && time.Now().Before(r.at) {
		return nil
	}
	if known == 0 && len(s.others()) > 0 {
		s.rotation = nil // the next announcement takes it back
		s.n.log.Error().Str("waiting", strings.Join(waiting, ",")).Msg("key not changed: no other host knows the next one")
		return nil
	}
	return s.switchKey(ctx, r)
}

// switchKey makes the next key the key. Once the disk has it there is no way
// back: an error ends the daemon, and the next start has the new key.
func (s *selfCare) switchKey(ctx context.Context, r *rotation) error {
	id, err := join.PromoteWGKey(s.n.cfg.StateDir, s.id)
	if err != nil {
		s.rotation = nil
		s.n.log.Error().Err(err).Msg("key not changed")
		return nil
	}
	s.id, s.rotation = id, nil
	if err := s.n.planner.do(ctx, func(ctx context.Context) error { return s.n.mesh.SetKey(ctx, id.WGKey()) }); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("change wireguard key, a restart will: %w", err)
	}
	about, err := s.about()
	if err == nil {
		err = s.announce(ctx, about)
	}
	if err != nil {
		s.n.log.Warn().Err(err).Msg("new wireguard key not announced yet")
		s.saidAt = time.Time{} // again at the next turn
	}
	s.n.log.Info().Str("actor", r.actor).Msg("wireguard key changed")
	s.n.note(cluster.KindMemberRekeyed, cluster.MemberRekeyed{Node: s.n.id.Node, WGPub: id.WGPub[:], Actor: r.actor})
	return nil
}

// RotateKey implements status.MeshControl.
func (b backend) RotateKey(ctx context.Context, actor string) (api.Rotated, error) {
	return ask(ctx, b.self, func(ctx context.Context) (api.Rotated, error) { return b.self.begin(ctx, b.at(actor)) })
}

// formerKeys are keys that this host's own records name and that it does not
// have any more: a kernel device that outlived the daemon may still have one.
func formerKeys(id *join.Identity, records member.Records) []topo.Key {
	var out []topo.Key
	for _, s := range records.Anns {
		a, err := member.ParseAnn(s)
		if err != nil || !a.IDPub.Equal(id.IDPub) {
			continue
		}
		for _, k := range [][32]byte{a.WGPub, a.Next} {
			if k != id.WGPub && k != [32]byte{} && !slices.Contains(out, topo.Key(k)) {
				out = append(out, topo.Key(k))
			}
		}
	}
	return out
}
