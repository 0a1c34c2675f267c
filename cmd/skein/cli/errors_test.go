package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/skein-project/skein/api"
)

// TestForbiddenExits5: who may not do it gets one code, at the socket and at
// the state directory.
func TestForbiddenExits5(t *testing.T) {
	a := &App{}
	for _, err := range []error{
		&api.UnreachableError{Target: "/run/skein/skein.sock", Err: syscall.EACCES},
		fmt.Errorf("read: %w", &fs.PathError{Op: "open", Path: "/var/lib/skein/identity.json", Err: syscall.EACCES}),
		api.Errorf(api.CodeUnauthorized, "this needs a user").WithHint("skein --key FILE"),
	} {
		if code, _, hint := a.Classify(t.Context(), err); code != ExitForbidden || hint == "" {
			t.Errorf("%v: exit %d, hint %q", err, code, hint)
		}
	}
}

// TestOldDaemon: a daemon without the path that a command asks is one of another release;
// nothing that it does not know by name is missing.
func TestOldDaemon(t *testing.T) {
	code, msg, hint := (&App{}).Classify(t.Context(), fmt.Errorf("GET: %w", api.NoPath("/v1/jobs/j1/explain")))
	if code != ExitFailed || !strings.Contains(msg, "nothing at /v1/jobs/j1/explain") || !strings.Contains(hint, "another release") {
		t.Errorf("exit %d: %s; %s", code, msg, hint)
	}
	if code, _, _ := (&App{}).Classify(t.Context(), api.Errorf(api.CodeNotFound, "no job j1")); code != ExitNotFound {
		t.Errorf("an unknown job: exit %d", code)
	}
}

// TestSocketHints tells apart the three ways a socket can be missing.
func TestSocketHints(t *testing.T) {
	a := &App{Terminal: Terminal{Env: []string{"SKEIN_CONFIG=/nonexistent"}}}
	dir := t.TempDir()
	for _, tc := range []struct {
		name, flag, target string
		err                error
		want               string
	}{
		{"group", "", "/run/skein/skein.sock", syscall.EACCES, "usermod -aG skein $USER"},
		{"inactive", "", "/run/skein/skein.sock", syscall.ENOENT, "systemctl start skein"},
		{"stale", "", "/run/skein/skein.sock", syscall.ECONNREFUSED, "systemctl status skein"},
		{"wrong path", dir + "/x", dir + "/x", syscall.ENOENT, "wrong path? The daemon's socket is normally /run/skein/skein.sock"},
		{"other", "", dir + "/x", syscall.ENOENT, "status.socket"},
	} {
		a.socket = tc.flag
		if got := a.socketHint(&api.UnreachableError{Target: tc.target, Err: tc.err}); !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q lacks %q", tc.name, got, tc.want)
		}
	}
	// The group is the one that the socket really has.
	shared := filepath.Join(dir, "shared")
	if err := os.WriteFile(shared, nil, 0o660); err != nil {
		t.Fatal(err)
	}
	if g, err := user.LookupGroup("daemon"); err == nil && os.Geteuid() == 0 {
		gid, err := strconv.Atoi(g.Gid)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(shared, -1, gid); err != nil {
			t.Fatal(err)
		}
		if got := a.socketHint(&api.UnreachableError{Target: shared, Err: syscall.EACCES}); !strings.Contains(got, "usermod -aG daemon $USER") {
			t.Errorf("%q does not name the group", got)
		}
	}
}

// TestEndedHint: where the host of this configuration was removed, nobody answers for
// that reason; a socket of another host says nothing about it.
func TestEndedHint(t *testing.T) {
	dir := t.TempDir()
	sock := filepath.Join(dir, "s")
	removed := errors.New("this host was removed from the cluster: stolen")
	a := &App{
		Terminal: Terminal{Env: []string{"SKEIN_CONFIG=" + filepath.Join(dir, "c.toml")}},
		Ended: func(stateDir string) error {
			if stateDir != dir {
				t.Errorf("asked about %s", stateDir)
			}
			return removed
		},
	}
	if err := os.WriteFile(filepath.Join(dir, "c.toml"), fmt.Appendf(nil, "state_dir = %q\n[status]\nsocket = %q\n", dir, sock), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, target string
		err          error
		want         bool
	}{
		{"socket gone", sock, syscall.ENOENT, true},
		{"socket stale", sock, syscall.ECONNREFUSED, true},
		{"another socket", sock + "2", syscall.ENOENT, false},
		{"no permission", sock, syscall.EACCES, false},
	} {
		code, _, hint := a.Classify(t.Context(), &api.UnreachableError{Target: c.target, Err: c.err})
		if strings.Contains(hint, removed.Error()) != c.want || c.want && code != ExitUnreachable {
			t.Errorf("%s: exit %d, hint %q", c.name, code, hint)
		}
	}
	removed = nil
	if _, _, hint := a.Classify(t.Context(), &api.UnreachableError{Target: sock, Err: syscall.ENOENT}); !strings.Contains(hint, "daemon is not running") {
		t.Errorf("a member: %q", hint)
	}
}
