package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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

// AddSettings adds the flags that set keys of the configuration.
func AddSettings(f *pflag.FlagSet) {
	for _, one := range settingFlags {
		f.String(one.flag, "", one.doc+" ("+one.key+")")
	}
}

// Settings reads the configuration with the flags of cmd.
func (a *App) Settings(cmd *cobra.Command) (config.Config, error) {
	path, asked := a.ConfigPath()
	o := config.Options{Path: path, Optional: !asked, Env: a.Env, Flags: map[string]string{}}
	for _, one := range settingFlags {
		if f := cmd.Flags().Lookup(one.flag); f != nil && f.Changed {
			o.Flags[one.key] = f.Value.String()
		}
	}
	// Where a daemon elsewhere is asked is no setting of one here.
	elsewhere := func(target string) bool { return strings.Contains(target, "://") }
	if a.socket != "" && !elsewhere(a.socket) {
		o.Flags["status.socket"] = a.socket
	} else if env := a.Getenv("SKEIN_SOCKET"); a.socket == "" && env != "" && !elsewhere(env) && a.Getenv(config.Env("status.socket")) == "" {
		o.Env = append(slices.Clip(o.Env), config.Env("status.socket")+"="+env)
	}
	cfg, err := config.Load(o)
	if err != nil {
		if _, ok := errors.AsType[config.Errors](err); ok {
			return cfg, err
		}
		return cfg, Failf(ExitUsage, "%s", err).WithHint("give the file with --config")
	}
	return cfg, nil
}

// OneOf refuses a flag's value that is not empty and none of words.
func OneOf[T ~string](flag, value string, words ...T) error {
	if value == "" || slices.Contains(words, T(value)) {
		return nil
	}
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	last := len(list) - 1
	return Usagef("%s is %q, want %s or %s", flag, value, strings.Join(list[:last], ", "), list[last])
}
