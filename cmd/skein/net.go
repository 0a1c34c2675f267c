package main

import (
	"github.com/spf13/cobra"
)

func (a *app) netCommand() *cobra.Command {
	return group("net", "Look after the network device of the mesh", a.netCleanup())
}

func (a *app) netCleanup() *cobra.Command {
	cmd := &cobra.Command{
		Use: "cleanup", Short: "Remove the device that a daemon left behind",
		Long: "A kernel device outlives the daemon, so that traffic goes on during a restart.\n" +
			"This removes it. It removes no device of somebody else; twice is no error. Not\nwhile the daemon runs.",
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.settings(cmd)
			if err != nil {
				return err
			}
			ctx, cancel := a.limited(cmd.Context())
			defer cancel()
			gone, err := a.cleanup(ctx, cfg)
			switch {
			case err != nil:
				return err
			case gone:
				a.note("%s removed", cfg.Mesh.Interface)
			default:
				a.note("nothing to remove")
			}
			return nil
		},
	}
	addSettings(cmd.Flags())
	return cmd
}
