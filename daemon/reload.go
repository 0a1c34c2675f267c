package daemon

import (
	"errors"
	"strconv"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord"
)

// conf is the configuration as last loaded. Settings that need a restart are
// read from node.cfg, as the daemon started with them.
func (n *node) conf() config.Config { return *n.loaded.Load() }

// errNoReload answers a reload of a daemon that was not told how.
var errNoReload = errors.New("this daemon cannot read its configuration again")

// reload reads the configuration again and applies what may change while the
// daemon runs. One that is wrong changes nothing.
func (n *node) reload() {
	n.tell(n.notify.Reloading(monotonic()))
	if err := n.tryReload(); err != nil {
		n.log.Error().Err(err).Msg("configuration refused: the old one stays")
	}
	n.tell(n.notify.Ready(n.statusLine()))
}

func (n *node) tryReload() error {
	if n.readConfig == nil {
		return errNoReload
	}
	next, err := n.readConfig()
	if err != nil {
		return err
	}
	var changed []string
	for _, c := range config.Diff(n.conf(), next) {
		if c.Live {
			changed = append(changed, c.Key)
			n.log.Info().Str("key", c.Key).Str("old", c.Old).Str("new", c.New).Msg("setting changed")
		}
	}
	for _, c := range config.Diff(n.cfg, next) {
		switch {
		case c.Live:
		case c.Key == config.KeyNodeName:
			n.log.Warn().Str("node", string(n.id.Node)).Str("new", c.New).Msg("node.name cannot change: a member keeps its name for ever")
		default:
			n.log.Warn().Str("key", c.Key).Str("running", c.Old).Str("new", c.New).Msg("setting needs a restart")
		}
	}
	if _, err := readGroups(next.Jobs.GroupsFile); err != nil {
		return err
	}
	if err := n.level.set(next.Log.Level); err != nil {
		return err
	}
	n.loaded.Store(&next)
	n.coord.Tune(coord.Tunables{Tolerance: next.Clock.Tolerance, Legacy: next.Coord.Legacy})
	n.planner.wake()
	n.groups.wake()
	if len(changed) > 0 {
		n.note(cluster.KindConfigReloaded, cluster.ConfigReloaded{Keys: changed})
	}
	n.log.Info().Int("changed", len(changed)).Msg("configuration read again")
	return nil
}

// running is the configuration in effect, for people: what was loaded last,
// but what needs a restart as it was at the start, and the name that this host
// joined by.
func (n *node) running() []config.Entry {
	out, started := n.conf().Show(), n.cfg.Show()
	for i := range out {
		if !out[i].Live {
			out[i] = started[i]
		}
		if out[i].Key == config.KeyNodeName { // that of the join, for ever
			out[i].Value = strconv.Quote(string(n.id.Node))
		}
	}
	return out
}
