package loadtest

import (
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/cmd/skein/cli"
)

// Options is what the commands know of this host.
type Options struct {
	Version string
	// Mesh are the networks of the mesh that the host of a state directory is in.
	Mesh func(stateDir string) []netip.Prefix
}

// Command is `skein load`.
func Command(a *cli.App, o Options) *cobra.Command {
	return cli.Group("load", "Load tests of HTTP services: run, watch, stop, check, report, compare",
		runCommand(a, o), watchCommand(a, o), listCommand(a), statusCommand(a), stopCommand(a), checkCommand(a, o), reportCommand(a), compareCommand(a), importCommand(a))
}
