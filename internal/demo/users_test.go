package demo

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
)

// startForUsers starts hosts that take requests of users, each at a port of ip.
func startForUsers(t *testing.T, hosts int, ip string) (*demo, context.Context, map[int]int) {
	ports := map[int]int{}
	d, ctx := startWith(t, hosts, func(d *demo) {
		calm(d)
		before := d.settings
		d.settings = func(i int) string {
			port, err := d.freePort()
			if err != nil {
				t.Error(err)
			}
			ports[i] = port
			text := fmt.Sprintf("[api]\nlisten = [\"%s:%d\"]\n", ip, port)
			if before != nil {
				text = before(i) + text
			}
			return text
		}
	})
	return d, ctx, ports
}

// TestUserFromOutside: a user whose machine is no member submits a job with a key of
// its own and follows it; the host that it asked is killed on the way, and it goes on
// by the next one.
func TestUserFromOutside(t *testing.T) {
	d, ctx, ports := startForUsers(t, 3, "127.0.0.1")
	holder, err := d.holder(ctx)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	home := append(os.Environ(), "XDG_CONFIG_HOME="+dir)
	makeKey := exec.CommandContext(ctx, d.o.Exe, "auth", "key", "--user", "ann")
	makeKey.Env = home
	key := filepath.Join(dir, "skein", "ann.key")
	public, err := makeKey.Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.api.SetUser(ctx, "ann", api.UserRequest{Role: "submitter", Keys: []string{string(public)}}); err != nil {
		t.Fatal(err)
	}
	// Two hosts, of which the first is not the holder.
	var first *host
	var targets []string
	for i, h := range d.hosts {
		switch {
		case h == holder:
		case first == nil:
			first = h
			fallthrough
		default:
			targets = append(targets, fmt.Sprintf("http://127.0.0.1:%d", ports[i]))
		}
	}
	for _, h := range d.hosts {
		eventually(ctx, t, 20*time.Second, h.name+" knows ann", func() error {
			list, err := h.api.Users(ctx)
			if err == nil && len(list.Users) == 0 {
				return fmt.Errorf("no users on %s", h.name)
			}
			return err
		})
	}
	args := []string{"--socket", strings.Join(targets, ","), "--key", key, "--timeout", "30s"}
	ann := func(more ...string) *exec.Cmd { return exec.CommandContext(ctx, d.o.Exe, append(args, more...)...) }
	run := ann("job", "run", "--wasm", filepath.Join(bin, "examples", "pi.wasm"), "--iterations", "20000", "--chunk", "100", "--key", "outside", "--follow", "-o", "json")
	var out, notes bytes.Buffer
	run.Stdout, run.Stderr = &out, &notes
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	var id string
	eventually(ctx, t, 2*time.Minute, "the job of ann runs", func() error {
		list, err := holder.api.Jobs(ctx)
		if err != nil {
			return err
		}
		for _, j := range list.Jobs {
			if j.Owner == "user:ann" && j.Chunks.Accepted > 0 {
				id = string(j.ID)
				return nil
			}
		}
		return fmt.Errorf("%d jobs, none of ann's runs", len(list.Jobs))
	})
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-first.done
	if err := run.Wait(); err != nil || !strings.Contains(out.String(), `"completed"`) {
		t.Fatalf("job run: %v\n%s\n%s", err, out.String(), notes.String())
	}
	if text, err := ann("job", "ls").CombinedOutput(); err != nil || !bytes.Contains(text, []byte("user:ann")) {
		t.Errorf("job ls: %v\n%s", err, text)
	}
	if text, err := ann("user", "ls").CombinedOutput(); err == nil || !bytes.Contains(text, []byte("may not do this as submitter")) {
		t.Errorf("user ls by a submitter: %v\n%s", err, text)
	}
	// As in the README: the environment says where, the own configuration who.
	token := func(more ...string) string {
		t.Helper()
		cmd := exec.CommandContext(ctx, d.o.Exe, append([]string{"auth", "token"}, more...)...)
		cmd.Env = append(home, "SKEIN_SOCKET="+targets[1])
		text, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	bearer(ctx, t, targets[1]+"/v1/jobs/"+id, token("--role", "submitter"), http.StatusOK)
	bearer(ctx, t, targets[1]+"/v1/watch?topics=jobs", token(), http.StatusOK)
	bearer(ctx, t, targets[1]+"/v1/jobs/"+id, "", http.StatusUnauthorized)
	if _, err := holder.api.SetUser(ctx, "ann", api.UserRequest{Role: "submitter", Keys: []string{string(public)}, Disabled: true}); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, 10*time.Second, "ann is disabled", func() error {
		if text, err := ann("job", "ls").CombinedOutput(); err == nil {
			return fmt.Errorf("job ls: %s", text)
		}
		return nil
	})
	actor := ""
	if err := holder.api.Events(ctx, api.EventQuery{Kind: string(event.KindJobSubmitted)}, api.FollowOptions{}, func(e api.Event) error {
		actor += string(e.Body)
		return nil
	}); err != nil || !strings.Contains(actor, `"owner":"user:ann"`) {
		t.Errorf("logged: %v %s", err, actor)
	}
	_ = os.Remove(key) // with the directory
}

