package backend

import (
	"context"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/stops"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/forward"
)

// Own is this host as a member.
type Own interface {
	// Leave takes this host out of the cluster for good.
	Leave(ctx context.Context, actor string) (api.Left, error)
	// RotateKey announces a new WireGuard key.
	RotateKey(ctx context.Context, actor string) (api.Rotated, error)
	// RotateError says why the last change of key was given up, if it was.
	RotateError() string
}

// members changes who is in the mesh, and under which key.
type members struct {
	gone   *stops.Stops
	self   cluster.NodeID
	own    Own
	roster Roster
	remote *forward.Router
}

// RotateKey implements status.MeshControl.
func (m *members) RotateKey(ctx context.Context, actor string) (api.Rotated, error) {
	return m.own.RotateKey(ctx, forward.At(actor, m.self))
}

// Leave implements status.MeshControl.
func (m *members) Leave(ctx context.Context, actor string) (api.Left, error) {
	return m.own.Leave(ctx, forward.At(actor, m.self))
}

// Remove implements status.MeshControl.
func (m *members) Remove(ctx context.Context, actor string, node cluster.NodeID, reason string) (api.Removed, error) {
	if err := (api.RemoveRequest{Reason: reason}).Check(); err != nil {
		return api.Removed{}, err
	}
	if _, ok := m.roster.Member(node); !ok {
		switch {
		case m.roster.LeftSponsor(node): // the root key ends its key all the same
		case m.roster.IsRetired(node):
			return api.Removed{Member: node}, nil
		default:
			return api.Removed{}, api.NoMember(node)
		}
	}
	if node == m.self {
		return api.Removed{}, &api.Elsewhere{
			Hosts: m.remote.Sponsors(), Problem: api.Errorf(api.CodeConflict, "%s is this host", node).WithHint("to leave the cluster: `skein leave`"),
		}
	}
	removed, err := forward.AskSponsor(ctx, m.remote, forward.Remove, forward.At(actor, m.self), forward.RemoveNode{Node: node, Reason: reason})
	if err != nil {
		return api.Removed{}, err
	}
	return api.Removed{Member: node, By: removed.By}, nil
}
