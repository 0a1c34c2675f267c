package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/config"
)

// settingFlags maps flags to keys.
var settingFlags = [...]struct{ flag, key, doc string }{
	{"state-dir", "state_dir", "state directory"},
	{"name", "node.name", "name of this host in the cluster"},
	{"zone", "node.zone", "datacenter label"},
	{"priority", "node.priority", "lower holds the lease first"},
	{"listen", "mesh.listen", "UDP address of the mesh, ip:port"},
	{"advertise", "mesh.advertise", "where others reach it, ip:port, separated by commas"},
	{"profile", "lease.profile", "timing: classic, lan or fast"},
	{"log-level", "log.level", "trace, debug, info, warn or error"},
}

// addSettings adds the flags that set keys of the configuration.
func addSettings(f *pflag.FlagSet) {
	for _, one := range settingFlags {
		f.String(one.flag, "", one.doc+" ("+one.key+")")
	}
}

// settings reads the configuration with the flags of cmd.
func (a *app) settings(cmd *cobra.Command) (config.Config, error) {
	path, asked := a.configPath()
	o := config.Options{Path: path, Optional: !asked, Env: a.env, Flags: map[string]string{}}
	for _, one := range settingFlags {
		if f := cmd.Flags().Lookup(one.flag); f != nil && f.Changed {
			o.Flags[one.key] = f.Value.String()
		}
	}
	if a.socket != "" {
		o.Flags["status.socket"] = a.socket
	} else if env := a.getenv("SKEIN_SOCKET"); env != "" && a.getenv(config.Env("status.socket")) == "" {
		o.Env = append(slices.Clip(o.Env), config.Env("status.socket")+"="+env)
	}
	cfg, err := config.Load(o)
	if err != nil {
		if _, ok := errors.AsType[config.Errors](err); ok {
			return cfg, err
		}
		return cfg, failf(exitUsage, "%s", err).hint("give the file with --config")
	}
	return cfg, nil
}

// entriesTable turns the shown keys into a table.
func entriesTable(list []api.ConfigEntry) table {
	t := table{head: []string{"KEY", "VALUE", "ORIGIN", "RELOAD"}}
	for _, e := range list {
		t.add(e.Key, e.Value, e.Origin, orDash(e.Reload))
	}
	return t
}

// plural is "1 host", "2 hosts".
func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
