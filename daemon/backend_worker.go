package daemon

import (
	"context"

	"github.com/skein-project/skein/api"
)

func (n *node) workerSummary() api.WorkerSummary {
	w := n.worker.View()
	return api.WorkerSummary{Slots: w.Slots, Running: len(w.Running), Queued: w.Queued, Kept: w.Kept, Draining: w.Draining}
}

// Drain implements status.WorkerControl.
func (b backend) Drain(ctx context.Context, actor string, req api.DrainRequest) (api.Drain, error) {
	if req.Node == "" || req.Node == b.id.Node {
		return orProblem(b.drainHere(ctx, actor, req.Undo))
	}
	if _, ok := b.member(req.Node); !ok {
		return api.Drain{}, noMember(req.Node)
	}
	ctx, cancel := context.WithTimeout(ctx, holderTime)
	defer cancel()
	reply, err := b.ask(ctx, req.Node, remoteRequest{Drain: &req, Actor: actor}, false)
	if err != nil {
		return api.Drain{}, api.Errorf(api.CodeNotReady, "%s not reached: %v", req.Node, err).WithHint("see `skein mesh`")
	}
	if reply.Problem != nil {
		return api.Drain{}, reply.Problem
	}
	reply.Drain.Header = api.Header{}
	return *reply.Drain, nil
}

// drainHere carries out a drain of this host's worker. The wish is on the disk
// when it answers.
func (n *node) drainHere(ctx context.Context, actor string, undo bool) (api.Drain, *api.Problem) {
	if err := n.worker.Drain(ctx, !undo); err != nil {
		return api.Drain{}, api.Errorf(api.CodeNotReady, "%v", err)
	}
	n.log.Info().Str("actor", actor).Bool("draining", !undo).Msg("drain of the worker changed")
	w := n.workerSummary()
	w.Draining = !undo
	return api.Drain{Node: n.id.Node, Worker: w}, nil
}

// drainFor answers another member.
func (n *node) drainFor(ctx context.Context, actor string, req api.DrainRequest) remoteReply {
	d, p := n.drainHere(ctx, actor, req.Undo)
	if p != nil {
		return remoteReply{Problem: p}
	}
	return remoteReply{Drain: &d}
}
