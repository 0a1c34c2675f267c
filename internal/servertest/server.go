package servertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/skein-project/skein/internal/wait"
)

// startTime bounds how long a server takes until it answers.
const startTime = 2 * time.Minute

// Server is the process of a server. It dies with this one.
type Server struct {
	cmd  *exec.Cmd
	end  syscall.Signal // asks it to stop at once
	done chan struct{}  // closed when it ended
}

// Start starts a program, as user where this one is root, with dir as
// its directory.
func Start(dir string, end syscall.Signal, cred *syscall.Credential, program string, args ...string) (*Server, error) {
	log, err := os.Create(filepath.Join(dir, "output"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s := &Server{cmd: exec.Command(program, args...), end: end, done: make(chan struct{})}
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = dir, log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: cred}
	// It dies with the thread that started it, which therefore waits for it.
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer close(s.done)
		err := s.cmd.Start()
		if started <- err; err == nil {
			_ = s.cmd.Wait() // how it ended does not matter
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return s, nil
}

// Signal sends it a signal; after SIGKILL it returns when the server is dead.
func (s *Server) Signal(sig syscall.Signal) error {
	err := s.cmd.Process.Signal(sig)
	if err == nil && sig == syscall.SIGKILL {
		<-s.done
	}
	return err
}

// Stop ends the server.
func (s *Server) Stop() error {
	_ = s.cmd.Process.Signal(s.end)
	select {
	case <-s.done:
		return nil
	case <-time.After(10 * time.Second):
		return errors.Join(fmt.Errorf("%s did not stop", s.cmd.Path), s.cmd.Process.Kill())
	}
}

// Kill ends the server as a crash would.
func (s *Server) Kill() error {
	err := s.cmd.Process.Kill()
	<-s.done
	return err
}

// Ready tries until try succeeds.
func (s *Server) Ready(ctx context.Context, try func(context.Context) error) error {
	var last error
	limit := time.Now().Add(startTime)
	for time.Now().Before(limit) {
		if last = try(ctx); last == nil {
			return nil
		}
		if err := wait.For(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	out, _ := os.ReadFile(filepath.Join(s.cmd.Dir, "output")) // helps only
	return fmt.Errorf("%s does not answer: %w\n%s", s.cmd.Path, last, out)
}

// Find looks for a program, also where Debian keeps those of servers.
func Find(program, pkg string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + program)
	if err != nil || len(found) == 0 {
		return "", &AbsentError{program, pkg}
	}
	return found[len(found)-1], nil
}

// Servant is whom a server that refuses to run as root runs as, and makes dir
// and what is above it, up to base, accessible to it. nil: this user.
func Servant(base, dir string) (*syscall.Credential, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.Chmod(base, 0o711), os.Chown(dir, int(uid), int(gid))); err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// AbsentError says that a program is not installed.
type AbsentError struct{ program, pkg string }

func (e *AbsentError) Error() string {
	return fmt.Sprintf("%s is not installed; it is in the Debian package %s", e.program, e.pkg)
}

// Ports finds n addresses of this machine that nobody listens at.
func Ports(n int) ([]string, error) {
	var out []string
	for range n {
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // when all are found, which then are different
		out = append(out, l.Addr().String())
	}
	return out, nil
}
