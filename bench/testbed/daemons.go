package testbed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/bench/suite"
)

// Program builds skein as it is shipped, with more arguments for the compiler, and
// returns its path. What a group before has built is there already.
func Program(ctx context.Context, dir, name string, args ...string) (string, error) {
	out := filepath.Join(dir, "bin", name)
	if _, err := os.Stat(out); err == nil {
		return out, nil
	}
	build := exec.CommandContext(ctx, "go", append(append([]string{"build", "-trimpath", "-ldflags", "-s -w"}, args...), "-o", out, "./cmd/skein")...)
	build.Dir, build.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build skein: %w: %s", err, text)
	}
	return out, nil
}

// Daemons are hosts, each a process, as an operator runs them.
type Daemons struct {
	Exe   string
	Hosts []*Daemon
	dir   string
	env   []string // of all, beside that of this process
}

// Daemon is one of them.
type Daemon struct {
	Name string
	API  *api.Client
	dir  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// Socket is where it answers.
func (d *Daemon) Socket() string { return filepath.Join(d.dir, "sock") }

// NewDaemons starts some daemons that need no privileges, with more in their environment, and
// waits until all vote.
func NewDaemons(ctx context.Context, s *suite.Suite, n int, env ...string) (_ *Daemons, err error) {
	exe, err := Program(ctx, s.Dir, "skein")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sk") // short enough for a socket's address
	if err != nil {
		return nil, err
	}
	ds := &Daemons{Exe: exe, dir: dir, env: env}
	defer func() {
		if err != nil {
			err = errors.Join(err, ds.Close())
		}
	}()
	for i := range n {
		if err := ds.add(i); err != nil {
			return nil, err
		}
	}
	founder := ds.Hosts[0]
	if text, err := exec.CommandContext(ctx, exe, "init", "--config", founder.config(), "--cluster", "bench").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("skein init: %w: %s", err, text)
	}
	if err := ds.start(founder); err != nil {
		return nil, err
	}
	if err := founder.await(ctx, "holds", func(s api.Status) bool { return string(s.Lease.Holder) == founder.Name }); err != nil {
		return nil, err
	}
	for _, h := range ds.Hosts[1:] {
		token, err := founder.API.CreateToken(ctx, time.Hour, 1)
		if err != nil {
			return nil, err
		}
		file := filepath.Join(h.dir, "token")
		if err := os.WriteFile(file, []byte(token.Secret.Reveal()), 0o600); err != nil {
			return nil, err
		}
		if err := ds.start(h, "--join", "@"+file); err != nil {
			return nil, err
		}
	}
	for _, h := range ds.Hosts {
		err := h.await(ctx, fmt.Sprintf("sees %d voters", n), func(s api.Status) bool { return s.Lease.Voters == n && s.Members.Alive == n })
		if err != nil {
			return nil, err
		}
	}
	return ds, nil
}

func (d *Daemon) config() string { return filepath.Join(d.dir, "skein.toml") }

func (ds *Daemons) add(i int) error {
	h := &Daemon{Name: fmt.Sprintf("n%d", i+1)}
	h.dir = filepath.Join(ds.dir, h.Name)
	if err := os.Mkdir(h.dir, 0o700); err != nil {
		return err
	}
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	port := udp.LocalAddr().String()
	if err := udp.Close(); err != nil {
		return err
	}
	text := fmt.Sprintf("state_dir = %q\n[node]\nname = %q\npriority = %d\n[mesh]\nbackend = \"netstack\"\nlisten = %q\n"+
		"[lease]\nprofile = \"lan\"\n[worker]\nslots = 1\n[status]\nsocket = %q\n", filepath.Join(h.dir, "state"), h.Name, 10*(i+1), port, h.Socket())
	if err := os.WriteFile(h.config(), []byte(text), 0o600); err != nil {
		return err
	}
	h.API, err = api.Dial(h.Socket())
	ds.Hosts = append(ds.Hosts, h)
	return err
}

func (ds *Daemons) start(h *Daemon, args ...string) error {
	log, err := os.Create(filepath.Join(h.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	h.cmd = exec.Command(ds.Exe, append([]string{"run", "--config", h.config()}, args...)...) //nolint:noctx // stopped by Close
	h.cmd.Stdout, h.cmd.Stderr, h.cmd.Env = log, log, append(os.Environ(), ds.env...)
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := h.cmd.Start(); err != nil {
		return err
	}
	h.done = make(chan struct{})
	go func() {
		defer close(h.done)
		_ = h.cmd.Wait() // how it ended does not matter
	}()
	return nil
}

func (d *Daemon) await(ctx context.Context, what string, ok func(api.Status) bool) error {
	err := suite.Poll(ctx, d.Name+" "+what, 3*time.Minute, func() bool {
		s, err := d.API.Status(ctx)
		return err == nil && ok(s)
	})
	if err == nil {
		return nil
	}
	text, _ := os.ReadFile(filepath.Join(d.dir, "log")) // helps only
	return fmt.Errorf("%w\n%s", err, text[max(0, len(text)-2000):])
}

// Close ends them.
func (ds *Daemons) Close() error {
	for _, h := range ds.Hosts {
		if h.API != nil {
			h.API.Close()
		}
		if h.cmd != nil && h.cmd.Process != nil {
			_ = h.cmd.Process.Kill() // it may have ended
			<-h.done
		}
	}
	return os.RemoveAll(ds.dir)
}
