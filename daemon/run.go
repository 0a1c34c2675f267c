package daemon

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/eventlog"
	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/lease"
	"github.com/skein-project/skein/mesh"
	"github.com/skein-project/skein/status"
	"github.com/skein-project/skein/systemd"
)

// RunOptions are what a daemon needs besides its configuration.
type RunOptions struct {
	Version string
	// Join is the file of a token, "-" for Stdin, empty for none.
	Join  string
	Stdin io.Reader
	// Stderr gets the log.
	Stderr io.Writer
	// RunnerArgv starts this program as a chunk runner; nil: the running
	// program with the argument "runner".
	RunnerArgv []string
	// Reload reads the configuration again, on SIGHUP; nil: never.
	Reload func() (config.Config, error)
	// Wall is the time of day by which messages and events are stamped and
	// judged; nil: the machine's.
	Wall func() time.Time

	certLife time.Duration // of members' certificates, for tests
	logFS    eventlog.FS   // under the event log, for tests; nil: the machine's
}

// Run is the daemon: it starts the stages, runs until ctx ends or a stage
// fails, and stops them in reverse. A lease that it holds is handed over.
func Run(ctx context.Context, cfg config.Config, o RunOptions) error {
	return advise(run(ctx, cfg, o))
}

func run(ctx context.Context, cfg config.Config, o RunOptions) error {
	n, unlock, err := prepare(ctx, cfg, o)
	if err != nil {
		return err
	}
	defer unlock()
	defer n.close()

	l := newLifecycle(n.log)
	err = n.start(ctx, l, o)
	if err == nil {
		n.log.Info().Str("node", string(n.id.Node)).Str("cluster", n.clusterName()).Str("version", o.Version).Msg("up")
		err = n.watch(ctx, l)
	}
	n.stopping.Store(true)
	n.tell(n.notify.Stopping("stopping"))
	if stopErr := l.stop(); !errors.Is(err, errLeft) {
		return errors.Join(err, stopErr)
	} else if stopErr != nil {
		n.log.Warn().Err(stopErr).Msg("not stopped in good order")
	}
	return n.cleanUp()
}

// cleanupTime bounds the removal of the mesh device.
const cleanupTime = 5 * time.Second

// cleanUp removes the mesh device of a host that left; a kernel device stays
// otherwise.
func (n *node) cleanUp() error {
	if n.mesh.Interface() == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTime)
	defer cancel()
	_, err := mesh.Cleanup(ctx, n.mesh.Interface())
	return err
}

