package deb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/internal/require"
)

// builder is buildah with images of its own. It needs no daemon.
type builder struct {
	t    *testing.T
	args []string
}

func newBuilder(t *testing.T) builder {
	t.Helper()
	work := t.TempDir()
	b := builder{t, []string{"buildah", "--root", filepath.Join(work, "images"), "--runroot", filepath.Join(work, "run"), "--storage-driver", "vfs"}}
	t.Cleanup(func() { _, _ = command("", nil, append(slices.Clone(b.args), "rm", "-a")...) }) // nothing of it is kept
	return b
}

func (b builder) do(args ...string) string {
	b.t.Helper()
	return strings.TrimSpace(must(b.t, "", nil, slices.Concat(b.args, args)...))
}

// golang makes a stand-in for the image that the recipe begins with: a shell and the two
// other programs that it calls. Go comes from this machine.
func (b builder) golang(name string) {
	b.t.Helper()
	tree := b.t.TempDir()
	script := `busybox=$(command -v busybox); install=$(command -v install)
		mkdir -p bin usr/local/go go root tmp etc/ssl/certs && cp "$busybox" bin/busybox && ln -s busybox bin/sh
		for f in $install $(ldd $install | grep -o '/[^ ]*'); do mkdir -p .$(dirname $f) && cp -L $f .$f; done
		cp /etc/ssl/certs/ca-certificates.crt etc/ssl/certs/`
	must(b.t, tree, nil, "sh", "-ec", script)
	c := b.do("from", "scratch")
	b.do("copy", "-q", c, tree, "/")
	b.do("config", "--env", "PATH=/usr/local/go/bin:/usr/bin:/bin", "--env", "GOPATH=/go", "--env", "GOCACHE=/root/.cache/go-build", "--env", "GOTOOLCHAIN=local", c)
	b.do("commit", "-q", "--rm", c, name)
}

// holds is what a host shows that holds the lease.
var holds = regexp.MustCompile(`(?m)^\s+holder\s+n1, term 1 `)

// TestImage builds the image of packaging/Containerfile, looks at all that is in it, and
// runs its program as its user: a cluster is founded, the daemon answers, and hands over
// when it is told to stop.
func TestImage(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: builds an image")
	}
	require.Need(t, require.Image)
	recipe := filepath.Join(root, "packaging", "Containerfile")
	text, err := os.ReadFile(recipe)
	if err != nil {
		t.Fatal(err)
	}
	from := regexp.MustCompile(`(?m)^FROM (\S+) AS build$`).FindSubmatch(text)
	if from == nil {
		t.Fatal("the recipe begins otherwise")
	}
	b := newBuilder(t)
	b.golang(string(from[1]))
	tree := t.TempDir()
	copied(t, "true", tree)
	env := func(name string) string { return strings.TrimSpace(must(t, root, nil, "go", "env", name)) }
	b.do("bud", "--isolation", "chroot", "--pull-never", "-q", "-f", filepath.Join(tree, "packaging", "Containerfile"), "--build-arg", "VERSION=1.2.3",
		"-v", env("GOROOT")+":/usr/local/go:ro", "-v", env("GOMODCACHE")+":/go/pkg/mod", "-v", env("GOCACHE")+":/root/.cache/go-build", "-t", "skein:test", tree)

	if got, want := b.do("inspect", "--type", "image", "--format", "{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.Cmd}} {{.OCIv1.Config.StopSignal}}", "skein:test"),
		"10086:10086 [/usr/bin/skein] [run] SIGTERM"; got != want {
		t.Errorf("the image says %s, want %s", got, want)
	}
	c := b.do("from", "--pull-never", "skein:test")
	at := b.do("mount", c)
	var have []string
	if err := filepath.WalkDir(at, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := e.Info(); err == nil && !e.IsDir() {
			have = append(have, fmt.Sprintf("%s %s", info.Mode(), strings.TrimPrefix(path, at)))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"-rw-r--r-- /etc/ssl/certs/ca-certificates.crt", "-rwxr-xr-x /usr/bin/skein"}; !slices.Equal(have, want) {
		t.Errorf("in the image are %q, want %q", have, want)
	}

	// The state is on a volume that belongs to the image's user.
	state := t.TempDir()
	for _, d := range []string{state, filepath.Dir(state)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(state, 0o700), os.Chown(state, 10086, 10086)); err != nil {
		t.Fatal(err)
	}
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := probe.Addr().String()
	_ = probe.Close() // only probed
	run := func(args ...string) []string {
		return slices.Concat(b.args, []string{"run", "--isolation", "chroot", "-v", state + ":/var/lib/skein", "--env", "SKEIN_MESH_LISTEN=" + listen, "--env", "SKEIN_NODE_NAME=n1", c, "--", "/usr/bin/skein"}, args)
	}
	if out, err := command("", nil, run("version")...); err != nil || !strings.Contains(out, "1.2.3") {
		t.Fatalf("%v %s", err, out)
	}
	must(t, "", nil, run("init", "--cluster", "blue")...)
	daemon := run("run")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.Command(daemon[0], daemon[1:]...) //nolint:noctx // it is stopped cleanly
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its children are told to stop, too
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }() // nothing is left, if all is well
	status := ""
	for {
		status, err = command("", nil, run("status")...)
		if err == nil && holds.MatchString(status) || ctx.Err() != nil {
			break
		}
		time.Sleep(time.Second)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, status)
	}
	if info, err := os.Stat(filepath.Join(state, "identity.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	must(t, "", nil, "sh", "-c", `test "$(stat -c %u "$1"/identity.json)" = 10086`, "sh", state)
	// The daemon alone: buildah would kill it.
	pid, err := strconv.Atoi(strings.TrimSpace(must(t, "", nil, "pgrep", "-g", strconv.Itoa(cmd.Process.Pid), "-x", "skein")))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it does not stop")
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended //nolint:errcheck // it was killed
	}
	if !strings.Contains(said.String(), "shutdown") {
		t.Error("it was not stopped in order")
	}
	t.Logf("%s\n%s", status, said.String())
}
