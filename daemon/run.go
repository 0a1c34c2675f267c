package daemon

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/skein-project/skein/backend"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord/store"
	"github.com/skein-project/skein/daemon/stages"
	"github.com/skein-project/skein/duty"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/wire"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/gateway/registry"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/journal"
	"github.com/skein-project/skein/membership"
	"github.com/skein-project/skein/membership/deviceplan"
	"github.com/skein-project/skein/membership/lastseen"
	"github.com/skein-project/skein/mesh"
	"github.com/skein-project/skein/mesh/hostnet"
	"github.com/skein-project/skein/offline"
	"github.com/skein-project/skein/overload"
	"github.com/skein-project/skein/relief"
	"github.com/skein-project/skein/scheduler"
	"github.com/skein-project/skein/status"
	"github.com/skein-project/skein/status/door"
	"github.com/skein-project/skein/web"
	"github.com/skein-project/skein/worker/artefact"
)

// RunOptions are what a daemon needs besides its configuration.
type RunOptions struct {
	Version string
	// Join is the file of a token, "-" for Stdin, empty for none.
	Join  string
	Stdin io.Reader
	// JoinPatience is for how long a sponsor that does not answer is asked; 0: as
	// offline.JoinOptions says.
	JoinPatience time.Duration
	// Stderr gets the log.
	Stderr io.Writer
	// RunnerArgv starts this program as a chunk runner; nil: the running
	// program with the argument "runner".
	RunnerArgv []string
	// TorWatchdog starts this program as the watchdog of tor; nil: there is none.
	TorWatchdog []string
	// Reload reads the configuration again, on SIGHUP; nil: never.
	Reload func() (config.Config, error)
	// Wall is the time of day by which messages and events are stamped and
	// judged; nil: this machine's clock.
	Wall func() time.Time
	// Synced is the system's word that a time service keeps Wall right; nil: this
	// machine's.
	Synced func() bool
	// CertLife is how long certificates of members are valid; 0: the usual time.
	// Only tests set it, and LogFS, the file system under the event log.
	CertLife time.Duration
	LogFS    disk.FS
}

// Run is the daemon: it starts the stages, runs until ctx ends or a stage
// fails, and stops them in reverse. A lease that it holds is handed over. When it
// has to take back what it wrote with a wrong clock it does all that once more.
func Run(ctx context.Context, cfg config.Config, o RunOptions) error {
	for {
		err := run(ctx, cfg, o)
		if _, again := errors.AsType[*journal.TakeBackError](err); !again || ctx.Err() != nil {
			return offline.Advise(err)
		}
		o.Join = "" // it is a member
		if o.Reload != nil {
			if next, err := o.Reload(); err == nil {
				cfg = next
			}
		}
	}
}

// daemon is what watching, reloading and stopping the stages needs. The parts
// reach each other through what start hands them, not through it.
type daemon struct {
	*ground
	id       *identity
	history  *history // nil: not open yet
	device   device
	backend  *backend.Backend
	stopping atomic.Bool
}

func run(ctx context.Context, cfg config.Config, o RunOptions) error {
	g, unlock, err := prepare(ctx, cfg, o)
	if err != nil {
		return err
	}
	defer unlock()
	d := &daemon{ground: g}
	defer d.close()

	l := stages.New(d.log)
	err = d.start(ctx, l)
	if err == nil {
		d.log.Info().Str("node", string(d.id.Node)).Str("cluster", d.id.clusterName()).Str("version", o.Version).Msg("up")
		err = d.watch(ctx, l)
	}
	d.stopping.Store(true)
	if again, ok := errors.AsType[*journal.TakeBackError](err); ok {
		if stopErr := l.Stop(); stopErr != nil {
			d.log.Warn().Err(stopErr).Msg("not stopped cleanly")
		}
		return d.takeBack(again)
	}
	d.notified(d.notify.Stopping("stopping"))
	if stopErr := l.Stop(); !errors.Is(err, membership.ErrLeft) {
		return errors.Join(err, stopErr)
	} else if stopErr != nil {
		d.log.Warn().Err(stopErr).Msg("not stopped cleanly")
	}
	return d.cleanUp()
}

