package servertest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Redis is a Redis of its own on a unix socket, with an append-only file.
type Redis struct {
	*Server
	Socket string

	program string
	args    []string
	dir     string
}

// StartRedis starts a server below base, with more arguments, as "--requirepass", "x".
func StartRedis(ctx context.Context, base string, more ...string) (*Redis, error) {
	program, err := Find("redis-server", "redis-server")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(base, "redis")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	r := &Redis{Socket: filepath.Join(dir, "s"), program: program, dir: dir}
	r.args = append([]string{
		"--port", "0", "--unixsocket", r.Socket, "--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--dir", dir,
	}, more...)
	return r, r.Start(ctx)
}

// StartSentinel starts a Sentinel below base, at a port, that watches the master at another
// port of this machine, calls it "main" and decides alone.
func StartSentinel(ctx context.Context, base, port, master string) (*Redis, error) {
	program, err := Find("redis-server", "redis-server")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(base, "sentinel")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	r := &Redis{Socket: filepath.Join(dir, "s"), program: program, dir: dir}
	file := filepath.Join(dir, "sentinel.conf")
	r.args = []string{file, "--sentinel"}
	text := fmt.Sprintf("bind 127.0.0.1\nport %s\nunixsocket %s\ndir %s\nsentinel monitor main 127.0.0.1 %s 1\n"+
		"sentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 3000\n", port, r.Socket, dir, master)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return r, r.Start(ctx)
}

// Start starts the server again after Stop or Kill, and waits until it answers.
func (r *Redis) Start(ctx context.Context) error {
	var err error
	if r.Server, err = Start(r.dir, syscall.SIGTERM, nil, r.program, r.args...); err != nil {
		return err
	}
	if err := r.Ready(ctx, r.answers); err != nil {
		return errors.Join(err, r.Stop())
	}
	return nil
}

// Flush empties it.
func (r *Redis) Flush(ctx context.Context) error {
	line, err := r.ask(ctx, "FLUSHALL")
	if err == nil && !strings.HasPrefix(line, "+OK") {
		err = fmt.Errorf("FLUSHALL: %s", line)
	}
	return err
}

// answers asks for an answer, whatever it is but that files are read still.
func (r *Redis) answers(ctx context.Context) error {
	line, err := r.ask(ctx, "PING")
	if err == nil && strings.HasPrefix(line, "-LOADING") {
		err = fmt.Errorf("it reads its files: %s", line)
	}
	return err
}

// ask is the first line of an answer.
func (r *Redis) ask(ctx context.Context, command string) (string, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", r.Socket)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Write([]byte(command + "\r\n")); err != nil {
		return "", err
	}
	return bufio.NewReader(conn).ReadString('\n')
}
