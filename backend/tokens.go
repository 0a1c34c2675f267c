package backend

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/join/door"
	"github.com/skein-project/skein/coord/join/token"
	"github.com/skein-project/skein/forward"
)

// Sponsor is this host as one that admits others.
type Sponsor interface {
	// Invites returns its invites, nil if it admits nobody.
	Invites() *join.Invites
	// NotSponsor returns the answer of a host that admits nobody.
	NotSponsor() *api.Problem
}

// tokens keeps this host's invites.
type tokens struct {
	id      *join.Identity
	sponsor Sponsor
	others  func() []cluster.NodeID                  // sponsors
	addrs   func(via api.TokenVia) ([]string, error) // where newcomers reach this host
	record  Recorder
	logger  zerolog.Logger
}

// CreateToken implements status.TokenKeeper.
func (t *tokens) CreateToken(ctx context.Context, actor string, req api.TokenRequest) (api.TokenCreated, error) {
	invites := t.sponsor.Invites()
	if invites == nil {
		return api.TokenCreated{}, t.sponsor.NotSponsor()
	}
	addrs, err := t.addrs(req.Via)
	if err != nil {
		return api.TokenCreated{}, err
	}
	now := time.Now()
	ttl := time.Duration(req.TTLSeconds * float64(time.Second))
	tok, err := invites.CreateFor(token.For{Owner: req.Owner, Ephemeral: req.Ephemeral}, t.id, addrs, ttl, req.Uses, now)
	if err != nil {
		return api.TokenCreated{}, api.Errorf(api.CodeInvalidRequest, "%v", err)
	}
	t.logger.Info().Str("actor", actor).Str("invite", tok.Invite).Int("uses", req.Uses).Msg("invite created")
	t.record.Record(ctx, event.KindTokenCreated, event.TokenChanged{
		Invite: tok.Invite, Uses: req.Uses, Expires: tok.Deadline.Unix(), Actor: forward.At(actor, t.id.Node), Ephemeral: req.Ephemeral,
	})
	made := api.Token{
		ID: tok.Invite, CreatedAt: now.UTC(), ExpiresAt: tok.Deadline.UTC(), Uses: req.Uses, Spent: []cluster.NodeID{}, Owner: req.Owner, Ephemeral: req.Ephemeral,
	}
	return api.TokenCreated{Token: made, Secret: api.Secret(tok.Reveal())}, nil
}

// Tokens implements status.TokenKeeper.
func (t *tokens) Tokens(context.Context) (api.Tokens, error) {
	out := api.Tokens{Tokens: []api.Token{}}
	invites := t.sponsor.Invites()
	if invites == nil {
		return out, nil
	}
	for _, i := range invites.List() {
		out.Tokens = append(out.Tokens, api.Token{
			ID: i.ID, CreatedAt: i.Created, ExpiresAt: i.Expires, Uses: i.Uses, Spent: i.Spent, Revoked: i.Revoked, Owner: i.Owner, Ephemeral: i.Ephemeral,
		})
	}
	return out, nil
}

// RevokeToken implements status.TokenKeeper.
func (t *tokens) RevokeToken(ctx context.Context, actor, id string) error {
	invites := t.sponsor.Invites()
	if invites == nil {
		return &api.Elsewhere{Hosts: t.others(), Problem: t.sponsor.NotSponsor()}
	}
	changed := event.TokenChanged{Invite: id, Actor: forward.At(actor, t.id.Node)}
	for _, i := range invites.List() {
		if i.ID == id {
			changed.Uses, changed.Expires = i.Uses, i.Expires.Unix()
		}
	}
	if err := invites.Revoke(id); errors.Is(err, door.ErrNoInvite) {
		return &api.Elsewhere{Hosts: t.others(), Problem: api.Errorf(api.CodeNotFound, "no invite %s on %s", id, t.id.Node).
			WithHint("an invite ends on the sponsor that made it: see `skein token ls` there")}
	} else if err != nil {
		return err
	}
	t.logger.Info().Str("actor", actor).Str("invite", id).Msg("invite revoked")
	t.record.Record(ctx, event.KindTokenRevoked, changed)
	return nil
}
