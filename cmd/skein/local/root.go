package local

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/cmd/skein/cli"
)

func rootCommand(a *cli.App, d Options) *cobra.Command {
	return cli.Group("root", "Look after the cluster's root key", rootExport(a, d), rootImport(a, d))
}

func rootExport(a *cli.App, d Options) *cobra.Command {
	var out string
	var remove bool
	cmd := &cobra.Command{
		Use: "export", Short: "Copy the root key to a file, and with --remove take it off this host",
		Long: "The root key makes sponsors. It stays on the first host until it is taken away: once\n" +
			"three hosts are sponsors, export it with --remove to a medium that you lock away.\n" +
			"Works on the state directory, even while the daemon runs. FILE must not exist.",
		Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.Settings(cmd)
			if err != nil {
				return err
			}
			if out == "" {
				return cli.Usagef("--out is missing").WithHint("name the file to write: `skein root export --out /media/usb/skein-root.key`")
			}
			if out, err = filepath.Abs(out); err != nil {
				return cli.Failf(cli.ExitFailed, "--out: %s", err)
			}
			if remove {
				if err := a.Confirm("move the root key to %s and remove it from this host", out); err != nil {
					return err
				}
			}
			if err := d.ExportRoot(cfg, out, remove); err != nil {
				return err
			}
			a.Note("root key written to %s", out)
			if remove {
				a.Note("removed from %s; the daemon notices by itself, and `skein root import` puts it back", cfg.StateDir)
			}
			return nil
		},
	}
	cli.AddSettings(cmd.Flags())
	cmd.Flags().StringVar(&out, "out", "", "file to write, readable by you only")
	cmd.Flags().BoolVar(&remove, "remove", false, "remove it from this host once it is written")
	return cmd
}

func rootImport(a *cli.App, d Options) *cobra.Command {
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Put an exported root key back, to make or remove sponsors", Args: cli.Exactly(1, "the file of an export"),
		Long: "Works on the state directory of any member, even while the daemon runs, which uses\n" +
			"the key at once: if it is not a sponsor it makes itself one, within seconds, admits\n" +
			"and renews hosts from then on, and removes sponsors. Take the key away again when you\n" +
			"are done: `skein root export --out FILE --remove`; the host stays a sponsor.",
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := a.Settings(cmd)
			if err != nil {
				return err
			}
			if err := d.ImportRoot(cfg, args[0]); err != nil {
				return err
			}
			a.Note("root key is in %s: if the daemon runs, this host is a sponsor within seconds", cfg.StateDir)
			return nil
		},
	}
	cli.AddSettings(cmd.Flags())
	return cmd
}
