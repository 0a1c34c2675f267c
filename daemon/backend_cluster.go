package daemon

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
)

// CreateToken implements status.TokenKeeper.
func (b backend) CreateToken(ctx context.Context, actor string, ttl time.Duration, uses int, via api.TokenVia) (api.TokenCreated, error) {
	invites := b.invites.Load()
	if invites == nil {
		return api.TokenCreated{}, b.notSponsor()
	}
	addrs, err := b.joinAddrs(via)
	if err != nil {
		return api.TokenCreated{}, err
	}
	now := time.Now()
	token, err := invites.Create(b.id, addrs, ttl, uses, now)
	if err != nil {
		return api.TokenCreated{}, api.Errorf(api.CodeInvalidRequest, "%v", err)
	}
	b.log.Info().Str("actor", actor).Str("invite", token.Invite).Int("uses", uses).Msg("invite created")
	b.record(ctx, cluster.KindTokenCreated, cluster.TokenChanged{
		Invite: token.Invite, Uses: uses, Expires: token.Deadline.Unix(), Actor: b.at(actor),
	})
	return api.TokenCreated{
		Token: api.Token{
			ID: token.Invite, CreatedAt: now.UTC(), ExpiresAt: token.Deadline.UTC(), Uses: uses, Spent: []cluster.NodeID{},
		},
		Secret: api.Secret(token.Reveal()),
	}, nil
}

// Tokens implements status.TokenKeeper.
func (b backend) Tokens(context.Context) (api.Tokens, error) {
	out := api.Tokens{Tokens: []api.Token{}}
	invites := b.invites.Load()
	if invites == nil {
		return out, nil
	}
	for _, i := range invites.List() {
		out.Tokens = append(out.Tokens, api.Token{
			ID: i.ID, CreatedAt: i.Created, ExpiresAt: i.Expires, Uses: i.Uses, Spent: i.Spent, Revoked: i.Revoked,
		})
	}
	return out, nil
}

// RevokeToken implements status.TokenKeeper.
func (b backend) RevokeToken(ctx context.Context, actor, id string) error {
	invites := b.invites.Load()
	if invites == nil {
		return b.notSponsor()
	}
	changed := cluster.TokenChanged{Invite: id, Actor: b.at(actor)}
	for _, i := range invites.List() {
		if i.ID == id {
			changed.Uses, changed.Expires = i.Uses, i.Expires.Unix()
		}
	}
	if err := invites.Revoke(id); errors.Is(err, join.ErrNoInvite) {
		return api.Errorf(api.CodeNotFound, "no invite %s on %s", id, b.id.Node).
			WithHint("an invite ends on the sponsor that made it: see `skein token ls` there")
	} else if err != nil {
		return err
	}
	b.log.Info().Str("actor", actor).Str("invite", id).Msg("invite revoked")
	b.record(ctx, cluster.KindTokenRevoked, changed)
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

// sortedKeys returns the keys of m in order.
func sortedKeys[K interface{ ~string }, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