// takeBack takes back what e says; the log is closed. It returns e, so that the
// daemon starts again, unless that failed.
func (d *daemon) takeBack(e *journal.TakeBackError) error {
	_, err := audit.TakeBack(audit.RepairOptions{
		Dir: offline.LogDir(d.cfg.StateDir), Cluster: d.id.Cluster.String(), Self: d.id.Node, KeyOf: d.id.roster.KeyOf,
		Aside: filepath.Join(d.cfg.StateDir, offline.DamagedDir), Now: time.Now(),
	}, e.Cuts)
	if err != nil {
		return err
	}
	for _, c := range e.Cuts {
		d.log.Warn().Str("source", c.Source.String()).Uint64("seq", c.Kept).Str("reason", c.Reason).
			Msg("the rest of the own chain is taken back; starting again with a new one")
	}
	return e
}

// close releases what was opened and never run.
func (d *daemon) close() {
	if d.history != nil {
		_ = d.history.Close() // nothing was admitted
	}
}

// cleanupTime bounds the removal of the mesh device.
const cleanupTime = 5 * time.Second

// cleanUp removes the mesh device of a host that left; otherwise a kernel device
// stays.
func (d *daemon) cleanUp() error {
	if d.device.Interface() == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTime)
	defer cancel()
	_, err := hostnet.Cleanup(ctx, d.device.Interface())
	return err
}

// start makes the parts and brings the stages up in order.
func (d *daemon) start(ctx context.Context, l *stages.Sequence) (err error) {
	if d.id, err = d.identify(); err != nil {
		return err
	}
	id, p, m := d.id, &peers{self: d.id.Node}, &members{}
	h, err := d.openHistory(id, p)
	if err != nil {
		return err
	}
	d.history = h
	if err := d.announce(id); err != nil {
		return err
	}
	o, err := d.newOnions(id, h, m)
	if err != nil {
		return err
	}
	if o.tor != nil {
		l.Start(stages.Stage{Name: "tor", Run: o.tor.Run, Grace: torGrace})
	}
	if err := d.startMesh(ctx, l); err != nil {
		return err
	}
	w, err := d.newWork(id, h)
	if err != nil {
		return err
	}
	if p.svc, err = d.newCoordination(ctx, id, h, d.device, w, o, m); err != nil {
		return err
	}
	router, err := d.newRouter(id, p, m, w.relief)
	if err != nil {
		return err
	}
	m.build(d.ground, id, h, d.device, router, o.tor, w)
	m.handle(d.ground, h, router)
	d.backend = d.newBackend(h, w, m, o, router)
	d.backend.Handle(router)
	if err := router.Complete(); err != nil {
		return err
	}
	p.svc.Handle(wire.Proto, w.relief.Stream(overload.Vital, h.Serve))
	p.svc.Handle(artefact.Proto, w.relief.Stream(overload.Assign, w.Artefacts.Serve))
	p.svc.Handle(scheduler.Proto, w.relief.Stream(overload.Vital, w.worker.Serve))
	p.svc.Handle(forward.Proto, w.relief.Stream(overload.Carried, router.Serve))
	if w.crew != nil {
		p.svc.Handle(scheduler.CrewProto, w.relief.Stream(overload.Vital, w.crew.Serve))
	}

	l.Start(stages.Stage{Name: "mesh plan", Run: d.device.planner.Run, Grace: deviceplan.StopTime})
	l.Start(stages.Stage{Name: "event log", Run: h.Run, Grace: 3 * time.Second})
	l.Start(stages.Stage{Name: "coordination", Run: lastseen.Remembering(p.svc, store.New(d.cfg.StateDir, id.Cluster, id.Node), d.log), Grace: 3 * time.Second})
	l.Start(stages.Stage{Name: "overload", Run: w.relief.Run, Grace: 3 * time.Second})
	l.Start(stages.Stage{Name: "worker", Run: w.worker.Run, Grace: 15 * time.Second})
	l.Start(stages.Stage{Name: "load tests", Run: w.slices.Run, Grace: 10 * time.Second})
	if w.crew != nil {
		l.Start(stages.Stage{Name: "crew", Run: w.crew.Run, Grace: time.Second})
	}
	l.Start(stages.Stage{Name: "journal", Run: h.journal.Run, Grace: time.Second})
	l.Start(stages.Stage{Name: "conflicts", Run: m.conflicts.Run, Grace: time.Second})
	l.Start(stages.Stage{Name: "own records", Run: m.own.Run, Stop: m.own.Stop, Grace: membership.EphemeralGrace})
	l.Start(stages.Stage{Name: "artefacts", Run: w.Tend, Grace: time.Second})
	l.Start(stages.Stage{Name: "outputs", Run: w.TendOutputs, Grace: time.Second})
	l.Start(stages.Stage{Name: "backend", Run: d.backend.Run, Grace: 3 * time.Second})
	l.Start(stages.Stage{Name: "repair", Run: d.newMender(h).Run, Grace: time.Second})
	l.Start(stages.Stage{Name: "own chain", Run: d.ownChain(id, h).Run, Grace: time.Second})
	d.startDuty(l, w, o)
	return d.open(ctx, l, w, m, o)
}

