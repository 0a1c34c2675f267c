package offline

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/mesh/hostnet"
)

// ExportRoot writes the cluster's root key to the file out, which must not
// exist, and with remove takes it off this host. The daemon may run.
func ExportRoot(cfg config.Config, out string, remove bool) error {
	return adviseCommand(join.ExportRoot(cfg.StateDir, out, remove))
}

// ImportRoot puts a root key that ExportRoot wrote into the state directory. A
// running daemon finds it, and makes its host a sponsor.
func ImportRoot(cfg config.Config, in string) error {
	err := join.ImportRoot(cfg.StateDir, in)
	hint := "name a file that `skein root export --out FILE` wrote; without one the cluster goes on with the sponsors that it has"
	damaged, ok := errors.AsType[*durable.DamagedError](err)
	switch {
	case err == nil, ok && damaged.Hint() != "", errors.Is(err, fs.ErrPermission):
		return adviseCommand(err)
	case errors.Is(err, join.ErrNotInitialised), errors.Is(err, join.ErrLeft), errors.Is(err, join.ErrRemoved):
		hint = "import it on a member; if this is one, name its directory with --state-dir"
	case errors.Is(err, join.ErrOtherCluster):
		hint = "name an export of this cluster, or import this one on a member of its own"
	}
	return &hinted{error: err, hint: hint}
}

// CleanupNetwork removes the device that a daemon left behind, and reports whether
// there was one. The daemon must not be running.
func CleanupNetwork(ctx context.Context, cfg config.Config) (bool, error) {
	if _, err := os.Stat(cfg.StateDir); errors.Is(err, fs.ErrNotExist) {
		gone, err := hostnet.Cleanup(ctx, cfg.Mesh.Interface) // no daemon without a state directory
		return gone, adviseCommand(err)
	}
	lock, err := Lock(cfg.StateDir)
	if errors.Is(err, durable.ErrLocked) {
		return false, &hinted{error: err, hint: stopFirst}
	}
	if err != nil {
		return false, adviseCommand(err)
	}
	defer lock.Close()
	gone, err := hostnet.Cleanup(ctx, cfg.Mesh.Interface)
	return gone, adviseCommand(err)
}
