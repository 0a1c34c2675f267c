package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// protoAPI is the stream protocol by which a host hands a request to the
// holder: one JSON request, one JSON reply.
const protoAPI = "skein-api/1"

// Bounds of a forwarded request.
const (
	maxHolderMessage = 1 << 20
	holderTime       = 30 * time.Second
	holderDial       = 2 * time.Second
	// holderPause lies between tries while the holder changes.
	holderPause = 100 * time.Millisecond
)

// holderRequest is what only the holder may do; one field but Actor is set.
type holderRequest struct {
	Actor    string             `json:"actor"` // who asked, as the receiving host authenticated it
	Submit   *api.SubmitRequest `json:"submit,omitempty"`
	Stop     *stopJob           `json:"stop,omitempty"`
	StepDown *stepDown          `json:"step_down,omitempty"`
}

// stepDown asks the holder of one term to hand over.
type stepDown struct {
	Term cluster.Term `json:"term"`
	api.StepDownRequest
}

type stopJob struct {
	Job    cluster.JobID `json:"job"`
	Reason string        `json:"reason,omitempty"`
}

// holderReply answers it: Problem, or what was asked for.
type holderReply struct {
	Problem *api.Problem        `json:"problem,omitempty"`
	Submit  *api.SubmitResponse `json:"submit,omitempty"`
}

// toHolder carries a request to whoever holds the lease, here or elsewhere,
// and follows the lease while it moves, until ctx ends. A request may so be
// carried out twice, and must not mind: a submit is known by its key, a stop
// says what is to be, a step-down names its term.
func (n *node) toHolder(ctx context.Context, req holderRequest) (holderReply, error) {
	ctx, cancel := context.WithTimeout(ctx, holderTime)
	defer cancel()
	for {
		reply, err := n.askHolder(ctx, req)
		if err != nil {
			reply.Problem = api.Errorf(api.CodeNoHolder, "holder not reached: %v", err)
		}
		switch {
		case reply.Problem == nil:
			return reply, nil
		case reply.Problem.Code != api.CodeNoHolder && reply.Problem.Code != api.CodeNotReady:
			return reply, reply.Problem
		}
		timer := time.NewTimer(holderPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return reply, reply.Problem
		case <-timer.C:
		}
	}
}

// askHolder asks the holder of this moment, once.
func (n *node) askHolder(ctx context.Context, req holderRequest) (holderReply, error) {
	switch holder := n.coord.View().Lease.Holder; holder {
	case "":
		return holderReply{Problem: api.Errorf(api.CodeNoHolder, "no holder is known").WithHint("skein wait --for holder")}, nil
	case n.id.Node:
		return n.asHolder(ctx, req), nil
	default:
		return n.ask(ctx, holder, req)
	}
}

// ask sends req to another host and waits for its answer for as long as that
// host holds the lease.
func (n *node) ask(ctx context.Context, to cluster.NodeID, req holderRequest) (holderReply, error) {
	dialCtx, cancelDial := context.WithTimeout(ctx, holderDial)
	conn, err := n.coord.Dial(dialCtx, to, protoAPI)
	cancelDial()
	if err != nil {
		return holderReply{}, err
	}
	defer conn.Close()
	asked, done := context.WithCancel(ctx)
	defer done()
	go n.whileHolder(asked, to, conn)
	if err := json.NewEncoder(conn).Encode(req); err != nil {
		return holderReply{}, fmt.Errorf("ask %s: %w", to, err)
	}
	var reply holderReply
	if err := json.NewDecoder(io.LimitReader(conn, maxHolderMessage)).Decode(&reply); err != nil {
		return holderReply{}, fmt.Errorf("ask %s: %w", to, err)
	}
	if reply.Problem == nil && req.Submit != nil && reply.Submit == nil {
		return holderReply{}, fmt.Errorf("ask %s: %w", to, errors.New("empty answer"))
	}
	return reply, nil
}

// whileHolder ends the waiting on conn when to does not hold the lease any
// more: a holder that was killed never answers. It ends with ctx.
func (n *node) whileHolder(ctx context.Context, to cluster.NodeID, conn net.Conn) {
	tick := time.NewTicker(holderPause)
	defer tick.Stop()
	for n.coord.View().Lease.Holder == to {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
	_ = conn.SetDeadline(time.Now()) // a stream always has deadlines
}

// serveAPI answers one forwarded request of a member.
func (n *node) serveAPI(ctx context.Context, from cluster.NodeID, conn net.Conn) {
	ctx, cancel := context.WithTimeout(ctx, holderTime)
	defer cancel()
	_ = conn.SetDeadline(time.Now().Add(holderTime)) // a stream always has deadlines
	var req holderRequest
	var reply holderReply
	if err := json.NewDecoder(io.LimitReader(conn, maxHolderMessage)).Decode(&req); err != nil {
		reply.Problem = api.Errorf(api.CodeInvalidRequest, "request of %s: %v", from, err)
	} else {
		reply = n.asHolder(ctx, req)
	}
	if err := json.NewEncoder(conn).Encode(reply); err != nil {
		n.log.Debug().Err(err).Str("peer", string(from)).Msg("forwarded request not answered")
	}
}

// asHolder does req here; if this host does not hold, it says so.
func (n *node) asHolder(ctx context.Context, req holderRequest) holderReply {
	v := n.coord.View()
	if v.Lease.Role != cluster.RoleHolder {
		return holderReply{Problem: api.Errorf(api.CodeNoHolder, "%s does not hold the lease", n.id.Node)}
	}
	switch {
	case req.Submit != nil:
		out, err := n.submitHere(ctx, *req.Submit, req.Actor)
		if err != nil {
			return holderReply{Problem: problemOf(err)}
		}
		return holderReply{Submit: &out}
	case req.Stop != nil:
		if err := n.sched.Stop(ctx, req.Stop.Job, req.Actor, req.Stop.Reason); err != nil {
			return holderReply{Problem: problemOf(err)}
		}
		return holderReply{}
	case req.StepDown != nil:
		if v.Lease.Term != req.StepDown.Term {
			return holderReply{} // that term is over, which is what was asked for
		}
		reason := req.StepDown.Reason
		if reason == "" {
			reason = "asked by " + req.Actor
		}
		if err := n.coord.StepDown(ctx, req.StepDown.To, reason, false); err != nil {
			return holderReply{Problem: api.Errorf(api.CodeConflict, "%v", err)}
		}
		return holderReply{}
	}
	return holderReply{Problem: api.Errorf(api.CodeInvalidRequest, "empty request")}
}

// StepDown implements status.LeaseControl. It returns the lease that was given
// up.
func (b backend) StepDown(ctx context.Context, actor string, req api.StepDownRequest) (api.Lease, error) {
	before, err := b.Lease(ctx)
	if err != nil {
		return before, err
	}
	_, err = b.toHolder(ctx, holderRequest{StepDown: &stepDown{Term: before.Term, StepDownRequest: req}, Actor: actor})
	return before, err
}
