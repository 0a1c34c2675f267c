package config

import "sync/atomic"

// Current is the configuration of a running daemon, and the one accessor of what
// a reload changes. It is safe for concurrent use.
type Current struct {
	started Config
	loaded  atomic.Pointer[Config]
}

// NewCurrent returns the configuration of a daemon that starts with c.
func NewCurrent(c Config) *Current {
	cur := &Current{started: c}
	cur.loaded.Store(&c)
	return cur
}

// Live returns the reloadable keys as last loaded. Its maps and slices must not
// be changed.
func (c *Current) Live() Live { return c.loaded.Load().Live }

// Compare lists what next would change at once, and what only after a restart.
func (c *Current) Compare(next Config) (live, restart []Change) {
	for _, d := range Diff(*c.loaded.Load(), next) {
		if d.Live {
			live = append(live, d)
		}
	}
	for _, d := range Diff(c.started, next) {
		if !d.Live {
			restart = append(restart, d)
		}
	}
	return live, restart
}

// Replace makes next the last loaded configuration.
func (c *Current) Replace(next Config) { c.loaded.Store(&next) }

// Show returns every key as it is in effect.
func (c *Current) Show() []Entry {
	out, started := c.loaded.Load().Show(), c.started.Show()
	for i := range out {
		if !out[i].Live {
			out[i] = started[i]
		}
	}
	return out
}
