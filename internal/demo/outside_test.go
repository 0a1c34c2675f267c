package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// TestRegistryOutlivesTheHolder: workers and tokens are made at a host that is not the
// holder, of these some end; the holder is killed, and the next one, a host that comes
// back from a snapshot, and all others say the same of them.
func TestRegistryOutlivesTheHolder(t *testing.T) {
	parallel(t)
	d, ctx := startWith(t, 3, calm)
	holder, err := d.holder(ctx)
	if err != nil {
		t.Fatal(err)
	}
	at := d.other(holder)
	if _, err := at.api.SetUser(ctx, "ann", api.UserRequest{Role: "submitter"}); err != nil {
		t.Fatal(err)
	}
	skein := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		stdout, stderr, code := d.cli(ctx, at, append([]string{"gateway"}, args...)...)
		if code != want {
			t.Fatalf("skein gateway %s: exit code %d, want %d: %s%s", strings.Join(args, " "), code, want, stdout, stderr)
		}
		return stdout, stderr
	}
	keys := map[string]string{} // by name
	for i, name := range []string{"attic", "cellar", "rack"} {
		keys[name] = access.FormatPublicKey(bytes.Repeat([]byte{byte(i + 1)}, 32))
		args := []string{"worker", "add", "--key", keys[name], "--name", name, "--owner", "user:ann"}
		if name == "rack" {
			args = append(args, "--trusted", "--zone", "fsn")
		}
		skein(0, args...)
		skein(0, args...) // again: nothing is done
	}
	id := func(name string) string {
		key, err := access.ParsePublicKey([]byte(keys[name]))
		if err != nil {
			t.Fatal(err)
		}
		return string(cluster.OutsideID(key))
	}
	skein(0, "worker", "revoke", id("cellar"))
	if _, stderr := skein(1, "worker", "add", "--key", keys["cellar"], "--owner", "user:ann"); !strings.Contains(stderr, "was revoked") {
		t.Errorf("a revoked worker: %s", stderr)
	}
	skein(4, "worker", "add", "--key", keys["attic"], "--owner", "user:bob")
	file := filepath.Join(t.TempDir(), "ann.token")
	skein(0, "token", "create", "--owner", "user:ann", "--role", "work,submit", "--out", file)
	secret, err := os.ReadFile(file)
	if info, statErr := os.Stat(file); err != nil || statErr != nil || info.Mode().Perm() != 0o600 || !strings.HasPrefix(string(secret), "skt_") {
		t.Fatalf("the token's file: %v, %v, %.4s", err, statErr, secret)
	}
	out, _ := skein(0, "token", "create", "--owner", "user:ann", "--role", "watch")
	skein(0, "token", "revoke", strings.Split(out, "_")[1])

	want := registryOf(ctx, t, at)
	if strings.Count(want, "enrolled") != 2 || strings.Count(want, "revoked ")+strings.Count(want, `"revoked"`) != 2 || strings.Count(want, "valid") != 1 || !strings.Contains(want, "rack user:ann trusted fsn") {
		t.Fatalf("at %s:\n%s", at.name, want)
	}
	for kind, count := range map[event.Kind]int{event.KindWorkerEnrolled: 3, event.KindWorkerRevoked: 1, event.KindAccessSet: 3} {
		got := eventsOf(ctx, t, at, kind)
		if len(got) != count {
			t.Errorf("%d events %s, want %d", len(got), kind, count)
		}
		for _, e := range got {
			if bytes.Contains(e.Body, []byte(strings.TrimSpace(string(secret)))) || !bytes.Contains(e.Body, []byte(`"actor":"uid:`)) || !bytes.Contains(e.Body, []byte("@"+at.name)) {
				t.Errorf("%s says %s", kind, e.Body)
			}
		}
	}
	// A job for outside workers is taken: all members know them.
	spec, err := d.upload(ctx, filepath.Join(bin, "examples", "pi.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	spec.Iterations, spec.Chunk, spec.Key, spec.Permission.Outside = 2000, 1000, "outside", true
	sub, err := at.api.Submit(ctx, api.SubmitRequest{Spec: spec})
	if err != nil {
		t.Fatalf("permission.outside: %v", err)
	}
	if j := finish(ctx, t, at, sub.Job); j.State != job.Completed || !j.Spec.Permission.Outside {
		t.Errorf("job for outside workers: %s, %+v", j.State, j.Spec.Permission)
	}

	takeSnapshot(ctx, t, at)
	kill(t, holder)
	var next *host
	eventually(ctx, t, time.Minute, "another holds the lease", func() error {
		h, err := d.holder(ctx)
		if err == nil && h == holder {
			return fmt.Errorf("%s still does", h.name)
		}
		next = h
		return err
	})
	left := slices.DeleteFunc(slices.Clone(d.hosts), func(h *host) bool { return h == holder })
	for _, h := range left {
		same(ctx, t, h, want)
	}
	at = next
	skein(1, "worker", "add", "--key", keys["cellar"], "--owner", "user:ann") // it knows as well
	skein(0, "worker", "revoke", id("attic"))
	want = registryOf(ctx, t, at)
	start1(t, holder)
	clusterIs(ctx, t, d.hosts, 3, 3)
	for _, h := range d.hosts {
		same(ctx, t, h, want)
	}
	verifyAllHosts(ctx, t, d)
}

// registryOf is who is let in from outside, as a host says, a line for each.
func registryOf(ctx context.Context, t *testing.T, h *host) string {
	t.Helper()
	text, err := readRegistry(ctx, h)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func readRegistry(ctx context.Context, h *host) (string, error) {
	workers, err := h.api.OutsideWorkersPage(ctx, api.Page{})
	if err != nil {
		return "", err
	}
	tokens, err := h.api.AccessTokens(ctx)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, w := range workers.Workers {
		trust := "stranger"
		if w.Trusted {
			trust = "trusted"
		}
		fmt.Fprintln(&b, w.State, w.Name, w.Owner, trust, w.Zone, w.Worker, w.Actor, w.RevokedBy)
	}
	for _, x := range tokens.Tokens {
		text, err := json.Marshal(x)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s\n", text)
	}
	return b.String(), nil
}

// same waits until a host says so of those that are let in.
func same(ctx context.Context, t *testing.T, h *host, want string) {
	t.Helper()
	eventually(ctx, t, 30*time.Second, h.name+" knows who is let in", func() error {
		got, err := readRegistry(ctx, h)
		if err == nil && got != want {
			return fmt.Errorf("it says\n%swant\n%s", got, want)
		}
		return err
	})
}
