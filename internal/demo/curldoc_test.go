package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
)

// steps are the lines of a document from one that begins with first to the end of
// that which calls curl, without those that run a job.
func steps(t *testing.T, document, first string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", document))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(strings.TrimPrefix(line, "    "), "\n")
		if len(out) == 0 && !strings.HasPrefix(line, first) || strings.HasPrefix(line, "skein job run") {
			continue
		}
		out = append(out, line)
		if strings.Contains(line, "/v1/watch?topics=jobs") {
			return strings.Join(out, "\n")
		}
	}
	t.Fatalf("%s has no curl behind %q", document, first)
	return ""
}

// untilSynced runs a script until the stream that it reads has told its first state, and
// returns how many events that took.
func untilSynced(ctx context.Context, t *testing.T, script, dir string, env []string) (int, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	sh := exec.CommandContext(ctx, "bash", "-euc", script)
	sh.Dir, sh.Env, sh.SysProcAttr = dir, env, ownGroup()
	sh.WaitDelay = 10 * time.Second
	var complaints strings.Builder
	sh.Stderr = &complaints
	out, err := sh.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := sh.Start(); err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func() { _ = killGroup(sh.Process) }) // bash and its curl
	defer stop()
	seen, synced := 0, false
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for !synced && lines.Scan() {
		var m api.WatchMessage
		if json.Unmarshal(lines.Bytes(), &m) == nil && m.Event != "" {
			seen, synced = seen+1, m.Event == "synced"
		}
	}
	cancel()
	err = sh.Wait()
	if !synced {
		return seen, fmt.Errorf("%w\n%s", err, complaints.String())
	}
	return seen, nil
}

// TestCurlOfDocuments: what README.md and docs/access.md say from a key to a watch by
// curl is done as it stands there, with no more than the hosts' addresses and pins in
// the place of the examples.
func TestCurlOfDocuments(t *testing.T) {
	for _, program := range []string{"bash", "curl", "xxd", "base64"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the documents need %s: %v", program, err)
		}
	}
	parallel(t)
	d, ctx, ports := startForUsers(t, 2, "0.0.0.0") // neither loopback nor mesh: TLS
	link, err := filepath.Abs(bin)
	if err != nil {
		t.Fatal(err)
	}
	environ := func(more ...string) []string {
		return append(append(os.Environ(), "PATH="+link+":"+os.Getenv("PATH"), "SKEIN_TIMEOUT=60s"), more...)
	}
	for document, first := range map[string]string{"README.md": "skein auth key ann.key", "docs/access.md": "skein auth key --user ann"} {
		t.Run(document, func(t *testing.T) {
			dir := t.TempDir()
			home := environ("XDG_CONFIG_HOME=" + dir)
			lines := strings.Split(steps(t, document, first), "\n")
			begin := 0
			for i, line := range lines {
				if strings.HasPrefix(line, "export SKEIN_SOCKET=") {
					begin = i
				}
			}
			add := ""
			for _, line := range lines[:begin] {
				if strings.HasPrefix(line, "skein user add") {
					add = line
				}
			}
			if add == "" || begin == 0 {
				t.Fatalf("the steps are\n%s", strings.Join(lines, "\n"))
			}
			shell := func(line string, env []string) string {
				t.Helper()
				sh := exec.CommandContext(ctx, "bash", "-euc", line)
				sh.Dir, sh.Env = dir, env
				out, err := sh.Output()
				if err != nil {
					t.Fatalf("%s: %v\n%s", line, err, out)
				}
				return string(out)
			}
			shell(lines[0], home)
			printed := regexp.MustCompile(`(?m)^https://\S+ (sha256:([0-9a-f]{64}))$`)
			var pins, bare []string
			for _, h := range d.hosts {
				m := printed.FindStringSubmatch(shell(add, environ("SKEIN_SOCKET="+h.socket())))
				if m == nil {
					t.Fatalf("%s: no address and pin", add)
				}
				pins, bare = append(pins, m[1]), append(bare, m[2])
			}
			at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
			text := strings.NewReplacer("h1:7443", at(0), "h2:7443", at(1), "5d41...", bare[0], "77ab...", bare[1]).Replace(strings.Join(lines[begin:], "\n"))
			env := append(home, "PIN1="+pins[0], "PIN2="+pins[1])
			if seen, err := untilSynced(ctx, t, text, dir, env); err != nil || seen < 2 {
				t.Errorf("after %d events: %v\n%s", seen, err, text)
			}
			// By the pin of another host curl says nothing.
			text = strings.NewReplacer("${PIN1#", "${PIN2#", "echo "+bare[0], "echo "+bare[1]).Replace(text)
			var exit *exec.ExitError
			if seen, err := untilSynced(ctx, t, text, dir, env); !errors.As(err, &exit) || exit.ExitCode() != 90 || seen > 0 {
				t.Errorf("by the pin of another host: %d events, %v", seen, err)
			}
		})
	}
}