// startMesh makes the mesh device and has it follow the membership once.
func (d *daemon) startMesh(ctx context.Context, l *stages.Sequence) error {
	dev, err := mesh.New(mesh.Options{
		Backend: d.cfg.Mesh.Backend, Interface: d.cfg.Mesh.Interface, Networks: d.id.networks(),
		// The device may still have the key from before a change that a crash
		// interrupted.
		PrivateKey: d.id.WGKey(), AdoptKeys: membership.FormerKeys(d.id.Identity, d.id.records),
		Listen: d.cfg.Mesh.Listen, MTU: d.conf().MTU, Logger: d.log, Registerer: d.reg,
	})
	if err != nil {
		return err
	}
	l.Start(stages.Stage{Name: "mesh", Run: dev.Run, Grace: 3 * time.Second})
	if err := l.Await(ctx, dev.Ready()); err != nil {
		return err
	}
	d.device = device{Mesh: dev, planner: d.newPlanner(d.id, d.history, dev)}
	return d.device.planner.Apply(ctx)
}

// startDuty starts what the lease asks of this host.
func (d *daemon) startDuty(l *stages.Sequence, w *work, o onions) {
	h := d.history
	do := duty.Options{
		Profile: d.cfg.Lease.Profile, Ready: h.journal.Opened(), Elector: h.peers.svc, History: h, Scheduler: d.backend.Loads.Beside(w.database.Beside(w.sched, d.backend.Submit)),
		Members: h, Note: h.journal.Note, Logger: d.log,
	}
	if o.host != nil {
		do.Publisher = o.host
	}
	holding := duty.New(do)
	l.Start(stages.Stage{
		Name: "lease", Grace: 3 * time.Second,
		Run:  func(ctx context.Context) error { return holding.Run(ctx, h.peers.svc.Actions()) },
		Stop: func(ctx context.Context) error { return h.peers.svc.StepDown(ctx, "", "shutdown", true) },
	})
}

// open starts what clients and newcomers reach: the onion addresses, the join
// listener, the status socket.
func (d *daemon) open(ctx context.Context, l *stages.Sequence, w *work, m *members, o onions) error {
	if o.host != nil {
		keeper, err := d.newDoor(d.id, d.history.peers)
		if err != nil {
			return err
		}
		if err := o.start(ctx, l, len(d.cfg.Onion.Targets) > 0, keeper); err != nil {
			return err
		}
	}
	if err := m.sponsor.Open(ctx); err != nil {
		return err
	}
	l.Start(stages.Stage{Name: "join", Run: m.sponsor.Run, Grace: 3 * time.Second})
	srv, inside, err := d.newStatus(w.relief)
	if err != nil {
		return err
	}
	if err := d.startGateway(ctx, l, w, srv); err != nil {
		return err
	}
	if w.redis != nil {
		l.Start(stages.Stage{Name: "redis", Run: w.redis.Run, Grace: time.Second})
	}
	l.Start(stages.Stage{Name: "status", Run: srv.Run, Grace: 3 * time.Second})
	if err := l.Await(ctx, srv.Up()); err != nil {
		return err
	}
	return o.servePage(ctx, l, inside)
}

