package daemon

import (
	"context"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// notYet refuses what this build cannot do.
func notYet(what string) error {
	return api.Errorf(api.CodeConflict, "%s is not available yet", what)
}

// Leave implements status.MeshControl.
func (b backend) Leave(context.Context, string) (api.Left, error) {
	return api.Left{}, notYet("leaving")
}

// Remove implements status.MeshControl.
func (b backend) Remove(context.Context, string, cluster.NodeID, string) (api.Removed, error) {
	return api.Removed{}, notYet("removal")
}

// RotateKey implements status.MeshControl.
func (b backend) RotateKey(context.Context, string) (api.Rotated, error) {
	return api.Rotated{}, notYet("a change of key")
}
