package slice

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"github.com/skein-project/skein/internal/sysclock"
	"github.com/skein-project/skein/load/gang"
	"github.com/skein-project/skein/load/guard"
	"github.com/skein-project/skein/load/stat"
)

// maxLine bounds a line that the process says, maxWords what is kept of its standard
// error.
const (
	maxLine  = 8 << 20
	maxWords = 4 << 10
	// killAfter is how long a process has to end that was told to.
	killAfter = 5 * time.Second
)

// run is the goroutine of a slice.
func (s *slice) run() {
	defer s.cancel()
	if err := s.serve(); err != nil {
		if cause := context.Cause(s.ctx); cause != nil {
			err = errors.New("it was given up before its end")
		}
		s.h.o.Logger.Debug().Err(err).Str("run", string(s.p.Run)).Msg("part of a load test ended")
		s.broke(err)
	}
}

func (s *slice) serve() error {
	if err := s.reserve(); err != nil {
		return err
	}
	s.set(func() { s.waits = "the scenario" })
	text, err := s.h.o.Fetch(s.ctx, s.p.Bundle)
	if err != nil {
		return fmt.Errorf("fetch the scenario: %w", err)
	}
	a := s.h.o.Allowed()
	if why := s.h.refuses(a, s.p.Owner); why != "" { // whatever the holder was told before
		return errors.New(why)
	}
	s.set(func() { s.waits, s.last.allowed = "setup", &a })
	return s.child(a.User, setup{
		Bundle: text, Shares: s.p.Shares, Index: s.p.Index, Seed: s.p.Seed, Agent: fmt.Sprintf("%s (cluster %s, run %s)", s.h.o.Agent, s.h.o.Cluster, s.p.Run), Cluster: s.h.o.Cluster,
		Targets: a.Targets, MaxRate: a.MaxRate, MaxUsers: a.MaxUsers, Never: s.h.o.Never(), Secrets: a.Secrets,
		Fence: s.fence.limit,
	})
}

// reserve waits until the worker of this host has nothing to do.
func (s *slice) reserve() error {
	until := time.Now().Add(drainPatience)
	tick := time.NewTicker(drainLook)
	defer tick.Stop()
	for {
		n := s.h.o.Running()
		if n == 0 {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("%d chunks still run after %s", n, drainPatience)
		}
		s.set(func() { s.waits = fmt.Sprintf("%d chunks that run", n) })
		select {
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-tick.C:
		}
	}
}

// child runs the process to its end, with the rights of a user.
func (s *slice) child(user string, first setup) error {
	attr := attributes()
	if err := as(attr, user); err != nil {
		return err
	}
	runtime.LockOSThread() // the kernel kills the process when this thread ends, as it does with this goroutine
	ctx, kill := context.WithCancel(s.ctx)
	defer kill()
	cmd := exec.CommandContext(ctx, s.h.o.Argv[0], s.h.o.Argv[1:]...) //nolint:gosec // this program itself
	cmd.SysProcAttr, cmd.WaitDelay = attr, killAfter
	var words bytes.Buffer
	cmd.Stderr = &limited{w: &words, left: maxWords}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the engine: %w", err)
	}
	ended := make(chan struct{})
	told := make(chan struct{})
	go func() { // ends with the process
		defer close(told)
		defer in.Close()
		s.tell(in, first, ended)
	}()
	if err = s.hear(out); err != nil {
		kill() // nobody reads what it says: it could neither go on nor end
	}
	close(ended)
	<-told
	if failed := cmd.Wait(); (err == nil || errors.Is(err, errNoResult)) && failed != nil {
		err = fmt.Errorf("the engine: %w: %s", failed, bytes.TrimSpace(words.Bytes()))
	}
	return err
}

// errNoResult: the process ended before it was done.
var errNoResult = errors.New("the engine ended without a result")

// tell hands on orders until the process has ended.
func (s *slice) tell(in io.Writer, first setup, ended <-chan struct{}) {
	enc := json.NewEncoder(in)
	if enc.Encode(first) != nil {
		return // it says why, or its end does
	}
	for {
		select {
		case <-ended:
			return
		case <-s.ctx.Done():
			return
		case x := <-s.orders:
			if enc.Encode(x) != nil {
				return
			}
		case until := <-s.fence.until:
			if enc.Encode(order{Until: until}) != nil {
				return
			}
		}
	}
}

// hear takes in what the process says, to its end.
func (s *slice) hear(out io.Reader) error {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLine)
	over := false
	for lines.Scan() {
		var x said
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
			return fmt.Errorf("the engine says something unexpected: %w", err)
		}
		if x.Failed != "" {
			return errors.New(x.Failed)
		}
		var err error
		s.set(func() { err = s.take(x) })
		if err != nil {
			return err
		}
		over = over || x.End != nil
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read what the engine says: %w", err)
	}
	if !over {
		return errNoResult
	}
	return nil
}

// take takes in one thing that the process said.
func (s *slice) take(x said) error {
	if s.stage == gang.Broken {
		return errors.New(s.why) // it is being killed
	}
	for reason, n := range x.Blocked {
		if had := s.blocked[reason]; n > had && slices.Contains(guard.Reasons, reason) {
			s.h.m.blocked.WithLabelValues(string(reason)).Add(float64(n - had))
		}
	}
	if x.Blocked != nil {
		s.blocked = x.Blocked
	}
	switch {
	case x.Ready != nil:
		s.stage, s.extracted, s.waits = gang.Ready, x.Ready.Extracted, ""
		if s.shelf == nil {
			s.shelf = stat.NewShelf(x.Ready.Series, x.Ready.Checks, stat.MaxShelf)
		}
		for _, f := range s.early {
			if err := s.put(f); err != nil {
				return err
			}
		}
		s.early = nil
	case x.Frame != nil && s.shelf == nil:
		if len(s.early) > 0 {
			return errors.New("the engine counts before it is ready")
		}
		s.early = append(s.early, *x.Frame)
	case x.Frame != nil:
		return s.put(*x.Frame)
	case x.End != nil:
		s.stage, s.end = gang.Done, x.End
	}
	return nil
}

// put keeps a frame for the holder, and counts what it has.
func (s *slice) put(f stat.Frame) error {
	if err := s.shelf.Put(f); err != nil {
		return err
	}
	s.fence.counted(f.Last, sysclock.Boot())
	var own stat.Own
	own.AddWire(f.Bank)
	s.h.m.count(&own)
	return nil
}

// limited keeps the first bytes of what is written.
type limited struct {
	w    *bytes.Buffer
	left int
}

func (l *limited) Write(b []byte) (int, error) {
	n := min(len(b), l.left)
	l.left -= n
	l.w.Write(b[:n])
	return len(b), nil
}
