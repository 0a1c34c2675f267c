package main

import (
	"path/filepath"

	"github.com/spf13/cobra"
)

func (a *app) rootCommand() *cobra.Command {
	return group("root", "Look after the cluster's root key", a.rootExport(), a.rootImport())
}

func (a *app) rootExport() *cobra.Command {
	var out string
	var remove bool
	cmd := &cobra.Command{
		Use: "export", Short: "Copy the root key to a file, and with --remove off this host",
		Long: "The root key makes sponsors. It lies on the first host until it is taken away:\n" +
			"export it to a medium that you lock away, with --remove once three hosts are\nsponsors. " +
			"It works on the state directory, also while the daemon runs. FILE must not exist.",
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.settings(cmd)
			if err != nil {
				return err
			}
			if out == "" {
				return usagef("--out is missing").hint("name the file to write: `skein root export --out /media/usb/skein-root.key`")
			}
			if out, err = filepath.Abs(out); err != nil {
				return failf(exitFailed, "--out: %s", err)
			}
			if remove {
				if err := a.confirm("The root key is moved to " + out + " and removed from this host."); err != nil {
					return err
				}
			}
			if err := a.exportRoot(cfg, out, remove); err != nil {
				return err
			}
			a.note("root key written to %s", out)
			if remove {
				a.note("removed from %s; the daemon notices by itself, and `skein root import` puts it back", cfg.StateDir)
			}
			return nil
		},
	}
	addSettings(cmd.Flags())
	cmd.Flags().StringVar(&out, "out", "", "file to write, readable by you only")
	cmd.Flags().BoolVar(&remove, "remove", false, "remove it from this host once it is written")
	return cmd
}

func (a *app) rootImport() *cobra.Command {
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Put an exported root key back, to make or remove sponsors", Args: exactly(1, "the file of an export"),
		Long: "It works on the state directory of any member, also while the daemon runs, which\nuses the key at once: if no sponsor it makes itself one, within seconds, admits\n" +
			"and renews hosts from then on, and removes sponsors. Take the key away again when\nyou are done: `skein root export --out FILE --remove`; the host stays a sponsor.",
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := a.settings(cmd)
			if err != nil {
				return err
			}
			if err := a.importRoot(cfg, args[0]); err != nil {
				return err
			}
			a.note("root key is in %s: this host is a sponsor in some seconds, if the daemon runs", cfg.StateDir)
			return nil
		},
	}
	addSettings(cmd.Flags())
	return cmd
}
