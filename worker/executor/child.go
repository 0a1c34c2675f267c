package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/worker/artefact"
	"github.com/skein-project/skein/worker/runner"
	"github.com/skein-project/skein/worker/words"
)

// errDied says that a runner ended by itself.
var errDied = errors.New("runner died")

// child is a runner process. One goroutine at a time speaks with it; close
// may be called from any.
type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.ReadCloser
	stderr runner.Tail // of the runner itself; complete after close

	mu   sync.Mutex
	gone bool // reaped or about to be: its pid is not ours any more

	once sync.Once
}

// startChild must be called on a thread that lives as long as the child may.
func startChild(argv []string, setup runner.Setup) (*child, error) {
	c := &child{cmd: exec.Command(argv[0], argv[1:]...)}
	// Nothing of the daemon's environment: two processors, one for the guest
	// and one to notice that the parent has gone; no memory dump on stderr.
	c.cmd.Env = []string{"GOMAXPROCS=2", "GOTRACEBACK=single"}
	c.cmd.Dir = "/"
	c.cmd.Stderr = &c.stderr
	c.cmd.WaitDelay = time.Second
	isolate(c.cmd)
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start runner: %w", err)
	}
	if c.out, err = c.cmd.StdoutPipe(); err != nil {
		return nil, fmt.Errorf("start runner: %w", err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start runner: %w", err)
	}
	if err := runner.WriteFrame(c.in, setup); err != nil { // fits into the pipe
		c.close()
		return nil, fmt.Errorf("start runner: %w", err)
	}
	return c, nil
}

// hearing is who hears a guest while it runs; nil: nobody wants to.
type hearing struct {
	report func(uint64)
	ask    func(runner.Ask)
	save   func(done uint64)
	words  *words.Words
}

// ask writes task, if there is one, and reads the next frame that is not about
// progress or words into reply. At the limit or at the end of ctx the process is killed.
// tooLong says the limit in words, with its place.
func (c *child) ask(ctx context.Context, most limit, tooLong string, task *runner.Task, reply *runner.Reply, heard hearing) error {
	timed, report, stop := most.apply(ctx, tooLong, heard.report)
	defer stop()
	spare := context.AfterFunc(timed, c.kill)
	var err error
	if task != nil {
		err = runner.WriteFrame(c.in, *task)
	}
	for err == nil {
		*reply = runner.Reply{}
		if err = runner.ReadFrame(c.out, reply); !reply.Between() {
			break
		}
		if reply.Progress > 0 {
			report(reply.Progress)
		}
		if reply.Ask != nil && heard.ask != nil {
			heard.ask(*reply.Ask)
		}
		if reply.Saved && heard.save != nil {
			heard.save(reply.Progress)
		}
		if heard.words != nil {
			heard.words.Skip(reply.Skipped)
			_, _ = heard.words.Write(reply.Said) // never fails
		}
	}
	switch killed := !spare(); {
	case killed && ctx.Err() != nil:
		return fmt.Errorf("%w: %w", errStopped, ctx.Err())
	case killed:
		return context.Cause(timed)
	case errors.Is(err, runner.ErrFrame):
		return err
	case err != nil:
		c.close()
		return fmt.Errorf("%w: %s", errDied, c.cmd.ProcessState)
	}
	return nil
}

// kill signals the process group; ask then sees the end of its output.
func (c *child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone {
		killGroup(c.cmd.Process.Pid)
	}
}

// close kills the process and reaps it.
func (c *child) close() {
	c.once.Do(func() {
		c.kill()
		c.mu.Lock()
		c.gone = true
		c.mu.Unlock()
		_ = c.in.Close() // the process has gone
		_ = c.cmd.Wait() // says "killed"
	})
}

// verdictError turns how a guest ended into a failure reason.
func verdictError(d *runner.Done) error {
	var what string
	switch d.Verdict {
	case runner.VerdictOK:
		return nil
	case runner.VerdictExit:
		what = fmt.Sprintf("exit code %d", d.Exit)
	case runner.VerdictTrap:
		what = "trap: " + d.Detail
	case runner.VerdictOutput:
		what = job.ErrTooMuchOutput.Error()
	case runner.VerdictFiles:
		what = d.Detail
	case runner.VerdictModule:
		what = "module cannot be run: " + d.Detail
	case runner.VerdictCorrupt:
		return fmt.Errorf("%w: %s", artefact.ErrCorrupt, d.Detail)
	case runner.VerdictFailed:
		what = "runner: " + d.Detail
	default:
		return fmt.Errorf("%w: verdict %q", runner.ErrFrame, d.Verdict)
	}
	if said := runner.LastWords(d.Stderr); said != "" {
		what += "; standard error: " + said
	}
	return errors.New(what)
}
