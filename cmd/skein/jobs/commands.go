package jobs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/cmd/skein/workers"
	"github.com/skein-project/skein/offline"
)

// Options is what the commands about jobs reach beyond the socket.
type Options struct {
	// Local runs a job on this machine alone.
	Local func(context.Context, offline.LocalJob) (api.Job, error)
}

// Commands are the commands about jobs and who runs them.
func Commands(a *cli.App, d Options) []*cobra.Command {
	return []*cobra.Command{
		jobCommand(a, d),
		workflowCommand(a),
		scheduleCommand(a),
		workers.Workers(a),
		workers.Worker(a),
		workers.Groups(a),
		workers.Reserve(a),
	}
}