// bearer asks with a token.
func bearer(ctx context.Context, t *testing.T, url, token string, want int) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != want {
		t.Errorf("%s: %s, want %d", url, resp.Status, want)
	}
}

// TestOperatorAtAnyHost: a host that is neither holder nor sponsor takes all that an
// operator wants changed elsewhere, with the operator's proof.
func TestOperatorAtAnyHost(t *testing.T) {
	d, ctx, ports := startForUsers(t, 4, "127.0.0.1")
	key := filepath.Join(t.TempDir(), "olga.key")
	public, err := exec.CommandContext(ctx, d.o.Exe, "auth", "key", key).Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.hosts[0].api.SetUser(ctx, "olga", api.UserRequest{Role: "operator", Keys: []string{string(public)}}); err != nil {
		t.Fatal(err)
	}
	for _, h := range d.hosts {
		eventually(ctx, t, 20*time.Second, h.name+" knows olga", func() error {
			list, err := h.api.Users(ctx)
			if err == nil && len(list.Users) == 0 {
				return fmt.Errorf("no users on %s", h.name)
			}
			return err
		})
	}
	// The one of four that is no sponsor, and another that is not the first host.
	edge, other := 0, 0
	list, err := d.hosts[0].api.Members(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range d.hosts {
		m := list.Members[slices.IndexFunc(list.Members, func(m api.Member) bool { return string(m.Node) == h.name })]
		if !m.Sponsor {
			edge = i
		} else if i > 0 {
			other = i
		}
	}
	drained := d.hosts[other]
	olga := func(want int, text string, args ...string) {
		t.Helper()
		args = append([]string{"--socket", fmt.Sprintf("http://127.0.0.1:%d", ports[edge]), "--key", key, "--timeout", "30s", "--yes"}, args...)
		cmd := exec.CommandContext(ctx, d.o.Exe, args...)
		out, err := cmd.CombinedOutput()
		if err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		if code := cmd.ProcessState.ExitCode(); code != want || !strings.Contains(string(out), text) {
			t.Fatalf("skein %s: exit code %d, want %d and %q:\n%s", strings.Join(args, " "), code, want, text, out)
		}
	}
	olga(0, "", "worker", "drain", drained.name)
	if w, err := drained.api.Status(ctx); err != nil || !w.Worker.Draining {
		t.Errorf("%s does not drain: %+v, %v", drained.name, w.Worker, err)
	}
	olga(0, "", "worker", "drain", "--undo", drained.name)
	invite, err := d.hosts[0].api.CreateToken(ctx, time.Hour, 1)
	if err != nil {
		t.Fatal(err)
	}
	olga(0, "revoked", "token", "revoke", invite.ID)
	olga(1, "do it on a sponsor: ", "token", "create")
	olga(0, "", "lease", "step-down")
	bundles(ctx, t, d, d.hosts[edge], key)
	olga(0, "", "remove", drained.name)
	eventually(ctx, t, 20*time.Second, drained.name+" is removed, and the log says by whom", func() error {
		var actor string
		err := d.hosts[0].api.Events(ctx, api.EventQuery{Kind: string(event.KindMemberRemoved)}, api.FollowOptions{}, func(e api.Event) error {
			actor += string(e.Body)
			return nil
		})
		if err == nil && !strings.Contains(actor, `"actor":"user:olga@n1"`) {
			return fmt.Errorf("logged: %s", actor)
		}
		return err
	})
}

// bundles has a host that is no sponsor gather of all: for its administrator alone the
// others do not, for an operator they do.
func bundles(ctx context.Context, t *testing.T, d *demo, edge *host, key string) {
	t.Helper()
	for _, c := range []struct {
		args []string
		code int
		said string
		of   []string
	}{
		{nil, 6, "is not in it: " + edge.name + " is no sponsor", []string{edge.name}},
		{[]string{"--key", key}, 0, "", []string{"n1", "n2", "n3", "n4"}},
	} {
		out := filepath.Join(t.TempDir(), "b.tar.gz")
		stdout, stderr, code := d.cli(ctx, edge, slices.Concat(c.args, []string{"debug", "bundle", "--profile", "0", "--out", out})...)
		if code != c.code || !strings.Contains(stderr, c.said) {
			t.Fatalf("debug bundle of %s: exit %d, want %d and %q: %s%s", edge.name, code, c.code, c.said, stdout, stderr)
		}
		files := untar(t, out)
		for _, h := range d.hosts {
			if _, have := files[h.name+"/status.json"]; have != slices.Contains(c.of, h.name) {
				t.Errorf("with %q: %s is in it: %t", c.args, h.name, have)
			}
		}
	}
}
