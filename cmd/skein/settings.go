package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skein-project/skein/config"
)

// settings are the flags that set keys of the configuration.
type settings struct {
	path string
}

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

func (s *settings) flags(f *pflag.FlagSet) {
	f.StringVar(&s.path, "config", "", "configuration file (default "+config.DefaultPath+", which may be missing)")
	for _, one := range settingFlags {
		f.String(one.flag, "", one.doc+" ("+one.key+")")
	}
}

// load reads the configuration with the flags of cmd.
func (s *settings) load(a *app, cmd *cobra.Command) (config.Config, error) {
	o := config.Options{Path: s.path, Env: a.env, Flags: map[string]string{}}
	if o.Path == "" {
		o.Path = a.getenv("SKEIN_CONFIG")
	}
	if o.Path == "" {
		o.Path, o.Optional = config.DefaultPath, true
	}
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
func entriesTable(list []config.Entry) table {
	t := table{head: []string{"KEY", "VALUE", "ORIGIN"}}
	for _, e := range list {
		t.add(e.Key, e.Value, string(e.Origin))
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
