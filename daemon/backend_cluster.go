package daemon

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
)

// CreateToken implements status.TokenKeeper.
func (b backend) CreateToken(_ context.Context, actor string, ttl time.Duration, uses int) (api.TokenCreated, error) {
	if b.invites == nil {
		return api.TokenCreated{}, b.notSponsor()
	}
	addrs, err := b.joinAddrs()
	if err != nil {
		return api.TokenCreated{}, err
	}
	now := time.Now()
	token, err := b.invites.Create(b.id, addrs, ttl, uses, now)
	if err != nil {
		return api.TokenCreated{}, api.Errorf(api.CodeInvalidRequest, "%v", err)
	}
	b.log.Info().Str("actor", actor).Str("invite", token.Invite).Int("uses", uses).Msg("invite created")
	return api.TokenCreated{
		Token: api.Token{
			ID: token.Invite, CreatedAt: now.UTC(), ExpiresAt: token.Deadline.UTC(), Uses: uses, Spent: []cluster.NodeID{},
		},
		Secret: api.Secret(token.Reveal()),
	}, nil
}

func (b backend) notSponsor() error {
	p := api.Errorf(api.CodeConflict, "%s may not admit hosts: it holds no sponsor certificate", b.id.Node)
	return p.WithHint("create the token on the first host of the cluster")
}

// Tokens implements status.TokenKeeper.
func (b backend) Tokens(context.Context) (api.Tokens, error) {
	out := api.Tokens{Tokens: []api.Token{}}
	if b.invites == nil {
		return out, nil
	}
	for _, i := range b.invites.List() {
		out.Tokens = append(out.Tokens, api.Token{
			ID: i.ID, CreatedAt: i.Created, ExpiresAt: i.Expires, Uses: i.Uses, Spent: i.Spent, Revoked: i.Revoked,
		})
	}
	return out, nil
}

// RevokeToken implements status.TokenKeeper.
func (b backend) RevokeToken(_ context.Context, actor, id string) error {
	if b.invites == nil {
		return b.notSponsor()
	}
	if err := b.invites.Revoke(id); errors.Is(err, join.ErrNoInvite) {
		return api.Errorf(api.CodeNotFound, "no invite %s", id).WithHint("skein token ls")
	} else if err != nil {
		return err
	}
	b.log.Info().Str("actor", actor).Str("invite", id).Msg("invite revoked")
	return nil
}

// records is what this host knows of the members, for the sponsor.
func (n *node) records() member.Records {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	rs, err := n.coord.Records(ctx)
	if err != nil {
		n.log.Warn().Err(err).Msg("membership records not read")
	}
	return rs
}

func (n *node) meshSummary(v *coord.View) api.MeshSummary {
	sum := api.MeshSummary{Backend: n.cfg.Mesh.Backend, Listen: n.cfg.Mesh.Listen.String()}
	if self, ok := v.Member(n.id.Node); ok {
		sum.Address = self.IP4.String()
	}
	oldest, all := 0.0, true
	for _, p := range n.mesh.Observe() {
		sum.PeerCount++
		if p.LastHandshake.IsZero() {
			all = false
			continue
		}
		oldest = max(oldest, time.Since(p.LastHandshake).Seconds())
	}
	if all && sum.PeerCount > 0 {
		sum.OldestHandshakeSeconds = &oldest
	}
	return sum
}

// Mesh implements status.ClusterReader.
func (b backend) Mesh(context.Context) (api.Mesh, error) {
	v := b.coord.View()
	out := api.Mesh{MeshSummary: b.meshSummary(v), MTU: b.cfg.Mesh.MTU, Peers: []api.MeshPeer{}}
	for _, p := range b.mesh.Observe() {
		mp := api.MeshPeer{Node: p.Node, ReceivedBytes: p.Rx, SentBytes: p.Tx}
		if m, ok := v.Member(p.Node); ok {
			mp.Addr = m.IP4.String()
			if m.RTT > 0 {
				mp.RTTSeconds = new(m.RTT.Seconds())
			}
		}
		if p.Reachable {
			mp.Path = "direct"
		}
		if p.Endpoint.IsValid() {
			mp.Endpoint = p.Endpoint.String()
		}
		if !p.LastHandshake.IsZero() {
			mp.HandshakeSeconds = new(time.Since(p.LastHandshake).Seconds())
		}
		out.Peers = append(out.Peers, mp)
	}
	slices.SortFunc(out.Peers, func(x, y api.MeshPeer) int {
		if x.Node < y.Node {
			return -1
		}
		return 1
	})
	return out, nil
}

// sortedKeys returns the keys of m in order.
func sortedKeys[K interface{ ~string }, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
