package bundle

import (
	"context"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/forward"
)

// HostsOptions are what Hosts is made of. All must be set.
type HostsOptions struct {
	Self    cluster.NodeID
	Version string // of this program
	// Known refuses who is no member.
	Known  func(cluster.NodeID) error
	Remote *forward.Router
	Gather *Gatherer
}

// Hosts has this host, or another one, gather.
type Hosts struct{ o HostsOptions }

// NewHosts returns a Hosts.
func NewHosts(o HostsOptions) *Hosts { return &Hosts{o} }

// Debug implements status/debug.Source.
func (h *Hosts) Debug(ctx context.Context, actor string, node cluster.NodeID, ask api.DebugAsk) (api.DebugFiles, error) {
	if err := ask.Check(); err != nil {
		return api.DebugFiles{}, err
	}
	if node == "" || node == h.o.Self {
		return h.here(ctx, ask)
	}
	if err := h.o.Known(node); err != nil {
		return api.DebugFiles{}, err
	}
	out, err := forward.AskHost(ctx, h.o.Remote, forward.Debug, node, forward.At(actor, h.o.Self), forward.NewDebugRequest(ask))
	out.Header, out.Host = api.Header{}, node
	return out, err
}

// Serve answers another member.
func (h *Hosts) Serve(ctx context.Context, _ forward.Asker, req forward.DebugRequest) (api.DebugFiles, error) {
	return h.here(ctx, req.Ask())
}

func (h *Hosts) here(ctx context.Context, ask api.DebugAsk) (api.DebugFiles, error) {
	files, err := h.o.Gather.Gather(ctx, ask)
	return api.DebugFiles{Host: h.o.Self, Version: h.o.Version, Files: files}, err
}
