package backend

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/zones"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/forward/zonewatch"
	"github.com/skein-project/skein/scheduler/plan"
	"github.com/skein-project/skein/worker"
)

// Worker is the worker of this host.
type Worker interface {
	View() worker.View
	Drain(ctx context.Context, drained bool) error
}

// workerLister knows the workers of all hosts, on the holder.
type workerLister interface {
	Workers() []plan.WorkerView
}

// workers shows this host's worker and those of all hosts, and drains them.
type workers struct {
	*zones.Board
	*zonewatch.Hub
	self   cluster.NodeID
	worker Worker
	sched  workerLister
	view   func() *coord.View
	now    func() time.Duration
	roster Roster
	record Recorder
	remote *forward.Router
	logger zerolog.Logger
}

func (w *workers) summary() api.WorkerSummary {
	v := w.worker.View()
	return api.WorkerSummary{Slots: v.Slots, Running: len(v.Running), Queued: v.Queued, Kept: v.Kept, Draining: v.Draining}
}

// Drain implements status.WorkerControl.
func (w *workers) Drain(ctx context.Context, actor string, req api.DrainRequest) (api.Drain, error) {
	if req.Node == "" || req.Node == w.self {
		return w.drainHere(ctx, forward.At(actor, w.self), req.Undo)
	}
	if _, ok := w.roster.Member(req.Node); !ok {
		return api.Drain{}, api.NoMember(req.Node)
	}
	out, err := forward.AskHost(ctx, w.remote, forward.Drain, req.Node, actor, req)
	out.Header = api.Header{}
	return out, err
}

// drainHere drains this host's worker. That it shall be drained is on the disk when
// it returns.
func (w *workers) drainHere(ctx context.Context, actor string, undo bool) (api.Drain, error) {
	if err := w.worker.Drain(ctx, !undo); err != nil {
		return api.Drain{}, api.Errorf(api.CodeNotReady, "%v", err)
	}
	w.logger.Info().Str("actor", actor).Bool("draining", !undo).Msg("drain of the worker changed")
	if len(w.view().Unaware(event.KindWorkerDrained)) == 0 {
		w.record.Record(ctx, event.KindWorkerDrained, event.WorkerDrained{Drained: !undo, Actor: actor})
	}
	sum := w.summary()
	sum.Draining = !undo
	return api.Drain{Node: w.self, Worker: sum}, nil
}

// drainFor answers another member.
func (w *workers) drainFor(ctx context.Context, by forward.Asker, req api.DrainRequest) (api.Drain, error) {
	return w.drainHere(ctx, by.Actor, req.Undo)
}
