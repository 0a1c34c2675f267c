package membership

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/mesh/topo"
)

// The change of the WireGuard key. The steps, each safe to be cut short by a
// crash at any time:
//
//  1. The new key is written down beside the old one.
//  2. It is announced as the next one. Peers add it without addresses.
//  3. Once every peer that is not dead knows, or after a while one of them, the
//     new key replaces the old one on disk, then in the device, which at once
//     begins a handshake with every peer, and then it is announced. Peers move
//     the addresses when they see the handshake, or hear of it.
//
// A daemon that starts after step 1 or 2 announces its old key, which takes
// back step 2; after step 3 it starts with the new key, which every peer knows
// already. Peers never move by the clock alone: a host that crashed and still
// has its old key would be locked out.

// rotateLead is how long the peers have to learn the next key, or rotateBeats of
// their heartbeats if that is longer, since those confirm it. In a large cluster
// few confirm in time; there it is rotateEach per peer, twice the time that it
// takes to reach them all.
const (
	rotateLead  = 10 * time.Second
	rotateBeats = 3
	rotateEach  = 100 * time.Millisecond
)

// rotateFor is how long a change waits for a single host that knows the next key,
// before it is given up. While somebody else uses the present key, the moment when
// the change is needed most, hosts fall silent for seconds again and again.
const rotateFor = 5 * time.Minute

// rotation is a change of key that was announced.
type rotation struct {
	key   [32]byte
	at    time.Time
	until time.Time // given up then
	actor string
	// knows are the hosts that have the announcement: what they once had they
	// keep, however silent they are afterwards.
	knows map[cluster.NodeID]bool
}

// step is what becomes of a change of key at a time.
type step int

const (
	stay   step = iota // the present key
	change             // to the next one
	giveUp
)

// next decides how the change goes on at now; members are those of the view, self
// among them. It waits for every host that is not dead, from r.at on for one only,
// which tells the others. waiting are the hosts that are not known to know.
func (r *rotation) next(self cluster.NodeID, members []coord.MemberView, now time.Time) (s step, waiting []string) {
	others, known := 0, 0
	// A view of before the announcement says nothing about who has that.
	told := slices.ContainsFunc(members, func(m coord.MemberView) bool {
		return m.Node == self && string(m.NextWG) == string(r.key[:])
	})
	for _, m := range members {
		if m.Node == self {
			continue
		}
		others++
		switch r.knows[m.Node] = r.knows[m.Node] || told && m.Synced; {
		case r.knows[m.Node]:
			known++
		case m.Health != cluster.Dead:
			waiting = append(waiting, string(m.Node))
		}
	}
	switch {
	case (known > 0 || told && others == 0) && (len(waiting) == 0 || !now.Before(r.at)):
		return change, waiting
	case !now.Before(r.until):
		return giveUp, waiting
	}
	return stay, waiting
}

// begin announces a new key, or returns the change that is under way.
func (s *Own) begin(ctx context.Context, actor string) (api.Rotated, error) {
	if s.left.Load() {
		return api.Rotated{}, api.Errorf(api.CodeConflict, "%s has left the cluster", s.id.Node)
	}
	if s.rotation == nil {
		key, err := join.StageWGKey(s.o.StateDir, s.id)
		if err != nil {
			return api.Rotated{}, fmt.Errorf("rotate key: %w", err)
		}
		lead := max(rotateLead, rotateBeats*s.o.Heartbeat, time.Duration(len(s.others()))*rotateEach)
		at := time.Now().Add(lead).Truncate(time.Second)
		s.rotation = &rotation{key: key, at: at, until: at.Add(rotateFor), actor: actor, knows: make(map[cluster.NodeID]bool)}
		s.gaveUp.Store(new(""))
		about, err := s.about()
		if err == nil {
			err = s.announce(ctx, about)
		}
		if err != nil {
			s.rotation = nil
			return api.Rotated{}, fmt.Errorf("rotate key: %w", err)
		}
		s.o.Logger.Info().Str("actor", actor).Time("at", s.rotation.at).Msg("next wireguard key announced")
	}
	return api.Rotated{
		PublicKey:     base64.StdEncoding.EncodeToString(s.id.WGPub[:]),
		NextPublicKey: base64.StdEncoding.EncodeToString(s.rotation.key[:]),
		At:            s.rotation.at.UTC(),
		Until:         s.rotation.until.UTC(),
	}, nil
}

// rotate carries out an announced change once the peers know the key. Hosts that
// do not answer learn it from the others, so at least one must know it.
func (s *Own) rotate(ctx context.Context) error {
	r := s.rotation
	if r == nil {
		return nil
	}
	switch next, waiting := r.next(s.id.Node, s.o.Coord.View().Members, time.Now()); next {
	case change:
		return s.switchKey(ctx, r)
	case giveUp:
		s.keepKey(fmt.Errorf("no other host is known to have the next one, waited for until %s: %s",
			r.until.UTC().Format(time.RFC3339), cmp.Or(strings.Join(waiting, ", "), "none is alive")))
	}
	return nil
}

// keepKey ends a change: the next announcement takes it back.
func (s *Own) keepKey(why error) {
	s.rotation = nil
	s.gaveUp.Store(new(why.Error()))
	s.o.Logger.Error().Err(why).Msg("key not changed")
}

// RotateError says why the last change of key was given up; empty: it was not.
func (s *Own) RotateError() string { return *s.gaveUp.Load() }

// others lists the other members that did not leave.
func (s *Own) others() []cluster.NodeID {
	var out []cluster.NodeID
	for _, m := range s.o.Coord.View().Members {
		if m.Node != s.id.Node {
			out = append(out, m.Node)
		}
	}
	return out
}

// switchKey replaces the key by the next one. Once it is on disk there is no way
// back: an error ends the daemon, and the next start uses the new key.
func (s *Own) switchKey(ctx context.Context, r *rotation) error {
	id, err := join.PromoteWGKey(s.o.StateDir, s.id)
	if err != nil {
		s.keepKey(err)
		return nil
	}
	s.id, s.rotation = id, nil
	if err := s.o.SetKey(ctx, id); err != nil {
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
		s.o.Logger.Warn().Err(err).Msg("new wireguard key not announced yet")
		s.saidAt = time.Time{} // again at the next turn
	}
	s.o.Logger.Info().Str("actor", r.actor).Msg("wireguard key changed")
	s.o.Journal.Note(event.KindMemberRekeyed, event.MemberRekeyed{Node: s.id.Node, WGPub: id.WGPub[:], Actor: r.actor})
	return nil
}

// RotateKey announces another WireGuard key, and changes to it once the others
// know it. actor asked for it.
func (s *Own) RotateKey(ctx context.Context, actor string) (api.Rotated, error) {
	return ask(ctx, s, func(ctx context.Context) (api.Rotated, error) { return s.begin(ctx, actor) })
}

// FormerKeys returns keys that this host's own records name and that it no longer
// has: a kernel device that outlived the daemon may still use one.
func FormerKeys(id *join.Identity, records member.Records) []topo.Key {
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
