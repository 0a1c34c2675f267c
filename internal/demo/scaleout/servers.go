package scaleout

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/internal/servertest"
	"github.com/skein-project/skein/internal/tool"
)

// MissingError names the programs that this machine lacks.
type MissingError struct {
	programs, packages []string
	fugo               bool // Centrifugo is missing as well
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("this demo needs %s, which this machine does not have; nothing was started", strings.Join(e.programs, " and "))
}

// Hint is how to get them.
func (e *MissingError) Hint() string {
	var how []string
	if len(e.packages) > 0 {
		how = append(how, "sudo apt-get install --no-install-recommends "+strings.Join(e.packages, " "))
	}
	if e.fugo {
		how = append(how, "for Centrifugo `make bin/tools/centrifugo` in the sources, or put a v5 of https://github.com/centrifugal/centrifugo/releases in the search path")
	}
	return strings.Join(how, "; ")
}

// missing is what there is not.
func missing() error {
	var e MissingError
	for _, p := range []struct{ program, pkg string }{{"redis-server", "redis-server"}, {"initdb", "postgresql"}, {"postgres", "postgresql"}} {
		if _, err := servertest.Find(p.program, p.pkg); err != nil {
			e.programs = append(e.programs, p.program)
			if !slices.Contains(e.packages, p.pkg) {
				e.packages = append(e.packages, p.pkg)
			}
		}
	}
	if _, err := tool.Find("centrifugo"); err != nil {
		e.programs, e.fugo = append(e.programs, "centrifugo"), true
	}
	if e.programs == nil {
		return nil
	}
	return &e
}

// startServers starts a Redis and a PostgreSQL that nobody else reaches.
func (w *show) startServers(ctx context.Context) (err error) {
	if w.redis, err = servertest.StartRedis(ctx, w.s.Dir()); err != nil {
		return err
	}
	if w.pg, err = servertest.StartPostgres(ctx, w.s.Dir()); err != nil {
		w.stopServers()
		return err
	}
	as := ""
	if os.Geteuid() == 0 {
		as = ", PostgreSQL as user nobody"
	}
	w.s.Say("Redis and PostgreSQL up: started for this demo alone, in its directory, on sockets that nobody else reaches%s", as)
	return nil
}

// stopServers ends them; their directory is removed.
func (w *show) stopServers() {
	_ = w.redis.Stop() // it may have ended
	if w.pg != nil {
		_ = w.pg.Stop()
	}
}

// writeSecret writes a line that only this user reads.
func writeSecret(file, line string) error { return os.WriteFile(file, []byte(line+"\n"), 0o600) }

// ready asks a gateway whether it lets workers in.
func ready(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", addr, resp.Status)
	}
	return nil
}
