package tor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/internal/wait"
)

// The watchdog is a small process beside tor that ends it when its daemon is
// gone or hangs. A tor without its daemon goes on accepting introductions to
// services that nobody serves, and its clients wait for half a minute each.
const (
	minSilence = 3 * time.Second  // of a daemon that is not merely busy
	stuckTime  = 30 * time.Second // without Beat: the unit's WatchdogSec as well
	looks      = 6                // of the watchdog in the time that silence may last
)

// Signs on the pipe from daemon to watchdog.
const (
	signAlive = 'a'
	signLeave = 'q' // tor has ended; its process id may be another's soon
)

// Watchdog is the main function of the watchdog, which returns its exit code.
// args are a process id and how long the daemon may be silent.
func Watchdog(args []string, in io.Reader, out io.Writer) int {
	if len(args) != 2 {
		return 2
	}
	pid, err := strconv.Atoi(args[0])
	silence, err2 := time.ParseDuration(args[1])
	if err != nil || err2 != nil || pid <= 1 || silence < looks {
		return 2
	}
	// A service manager signals the whole service, which ends in good order.
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	// On Linux this is a handle of the very process, not only its number.
	p, err := os.FindProcess(pid)
	if err != nil {
		return 1
	}
	why := watchDaemon(in, silence)
	if why == "" {
		return 0
	}
	err = p.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		return 0
	}
	_, _ = fmt.Fprintf(out, "[warn] tor is ended: %s\n", why) // the daemon may be gone
	if err != nil {
		return 1
	}
	return 0
}

// watchDaemon waits until the daemon says that tor has ended, and returns
// nothing, or until it is gone or silent. It counts its own looks instead of
// the time: a machine that was paused has no daemon that hangs.
func watchDaemon(in io.Reader, silence time.Duration) (why string) {
	signs := make(chan byte) // closed at the end of the pipe
	go func() {              // ends with the pipe, or with the process
		defer close(signs)
		for b := make([]byte, 1); ; {
			if _, err := io.ReadFull(in, b); err != nil {
				return
			}
			signs <- b[0]
		}
	}()
	tick := time.NewTicker(silence / looks)
	defer tick.Stop()
	for silent := 0; silent <= looks; {
		select {
		case sign, ok := <-signs:
			switch {
			case !ok:
				return "its daemon is gone"
			case sign == signLeave:
				return ""
			}
			silent = 0
		case <-tick.C:
			silent++
		}
	}
	return fmt.Sprintf("its daemon did not answer for %s", silence)
}

// guardian has a watchdog beside each tor that is started.
type guardian struct {
	argv    []string // none: there is no watchdog
	silence time.Duration
	stuck   time.Duration // without Beat
	log     zerolog.Logger

	made   time.Time
	beaten atomic.Int64 // when, after made; 0: never
}

func newGuardian(o Options, log zerolog.Logger) *guardian {
	g := &guardian{argv: o.Watchdog, silence: o.Silence, stuck: o.stuck, log: log, made: time.Now()}
	if g.stuck == 0 {
		g.silence, g.stuck = max(g.silence, minSilence), stuckTime
	}
	return g
}

// Beat says that the daemon makes progress. From the first call on it has to be
// called at least once a second, or the daemon counts as hung.
func (t *Tor) Beat() { t.guardian.beaten.Store(int64(time.Since(t.guardian.made))) }

// alive reports whether the daemon makes progress, as far as this package can
// tell: that this runs at all, and Beat.
func (g *guardian) alive() bool {
	last := g.beaten.Load()
	return last == 0 || time.Since(g.made)-time.Duration(last) < g.stuck
}

// guard has a watchdog beside the process until the context ends.
func (g *guardian) guard(ctx context.Context, p *process) {
	for {
		err := g.one(ctx, p)
		if wait.For(ctx, time.Second) != nil {
			return
		}
		g.log.Warn().Err(err).Msg("watchdog of tor ended, starting another")
	}
}

// one is the life of one watchdog.
func (g *guardian) one(ctx context.Context, p *process) error {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("watchdog of tor: %w", err)
	}
	defer ours.Close()
	args := append(slices.Clone(g.argv[1:]), strconv.Itoa(p.pid), g.silence.String())
	cmd := exec.Command(g.argv[0], args...) //nolint:noctx // ends with the pipe
	cmd.Env, cmd.Dir = p.cmd.Env, p.cmd.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, p.out, p.out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what stops the daemon's group does not stop it
	cmd.WaitDelay = stopTime
	err = cmd.Start()
	_ = theirs.Close() // the child has its own
	if err != nil {
		return fmt.Errorf("watchdog of tor: %w", err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }() // ends with the process, which is killed below if it must be
	if err := g.feed(ctx, ours, gone); err != nil {
		return err
	}
	_, _ = ours.Write([]byte{signLeave}) // else it finds that tor has ended
	select {
	case err = <-gone:
	case <-time.After(stopTime):
		_ = cmd.Process.Kill() // it may just have ended
		err = <-gone
	}
	return err
}

// feed tells the watchdog that the daemon is alive, until the context or the
// watchdog ends; the latter is an error.
func (g *guardian) feed(ctx context.Context, pipe *os.File, gone <-chan error) error {
	tick := time.NewTicker(g.silence / looks)
	defer tick.Stop()
	for {
		if g.alive() {
			_ = pipe.SetWriteDeadline(time.Now().Add(stopTime)) // one that is stopped fills the pipe
			_, _ = pipe.Write([]byte{signAlive})                // gone says it
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-gone:
			if err == nil {
				err = errors.New("it ended by itself")
			}
			return fmt.Errorf("watchdog of tor: %w", err)
		case <-tick.C:
		}
	}
}
