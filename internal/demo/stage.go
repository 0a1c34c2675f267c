package demo

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
)

// Stage is a cluster of three hosts on this machine for a demo whose steps are another
// package's.
type Stage struct{ d *demo }

// Host is one of a Stage.
type Host struct{ h *host }

// OnStage makes a directory for a demo and has play run in it, at most for the time given.
// Then it ends the hosts that run still, and removes the directory. If play fails the logs
// of the hosts are kept in a file, which the error names.
func OnStage(ctx context.Context, o Options, within time.Duration, play func(context.Context, *Stage) error) error {
	if _, err := os.Stat(o.Wasm); err != nil {
		return fmt.Errorf("the demo's module is missing: %w (make build compiles it)", err)
	}
	return inDirectory(ctx, o, within, func(ctx context.Context, d *demo) error { return play(ctx, &Stage{d}) })
}

// Dir is the directory of the demo.
func (s *Stage) Dir() string { return s.d.dir }

// Say prints a line with the time since the beginning.
func (s *Stage) Say(format string, args ...any) { s.d.say(format, args...) }

// FreePort is a port of 127.0.0.1 that nobody has, and no host of the demo will.
func (s *Stage) FreePort() (int, error) { return s.d.freePort() }

// Up starts the hosts, with what settings says of each besides what every host gets, and
// waits until all of them vote.
func (s *Stage) Up(ctx context.Context, settings func(i int) string) error {
	s.d.settings = settings
	return s.d.up(ctx)
}

// Stop ends all hosts, and waits for that.
func (s *Stage) Stop() { s.d.stopAll() }

// Hosts are n1, n2 and n3, once they are up.
func (s *Stage) Hosts() []Host {
	out := make([]Host, len(s.d.hosts))
	for i, h := range s.d.hosts {
		out[i] = Host{h}
	}
	return out
}

// Holder waits for the host that schedules.
func (s *Stage) Holder(ctx context.Context) (Host, error) {
	h, err := s.d.holder(ctx)
	return Host{h}, err
}

// Upload stores the module on a host.
func (s *Stage) Upload(ctx context.Context) (job.Spec, error) { return s.d.upload(ctx, s.d.o.Wasm) }

// Calibrate measures the machine: so many iterations take the hosts about as long as given,
// unless the options say how many there are.
func (s *Stage) Calibrate(ctx context.Context, spec job.Spec, work time.Duration) (uint64, error) {
	n, err := s.d.calibrate(ctx, spec)
	if s.d.o.Iterations > 0 {
		return n, err
	}
	return uint64(float64(n) * work.Seconds() / demoWork.Seconds()), err
}

// KillHolder kills the host that holds the lease, and says who it was, who gave out the
// next chunk, and how long after the kill.
func (s *Stage) KillHolder(ctx context.Context) (was, is Host, gap time.Duration, err error) {
	h, err := s.d.holder(ctx)
	if err != nil {
		return was, is, 0, err
	}
	term, at, err := s.d.strike(ctx, h)
	if err != nil {
		return was, is, 0, err
	}
	<-h.done
	next, e, err := s.d.takeover(ctx, s.d.other(h), term)
	if err != nil {
		return was, is, 0, err
	}
	for _, o := range s.d.hosts {
		if o.name == string(next) {
			is = Host{o}
		}
	}
	return Host{h}, is, e.Time.Sub(at), nil
}

// Check proves that a job is whole, that each of its chunks counts once in the log, and
// that all hosts which run say the same.
func (s *Stage) Check(ctx context.Context, j api.Job) error { return s.d.check(ctx, j) }

// Name is what it is called in the cluster.
func (h Host) Name() string { return h.h.name }

// API asks it.
func (h Host) API() *api.Client { return h.h.api }

// Config is the file with its configuration.
func (h Host) Config() string { return h.h.config }

// Socket is where its daemon is asked.
func (h Host) Socket() string { return h.h.socket() }

// Alive says whether its process runs.
func (h Host) Alive() bool { return h.h.alive() }

// Kill ends it and all that it started, as a crash would.
func (h Host) Kill() error {
	if err := killGroup(h.h.cmd.Process); err != nil {
		return fmt.Errorf("kill %s: %w", h.h.name, err)
	}
	<-h.h.done
	return nil
}

// Start starts it again.
func (h Host) Start() error { return h.h.run() }
