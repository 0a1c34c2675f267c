package local

import (
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/offline"
)

// serviceUser is the user of the package's unit.
const serviceUser = "skein"

func initCommand(a *cli.App, d Options) *cobra.Command {
	var name, network string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make this host the first one of a new cluster",
		Long: "Creates the keys, identity and membership of a new cluster in the state directory.\n" +
			"Other hosts join with a token: see `skein token create` and `skein run --join`.",
		Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.Settings(cmd)
			if err != nil {
				return err
			}
			o := offline.InitOptions{ClusterName: name}
			if network != "" {
				if o.Network, err = netip.ParsePrefix(network); err != nil {
					return cli.Usagef("--network: %q is no network", network).WithHint("give it with its length, like %s", config.DefaultNetwork)
				}
				if config.PublicNetwork(o.Network) {
					a.Note("warning: %s is not private: its hosts on the internet cannot be reached from the cluster", o.Network)
				}
			}
			if err := d.Init(cfg, o); err != nil {
				return err
			}
			a.Note("cluster %s made in %s, this host is %s", name, cfg.StateDir, cfg.Node.Name)
			if d.OnlyRoot(cfg.StateDir, serviceUser) {
				a.Note("warning: it is root's, and the package's daemon runs as %s: `chown -R %[1]s:%[1]s %s` before the start", serviceUser, cfg.StateDir)
			}
			start, with := "systemctl enable --now skein, or skein run", ""
			if path, asked := a.ConfigPath(); asked && path != config.DefaultPath { // which the unit reads
				with = " --config " + path
				start = "skein run" + with
			}
			a.Note("next:\n"+
				"  1. start it:    %s\n"+
				"  2. look at it:  skein status%s\n"+
				"  3. add a host:  skein token create%s --out FILE here; with FILE there: skein run --join @FILE", start, with, with)
			return nil
		},
	}
	cli.AddSettings(cmd.Flags())
	cmd.Flags().StringVar(&name, "cluster", "skein", "display name of the cluster")
	cmd.Flags().StringVar(&network, "network", "", "IPv4 network of the mesh, fixed for ever (default "+config.DefaultNetwork+")")
	return cmd
}
