package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/internal/logger"
	"github.com/skein-project/skein/internal/recent"
	"github.com/skein-project/skein/internal/sysclock"
	"github.com/skein-project/skein/lease"
	"github.com/skein-project/skein/offline"
	"github.com/skein-project/skein/systemd"
)

// ground is what every part of the daemon is built on: configuration, logger,
// metrics, clocks and the way to end.
type ground struct {
	o       RunOptions
	cfg     config.Fixed
	config  *config.Current
	started time.Time
	log     zerolog.Logger
	last    *recent.Log // of log
	level   *logger.Level
	reg     *prometheus.Registry
	notify  *systemd.Notifier
	timing  lease.Timing
	// ended gets why the cluster wants this daemon to end; capacity 1, the
	// first reason counts.
	ended chan error
}

// conf is what a reload changes, as last loaded. Settings that need a restart
// are in cfg, as the daemon started with them.
func (g *ground) conf() config.Live { return g.config.Live() }

// synced is the system's word that a time service keeps the clock right.
func (g *ground) synced() bool {
	if g.o.Synced != nil {
		return g.o.Synced()
	}
	return sysclock.Synced()
}

// finish ends the daemon for reason, unless another caller gave one before.
func (g *ground) finish(reason error) {
	select {
	case g.ended <- reason:
	default:
	}
}

// notified logs that the service manager was not reached.
func (g *ground) notified(err error) {
	if err != nil {
		g.log.Debug().Err(err).Msg("service manager not notified")
	}
}

// prepare takes the state directory and joins a cluster if asked to.
func prepare(ctx context.Context, cfg config.Config, o RunOptions) (*ground, func(), error) {
	last := &recent.Log{}
	log, level, err := logger.New(cfg.Log.Format, cfg.Live.LogLevel, o.Stderr, last)
	if err != nil {
		return nil, nil, err
	}
	timing, err := lease.TimingFor(cfg.Lease.Profile)
	if err != nil {
		return nil, nil, err
	}
	notify, err := systemd.New(systemd.Options{})
	if err != nil {
		return nil, nil, err
	}
	_, err = os.Stat(cfg.StateDir)
	fresh := errors.Is(err, fs.ErrNotExist)
	if fresh && o.Join == "" {
		return nil, nil, fmt.Errorf("%s: %w", cfg.StateDir, join.ErrNotInitialised)
	}
	lock, err := offline.Lock(cfg.StateDir)
	if err != nil {
		return nil, nil, err
	}
	unlock := func() { lock.Close() } //nolint:errcheck // nothing is written through it
	warnOpen(log, cfg.StateDir, 0o077)
	if o.Join != "" {
		if _, _, err := join.Load(cfg.StateDir); errors.Is(err, join.ErrNotInitialised) && o.Join != "-" {
			warnOpen(log, o.Join, 0o007)
		}
		if err := notify.Extend(max(offline.OverTorTime, o.JoinPatience)); err != nil {
			log.Debug().Err(err).Msg("service manager not notified")
		}
		if err := offline.Join(ctx, cfg, offline.JoinOptions{Token: o.Join, Stdin: o.Stdin, Patience: o.JoinPatience, Logger: log}); err != nil {
			if fresh {
				dropState(cfg.StateDir)
			}
			unlock()
			return nil, nil, err
		}
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	g := &ground{
		o: o, cfg: cfg.Fixed, config: config.NewCurrent(cfg), started: time.Now(), log: log, last: last, level: level, reg: reg, notify: notify,
		timing: timing, ended: make(chan error, 1),
	}
	return g, unlock, nil
}

// warnOpen warns about a file or directory with secrets whose mode has one of
// bits.
func warnOpen(log zerolog.Logger, path string, bits fs.FileMode) {
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&bits != 0 {
		log.Warn().Str("path", path).Stringer("mode", info.Mode()).Msg("others may read secrets there: run chmod go= on it")
	}
}

// dropState removes a state directory that contains only the lock, which the
// caller holds.
func dropState(dir string) {
	if list, err := os.ReadDir(dir); err == nil && len(list) == 1 && list[0].Name() == durable.LockFile {
		_ = os.Remove(filepath.Join(dir, durable.LockFile)) // best effort: a file that stays does no harm
		_ = os.Remove(dir)
	}
}
