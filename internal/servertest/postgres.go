package servertest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// Postgres is a PostgreSQL of its own on a unix socket.
type Postgres struct {
	*Server
	DSN string // of its superuser

	program string
	args    []string
	cred    *syscall.Credential
	dir     string
}

// StartPostgres makes a database below base and starts its server with settings, as
// "fsync=on".
func StartPostgres(ctx context.Context, base string, settings ...string) (*Postgres, error) {
	initdb, err := Find("initdb", "postgresql")
	if err != nil {
		return nil, err
	}
	program, err := Find("postgres", "postgresql")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(base, "postgres")
	cred, err := Servant(base, dir)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	create := exec.CommandContext(ctx, initdb, "-D", data, "-U", "super", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-instructions")
	create.Dir = dir
	create.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	if out, err := create.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb, as user nobody if this is root, who must be able to enter %s: %w\n%s", dir, err, out)
	}
	p := &Postgres{
		DSN: "host=" + dir + " user=super dbname=postgres sslmode=disable", program: program, cred: cred, dir: dir,
		args: []string{"-D", data, "-k", dir, "-c", "listen_addresses="},
	}
	for _, set := range settings {
		p.args = append(p.args, "-c", set)
	}
	return p, p.Start(ctx)
}

// Start starts the server again after Stop or Kill, and waits until it answers.
func (p *Postgres) Start(ctx context.Context) error {
	var err error
	if p.Server, err = Start(p.dir, syscall.SIGQUIT, p.cred, p.program, p.args...); err != nil {
		return err
	}
	err = p.Ready(ctx, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, p.DSN)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
	if err != nil {
		return errors.Join(err, p.Stop())
	}
	return nil
}
