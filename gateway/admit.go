package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/gateway/auth"
	"github.com/skein-project/skein/gateway/channel"
	"github.com/skein-project/skein/gateway/push"
	"github.com/skein-project/skein/gateway/registry"
	"github.com/skein-project/skein/gateway/rpc"
)

// lookEvery is how soon the connections end of who is shut out, once this host's log says
// so.
const lookEvery = 250 * time.Millisecond

// admission says which clients may be connected here, and what they may listen to.
type admission struct {
	reg  *registry.Registry
	wall func() time.Time
	// tokenOf is whose a token is, and until when; refused counts one that is none.
	tokenOf func(text string) (auth.Client, time.Time, error)
	refused func()
}

func admissionOf(g *Gateway) admission {
	return admission{reg: g.reg, wall: g.wall, tokenOf: g.clientOf, refused: g.metrics.failed.Inc}
}

// connects is whose token it is that somebody connects with, and until when; hello is
// api.WorkConnect, or nothing.
func (a admission) connects(token string, hello []byte) (auth.Client, time.Time, error) {
	if len(hello) > 0 {
		var is api.WorkConnect
		if err := rpc.Decode(hello, &is); err != nil {
			return "", time.Time{}, err
		}
		if is.Client < api.GatewayClient {
			return "", time.Time{}, &api.Disconnect{
				Code: api.DisconnectTooOld, Reason: fmt.Sprintf("client %d is too old: this gateway serves client %d and newer", is.Client, api.GatewayClient),
			}
		}
	}
	client, until, err := a.tokenOf(token)
	switch {
	case errors.Is(err, auth.ErrExpired):
		err = push.ErrExpired
	case err != nil:
		a.refused()
	}
	return client, until, err
}

// stays says why a client may not be connected here; nil: it may. This
// gateway may have yet to hear of a client that it does not know: its token may arrive
// before the log does.
func (a admission) stays(client auth.Client) error {
	if id, listens := client.Access(); listens {
		if _, good, known := a.reg.Holder(id, a.wall()); !known {
			return api.Errorf(api.CodeNotReady, "this gateway does not know the access token yet")
		} else if !good {
			return &api.Disconnect{Code: api.DisconnectRevoked, Reason: "the access token is revoked or has ended, or its owner may do nothing at present"}
		}
		return nil
	}
	worker, _ := client.Worker()
	w, known := a.reg.Worker(worker)
	switch {
	case !known:
		return api.Errorf(api.CodeNotReady, "this gateway does not know the worker yet")
	case w.Revoked:
		return &api.Disconnect{Code: api.DisconnectRevoked, Reason: "revoked"}
	case w.Disabled:
		return &api.Disconnect{Code: api.DisconnectRevoked, Reason: "revoked: its owner may do nothing at present"}
	}
	return nil
}

// listens says why a client may not listen to a channel; nil: it may.
func (a admission) listens(client auth.Client, name string) *channel.Error {
	by := channel.Listener{}
	by.Worker, _ = client.Worker()
	if id, ok := client.Access(); ok {
		if is, good, _ := a.reg.Holder(id, a.wall()); good {
			by.Owner, by.Roles = is.Owner, is.Roles
		}
	}
	return channel.Listen(by, name, a.reg.JobOwner)
}

// shutOut ends the connections of clients that may not stay, until ctx ends. It looks at
// them only when the log says something else of anybody: there may be very many.
func (a admission) shutOut(ctx context.Context, at front) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var seen registry.Moment
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := a.reg.Moment()
		if now == seen {
			continue
		}
		seen = now
		var workers []cluster.NodeID
		var suspects []auth.Client
		for _, c := range at.Clients() {
			if w, works := c.Worker(); works {
				workers = append(workers, w)
			} else {
				suspects = append(suspects, c)
			}
		}
		for _, w := range a.reg.Shut(workers) {
			suspects = append(suspects, auth.OfWorker(w))
		}
		for _, c := range suspects {
			if why, shut := errors.AsType[*api.Disconnect](a.stays(c)); shut {
				at.End(c, "", *why)
			}
		}
	}
}