// newStatus makes what serves the API, and the way to it that a page of this process has.
func (d *daemon) newStatus(relief *relief.Relief) (*status.Server, *door.Inside, error) {
	so := status.Options{
		Socket: d.cfg.Status.Socket, Group: d.cfg.Status.Group, Backend: d.backend, Version: d.o.Version, Cluster: d.id.clusterName(),
		ClusterID: d.id.Cluster.String(), Bearer: d.cfg.API.Bearer, Tokens: registry.New(d.history), Hosts: d.cfg.API.Names, Log: d.log, Registerer: d.reg, Gatherer: d.reg, Enter: relief.Enter, Paused: relief.Slows,
		API: door.API{
			Listen: d.cfg.API.Listen, Open: d.listen, TLSCert: d.cfg.API.TLSCert, TLSKey: d.cfg.API.TLSKey, Dir: d.cfg.StateDir, Origins: d.cfg.API.Origins,
		},
	}
	if d.cfg.Status.Listen.IsValid() {
		so.ListenTCP = d.listenStatus
	}
	if d.cfg.Status.UI || len(d.cfg.Onion.Operators) > 0 {
		so.Inside = door.NewInside()
	}
	if d.cfg.Status.UI {
		so.Page = page(so.Inside, "status.listen", "/ui", d.cfg.Status.Names)
	}
	srv, err := status.New(so)
	if err != nil {
		return nil, nil, err
	}
	d.backend.ServeCarried(srv.Carried)
	return srv, so.Inside, nil
}

// page is the page for who may read and no more, made when it is first asked for.
func page(inside *door.Inside, naming, base string, names func() []string) http.Handler {
	return web.Lazily(func() web.Options {
		return web.Options{API: inside.Transport(), Names: names(), Naming: naming, ReadOnly: true, Base: base}
	})
}

// listenStatus opens the read-only listener.
func (d *daemon) listenStatus(ctx context.Context) (net.Listener, error) {
	l, _, err := d.listen(ctx, d.cfg.Status.Listen)
	return l, err
}

// listen opens an address, inside the mesh if it is this host's mesh address, else on
// the machine itself. Inside says that nobody listens in on the way.
func (d *daemon) listen(ctx context.Context, at netip.AddrPort) (l net.Listener, inside bool, err error) {
	if self, ok := d.id.roster.Self(); ok && (at.Addr() == self.IP4 || at.Addr() == self.IP6) {
		l, err = d.device.Listen(ctx, at)
		return l, true, err
	}
	l, err = new(net.ListenConfig).Listen(ctx, "tcp", at.String())
	return l, at.Addr().IsLoopback(), err
}

// statusEvery is how often the status line for the service manager is updated.
const statusEvery = time.Second

// watch runs until ctx ends or a stage fails, keeping the status line up to date.
func (d *daemon) watch(ctx context.Context, l *stages.Sequence) error {
	line := d.backend.Line()
	d.notified(d.notify.Ready(line))
	tick := wait.NewTicker(statusEvery)
	defer tick.Stop()
	hangup := make(chan os.Signal, 1) // a second signal meanwhile adds nothing
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-l.Failed():
			return err
		case err := <-d.ended:
			return err
		case <-hangup:
			d.reload()
		case <-tick.C:
			tick.Next()
			if next := d.backend.Line(); next != line {
				line = next
				d.notified(d.notify.Status(line))
			}
			d.history.check()
		}
	}
}
