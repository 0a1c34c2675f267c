package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/gateway/auth"
	"github.com/skein-project/skein/gateway/push"
	"github.com/skein-project/skein/gateway/registry"
	"github.com/skein-project/skein/gateway/rpc"
)

// lookEvery is how soon the connections end of who is shut out, once this host's log says
// so.
const lookEvery = 250 * time.Millisecond

// admission says which workers may be connected here.
type admission struct {
	reg *registry.Registry
	// tokenOf is whose a token is, and until when; refused counts one that is none.
	tokenOf func(text string) (cluster.NodeID, time.Time, error)
	refused func()
}

func admissionOf(g *Gateway) admission {
	return admission{reg: g.reg, tokenOf: g.workerOf, refused: g.metrics.failed.Inc}
}

// connects is whose token it is that somebody connects with, and until when; hello is
// api.WorkConnect, or nothing.
func (a admission) connects(token string, hello []byte) (cluster.NodeID, time.Time, error) {
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
	worker, until, err := a.tokenOf(token)
	switch {
	case errors.Is(err, auth.ErrExpired):
		err = push.ErrExpired
	case err != nil:
		a.refused()
	}
	return worker, until, err
}

// stays says why a worker may not be connected here; nil: it may. Of whom it knows nothing
// this gateway may have yet to hear: a token may come sooner than the log.
func (a admission) stays(worker cluster.NodeID) error {
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

// shutOut ends the connections of workers that may not stay, until ctx ends. It looks at
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
		for _, worker := range a.reg.Shut(at.Workers()) {
			if why, shut := errors.AsType[*api.Disconnect](a.stays(worker)); shut {
				at.End(worker, "", *why)
			}
		}
	}
}
