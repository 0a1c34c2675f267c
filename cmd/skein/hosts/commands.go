package hosts

import (
	"github.com/spf13/cobra"

	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/cmd/skein/onion"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/offline"
)

// Options is what the commands about the cluster reach beyond the socket.
type Options struct {
	// PlanRecovery says what RecoverLease would do, which makes this host the only
	// voter.
	PlanRecovery func(cfg config.Config) (offline.RecoveryPlan, error)
	RecoverLease func(cfg config.Config, actor string) (offline.Recovery, error)
}

// Commands are the commands about the cluster and its hosts.
func Commands(a *cli.App, d Options) []*cobra.Command {
	return []*cobra.Command{
		statusCommand(a),
		topCommand(a),
		membersCommand(a),
		leaseCommand(a, d),
		meshCommand(a),
		onion.Command(a),
		eventsCommand(a),
		watchCommand(a),
		waitCommand(a),
		tokenCommand(a),
		usersCommand(a),
		hostCommand(a),
		authCommand(a),
		leaveCommand(a),
		removeCommand(a),
		checkCommand(a),
		debugCommand(a),
	}
}
