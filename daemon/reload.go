package daemon

import (
	"errors"
	"strconv"

	"github.com/skein-project/skein/backend/groupsync"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/internal/sysclock"
)

// errNoReload refuses a reload of a daemon that has no means to read its
// configuration.
var errNoReload = errors.New("this daemon cannot read its configuration again")

// reload reads the configuration again and applies what may change while the
// daemon runs. An invalid configuration changes nothing.
func (d *daemon) reload() {
	d.notified(d.notify.Reloading(sysclock.Monotonic()))
	if err := d.tryReload(); err != nil {
		d.log.Error().Err(err).Msg("configuration refused: the previous one stays in effect")
	}
	d.notified(d.notify.Ready(d.backend.Line()))
}

func (d *daemon) tryReload() error {
	if d.o.Reload == nil {
		return errNoReload
	}
	next, err := d.o.Reload()
	if err != nil {
		return err
	}
	live, restart := d.config.Compare(next)
	changed := make([]string, 0, len(live))
	for _, c := range live {
		changed = append(changed, c.Key)
		d.log.Info().Str("key", c.Key).Str("old", c.Old).Str("new", c.New).Msg("setting changed")
	}
	for _, c := range restart {
		if c.Key == config.KeyNodeName {
			d.log.Warn().Str("node", string(d.id.Node)).Str("new", c.New).Msg("node.name cannot change: a member keeps the name with which it joined")
			continue
		}
		d.log.Warn().Str("key", c.Key).Str("running", c.Old).Str("new", c.New).Msg("setting needs a restart")
	}
	if _, err := groupsync.ReadFile(next.Live.GroupsFile); err != nil {
		return err
	}
	if err := d.level.Set(next.Live.LogLevel); err != nil {
		return err
	}
	d.config.Replace(next)
	d.history.peers.svc.Tune(coord.Tunables{Tolerance: next.Live.Tolerance})
	d.device.planner.Wake()
	d.backend.ReloadGroups()
	if len(changed) > 0 {
		d.history.journal.Note(event.KindConfigReloaded, event.ConfigReloaded{Keys: changed})
	}
	d.log.Info().Int("changed", len(changed)).Msg("configuration read again")
	return nil
}

// running is the configuration in effect, for display, with the name under which
// this host joined.
func (d *daemon) running() []config.Entry {
	out := d.config.Show()
	for i := range out {
		if out[i].Key == config.KeyNodeName { // fixed by the join
			out[i].Value = strconv.Quote(string(d.id.Node))
		}
	}
	return out
}
