package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/cut"
	"github.com/skein-project/skein/internal/wait"
)

// Page serves the page of the daemon at a socket until the context ends, and hands each
// link to it to link.
type Page func(ctx context.Context, socket string, link func(string)) error

// pace is how fast a show goes.
type pace struct {
	calm time.Duration // between two mishaps
	down time.Duration // a host is gone, or cut off
	work time.Duration // a job's computing
}

var showPace = pace{calm: 20 * time.Second, down: 15 * time.Second, work: 45 * time.Second}

// showTime is longer than anybody looks.
const showTime = 7 * 24 * time.Hour

// Show starts three hosts on this machine and serves the page of the last one. Until the
// context ends one job follows another, and hosts are killed, cut off and asked to hand
// the lease over, in turn. It leaves nothing behind.
func Show(ctx context.Context, o Options, page Page) error { return show(ctx, o, page, showPace) }

func show(ctx context.Context, o Options, page Page, p pace) error {
	if _, err := os.Stat(o.Wasm); err != nil {
		return fmt.Errorf("the demo's module is missing: %w (make build compiles it)", err)
	}
	return inDirectory(ctx, o, showTime, func(within context.Context, d *demo) error {
		err := d.show(within, page, p)
		if ctx.Err() != nil {
			return nil // that is how it ends, and no failure whose logs are kept
		}
		return err
	})
}

func (d *demo) show(ctx context.Context, page Page, p pace) error {
	apart := cut.New()
	defer apart.Close()
	var failed error
	d.env = func(_, port int) []string {
		at, err := apart.Front(port)
		failed = errors.Join(failed, err)
		return []string{"SKEIN_MESH_ADVERTISE=" + at.String()}
	}
	if err := d.up(ctx); err != nil {
		return errors.Join(failed, err)
	}
	shown := d.hosts[d.size-1]
	spec, err := d.upload(ctx, d.o.Wasm)
	if err != nil {
		return err
	}
	if spec.Iterations, err = d.calibrate(ctx, spec); err != nil {
		return err
	}
	spec.Iterations = uint64(float64(spec.Iterations) * p.work.Seconds() / demoWork.Seconds())
	spec.Chunk = max(1, spec.Iterations/demoChunks)

	ctx, cancel := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel(nil)
	var said sync.Mutex
	say := func(format string, args ...any) {
		said.Lock()
		defer said.Unlock()
		d.say(format, args...)
	}
	run := func(what string, f func() error) {
		all.Go(func() {
			if err := f(); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", what, err))
			}
		})
	}
	linked := make(chan struct{})
	var once sync.Once
	run("page", func() error {
		return page(ctx, shown.socket(), func(link string) {
			say("the page, as %s sees the cluster: %s", shown.name, link)
			once.Do(func() { close(linked) })
		})
	})
	select {
	case <-linked:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	say("on a terminal:  %s top --socket %s", d.o.Exe, shown.socket())
	say("Ctrl-C ends all of it. Who holds the lease? Why did it move? Which host ran a chunk?")
	run("jobs", func() error { return d.work(ctx, shown, spec, say) })
	run("mishaps", func() error { return d.mishaps(ctx, shown, apart, p, say) })
	<-ctx.Done()
	return context.Cause(ctx)
}

func (h *host) socket() string { return filepath.Join(h.dir, "sock") }

// work submits a job, waits for its end and submits the next.
func (d *demo) work(ctx context.Context, h *host, spec job.Spec, say func(string, ...any)) error {
	for n := 1; ; n++ {
		spec.Name, spec.Key = fmt.Sprintf("pi-%d", n), fmt.Sprintf("show-%d", n)
		var sub api.SubmitResponse
		// Between two holders nobody takes it.
		err := d.insist(ctx, func() (err error) {
			sub, err = h.api.Submit(ctx, api.SubmitRequest{Spec: spec})
			return err
		})
		if err != nil {
			return err
		}
		say("job %s: %d iterations in %d chunks", spec.Name, spec.Iterations, sub.Spec.Chunks())
		var j api.Job
		err = d.insist(ctx, func() (err error) {
			if j, err = h.api.Job(ctx, string(sub.Job)); err == nil && !j.State.Final() {
				err = errors.New("it runs")
			}
			return err
		})
		if err != nil {
			return err
		}
		say("job %s is %s: %d of %d chunks, pi = %.6f", spec.Name, j.State, j.Chunks.Accepted, j.Chunks.Total, j.Aggregates["pi"].Mean)
	}
}

// insist tries until it works or the context ends.
func (d *demo) insist(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		if waited := wait.For(ctx, 10*pollEvery); waited != nil {
			return errors.Join(waited, err)
		}
	}
}

// mishaps lets hosts fail, one after the other, and mends what it broke. The host that
// the page asks is spared: it takes part as one that survives.
func (d *demo) mishaps(ctx context.Context, shown *host, apart *cut.Cutter, p pace, say func(string, ...any)) error {
	for n := 0; ; n++ {
		if err := wait.For(ctx, p.calm); err != nil {
			return err
		}
		holder, err := d.holder(ctx)
		if err != nil {
			return err
		}
		switch {
		case holder == shown || n%3 == 2:
			say("%s is asked to hand the lease over", holder.name)
			if _, err := holder.api.StepDown(ctx, api.StepDownRequest{Reason: "the demo"}); err != nil && !api.Temporary(err) {
				say("%s does not: %s", holder.name, err)
			}
		case n%3 == 0:
			say("SIGKILL to %s, which holds the lease", holder.name)
			if err := killGroup(holder.cmd.Process); err != nil {
				return err
			}
			<-holder.done
			if err := d.moved(ctx, shown, holder, say); err != nil {
				return err
			}
			if err := wait.For(ctx, p.down); err != nil {
				return err
			}
			say("%s starts again", holder.name)
			if err := holder.run(); err != nil {
				return err
			}
		default:
			say("%s, which holds the lease, is cut off from the others", holder.name)
			port := d.ports[slices.Index(d.hosts, holder)]
			apart.Put(port, 1)
			if err := d.moved(ctx, shown, holder, say); err != nil {
				return err
			}
			if err := wait.For(ctx, p.down); err != nil {
				return err
			}
			say("the network of %s is mended", holder.name)
			apart.Put(port, 0)
		}
		if err := d.insist(ctx, func() error {
			s, err := shown.api.Status(ctx)
			if err == nil && (s.Members.Alive != d.size || s.Lease.Holder == "") {
				err = errors.New("not all are back")
			}
			return err
		}); err != nil {
			return err
		}
	}
}

// moved waits until another host holds the lease.
func (d *demo) moved(ctx context.Context, shown, from *host, say func(string, ...any)) error {
	begun := time.Now()
	var l api.Lease
	err := d.insist(ctx, func() (err error) {
		l, err = shown.api.Lease(ctx)
		if err == nil && (l.Holder == "" || l.Holder == cluster.NodeID(from.name)) {
			err = errors.New("not yet")
		}
		return err
	})
	if err == nil {
		say("%s holds term %d, %.1f s later", l.Holder, l.Term, time.Since(begun).Seconds())
	}
	return err
}