// prepare takes the state directory, joins if asked to, and makes the node.
func prepare(ctx context.Context, cfg config.Config, o RunOptions) (*node, func(), error) {
	log, level, err := newLogger(cfg.Log, o.Stderr)
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
	lock, err := lockState(cfg.StateDir)
	if err != nil {
		return nil, nil, err
	}
	unlock := func() { lock.Close() } //nolint:errcheck // nothing is written through it
	warnOpen(log, cfg.StateDir, 0o077)
	if o.Join != "" {
		if _, _, err := join.Load(cfg.StateDir); errors.Is(err, join.ErrNotInitialised) && o.Join != "-" {
			warnOpen(log, o.Join, 0o007)
		}
		if err := notify.Extend(torJoinTime); err != nil {
			log.Debug().Err(err).Msg("service manager not told")
		}
		if err := enter(ctx, cfg, o.Join, o.Stdin, log); err != nil {
			if fresh {
				dropState(cfg.StateDir)
			}
			unlock()
			return nil, nil, err
		}
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	n := &node{
		cfg: cfg, version: o.Version, started: time.Now(), log: log, reg: reg, notify: notify,
		timing: timing, now: bootTime, joined: make(chan struct{}), runnerArgv: o.RunnerArgv,
		readConfig: o.Reload, level: level, rand: rand.Float64, healths: map[cluster.NodeID]cluster.Health{},
		notes: make(chan cluster.Draft, journalSize), conflicts: make(chan cluster.MemberConflict, conflictsSize),
		ended: make(chan error, 1), certLife: o.certLife, logFS: o.logFS, wall: o.Wall,
	}
	n.loaded.Store(&cfg)
	return n, unlock, nil
}

// warnOpen says so when the mode of a file or directory with secrets has one
// of bits.
func warnOpen(log zerolog.Logger, path string, bits fs.FileMode) {
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&bits != 0 {
		log.Warn().Str("path", path).Stringer("mode", info.Mode()).Msg("others may read secrets there: chmod go= it")
	}
}

// dropState removes a state directory with nothing in it but the lock, which
// the caller holds.
func dropState(dir string) {
	if list, err := os.ReadDir(dir); err == nil && len(list) == 1 && list[0].Name() == durable.LockFile {
		_ = os.Remove(filepath.Join(dir, durable.LockFile)) // best effort: it is of no use, and of no harm
		_ = os.Remove(dir)
	}
}

// start brings the stages up in order.
func (n *node) start(ctx context.Context, l *lifecycle, o RunOptions) error {
	records, err := n.load()
	if err != nil {
		return err
	}
	if err := n.startTor(l); err != nil {
		return err
	}
	// The device may have the key of before a change that a crash cut short.
	adopt := formerKeys(n.id, records)
	if n.mesh, err = mesh.New(mesh.Options{
		Backend: n.cfg.Mesh.Backend, Interface: n.cfg.Mesh.Interface, Networks: n.meshPrefixes(),
		PrivateKey: n.id.WGKey(), AdoptKeys: adopt, Listen: n.cfg.Mesh.Listen, MTU: n.cfg.Mesh.MTU,
		Logger: n.log, Registerer: n.reg,
	}); err != nil {
		return err
	}
	l.start(stage{name: "mesh", run: n.mesh.Run, grace: 3 * time.Second})
	if err := l.await(ctx, n.mesh.Ready()); err != nil {
		return err
	}
	if err := n.build(ctx, records); err != nil {
		return err
	}
	l.start(stage{name: "mesh plan", run: n.planner.run, grace: setMeshTime + time.Second})
	l.start(stage{name: "event log", run: n.events.Run, grace: 3 * time.Second})
	l.start(stage{name: "coordination", run: n.coord.Run, grace: 3 * time.Second})
	l.start(stage{name: "worker", run: n.worker.Run, grace: 15 * time.Second})
	l.start(stage{name: "journal", run: n.keepJournal, grace: time.Second})
	l.start(stage{name: "conflicts", run: n.reportConflicts, grace: time.Second})
	l.start(stage{name: "own records", run: n.self.run, grace: 3 * time.Second})
	l.start(stage{name: "artefacts", run: n.tendArtefacts, grace: time.Second})
	l.start(stage{name: "log checks", run: n.checks.run, grace: 3 * time.Second})
	l.start(stage{name: "repair", run: n.mendLog, grace: time.Second})
	l.start(stage{name: "own chain", run: n.confirmOwnChain, grace: time.Second})
	l.start(stage{name: "groups file", run: n.groups.run, grace: time.Second})
	d := &duty{
		log: n.log, profile: n.cfg.Lease.Profile, ready: n.joined,
		elector: n.coord, history: n.events, sched: n.sched, note: n.note,
	}
	if n.onions != nil {
		d.publish = n.onions
	}
	l.start(stage{
		name: "lease", grace: 3 * time.Second,
		run:  func(ctx context.Context) error { return d.run(ctx, n.coord.Actions()) },
		stop: func(ctx context.Context) error { return n.coord.StepDown(ctx, "", "shutdown", true) },
	})
	if err := n.startOnions(ctx, l); err != nil {
		return err
	}
	if err := n.startSponsor(ctx, l); err != nil {
		return err
	}
	return n.startStatus(ctx, l, o)
}

// rootKey reads the root key, nil if it is not on this host: it may be moved
// while the daemon runs.
func (n *node) rootKey() (ed25519.PrivateKey, error) { return join.RootKey(n.cfg.StateDir) }

func (n *node) startStatus(ctx context.Context, l *lifecycle, o RunOptions) error {
	so := status.Options{
		Socket: n.cfg.Status.Socket, Group: n.cfg.Status.Group, Backend: backend{n}, Version: o.Version,
		Log: n.log, Registerer: n.reg, Gatherer: n.reg,
	}
	if n.cfg.Status.Listen.IsValid() {
		so.ListenTCP = n.listenStatus
	}
	srv, err := status.New(so)
	if err != nil {
		return err
	}
	l.start(stage{name: "status", run: srv.Run, grace: 3 * time.Second})
	return l.await(ctx, srv.Up())
}

// listenStatus opens the read-only listener: inside the mesh if the address is
// this host's mesh address, else on the machine itself.
func (n *node) listenStatus(ctx context.Context) (net.Listener, error) {
	at := n.cfg.Status.Listen
	if self, ok := n.member(n.id.Node); ok && (at.Addr() == self.IP4 || at.Addr() == self.IP6) {
		return n.mesh.Listen(ctx, at)
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", at.String())
}

// statusEvery is the period at which the service manager's status line is
// compared with what it should say.
const statusEvery = time.Second

// watch runs until ctx ends or a stage fails, keeping the status line true.
func (n *node) watch(ctx context.Context, l *lifecycle) error {
	line := n.statusLine()
	n.tell(n.notify.Ready(line))
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	hangup := make(chan os.Signal, 1) // a second one meanwhile adds nothing
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-l.failed:
			return err
		case err := <-n.ended:
			return err
		case <-hangup:
			n.reload()
		case <-tick.C:
			if next := n.statusLine(); next != line {
				line = next
				n.tell(n.notify.Status(line))
			}
			n.checkLog()
		}
	}
}

func (n *node) tell(err error) {
	if err != nil {
		n.log.Debug().Err(err).Msg("service manager not told")
	}
}

// statusLine is one sentence: what this host is and whether all is well.
func (n *node) statusLine() string {
	v := n.coord.View()
	alive := 0
	for _, m := range v.Members {
		if m.Health == cluster.Alive {
			alive++
		}
	}
	holder := "no holder"
	if v.Lease.Holder != "" {
		holder = "holder " + string(v.Lease.Holder)
	}
	return fmt.Sprintf("%s, term %d, %s, %d/%d alive", v.Lease.Role, v.Lease.Term, holder, alive, len(v.Members))
}

var _ elector = (*coord.Service)(nil)
