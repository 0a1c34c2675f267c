package local

import (
	"github.com/spf13/cobra"

	"github.com/skein-project/skein/cmd/skein/cli"
)

func netCommand(a *cli.App, d Options) *cobra.Command {
	return cli.Group("net", "Look after the network device of the mesh", netCleanup(a, d))
}

func netCleanup(a *cli.App, d Options) *cobra.Command {
	cmd := &cobra.Command{
		Use: "cleanup", Short: "Remove the device that a daemon left behind",
		Long: "A kernel device outlives the daemon, so that traffic continues during a restart. This\n" +
			"removes it. It never removes a device that is not skein's, and running it twice is no\n" +
			"error. Do not run it while the daemon runs.",
		Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.Settings(cmd)
			if err != nil {
				return err
			}
			ctx, cancel := a.Limited(cmd.Context())
			defer cancel()
			gone, err := d.Cleanup(ctx, cfg)
			switch {
			case err != nil:
				return err
			case gone:
				a.Note("%s removed", cfg.Mesh.Interface)
			default:
				a.Note("nothing to remove")
			}
			return nil
		},
	}
	cli.AddSettings(cmd.Flags())
	return cmd
}
