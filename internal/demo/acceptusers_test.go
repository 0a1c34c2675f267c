package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
)

// TestHostsAcceptUsers: whom hosts run for goes by whose key signed the job. Of n1, its
// owner is ann, so it runs hers only; n2 narrows to bob; n3 runs for everybody.
func TestHostsAcceptUsers(t *testing.T) {
	d, ctx, ports := startForUsers(t, 3, "127.0.0.1")
	narrow := d.hosts[1]
	reconfigure(t, narrow, "slots = 1\n", "slots = 1\naccept = \"user\"\naccept_names = [\"user:bob\"]\n")
	if err := narrow.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	keys := map[string]string{}
	for _, name := range []string{"ann", "bob", "eve"} {
		keys[name] = filepath.Join(t.TempDir(), name+".key")
		public, err := exec.CommandContext(ctx, d.o.Exe, "auth", "key", keys[name]).Output()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.hosts[0].api.SetUser(ctx, name, api.UserRequest{Role: "submitter", Keys: []string{string(public)}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.hosts[0].api.SetOwner(ctx, "n1", "user:ann"); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, 30*time.Second, "hosts accept as they say", func() error {
		raw, err := d.hosts[0].api.Raw(ctx, "/v1/workers")
		if err != nil {
			return err
		}
		var w api.Workers
		if err := json.Unmarshal(raw, &w); err != nil {
			return err
		}
		got := ""
		for _, x := range w.Workers {
			got += string(x.Node) + " " + x.Accept + " " + x.Owner + ", "
		}
		if got != "n1 owner user:ann, n2 user node:n2, n3 public node:n3, " {
			return errors.New(got)
		}
		return nil
	})
	for name, want := range map[string]string{
		"ann": "n1 eligible, n2 not_accepted, n3 eligible, ",
		"bob": "n1 not_accepted, n2 eligible, n3 eligible, ",
		"eve": "n1 not_accepted, n2 not_accepted, n3 eligible, ",
	} {
		t.Run(name, func(t *testing.T) {
			run := exec.CommandContext(ctx, d.o.Exe, "--socket", fmt.Sprintf("http://127.0.0.1:%d", ports[0]), "--key", keys[name], "--timeout", "60s",
				"job", "run", "--wasm", filepath.Join(bin, "examples", "pi.wasm"), "--iterations", "600000000", "--chunk", "20000000", "--key", name)
			out, err := run.Output()
			if err != nil {
				t.Fatal(err)
			}
			id, explained := strings.TrimSpace(string(out)), ""
			e, err := d.hosts[1].api.Explain(ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range e.Workers {
				reason := w.Reason
				if w.Eligible {
					reason = "eligible" // busy or not
				}
				explained += string(w.Node) + " " + reason + ", "
			}
			if explained != "" && explained != want { // "": it is over already
				t.Errorf("explained is %q, want %q", explained, want)
			}
			var j api.Job
			eventually(ctx, t, 5*time.Minute, "the job is done", func() error {
				if j, err = d.hosts[0].api.Job(ctx, id); err == nil && j.State != job.Completed {
					err = errors.New(string(j.State))
				}
				return err
			})
			if j.Owner != "user:"+name {
				t.Errorf("it is of %s", j.Owner)
			}
			for _, w := range j.Workers {
				if w.Accepted > 0 && !strings.Contains(want, string(w.Node)+" eligible") {
					t.Errorf("%s ran %d chunks", w.Node, w.Accepted)
				}
			}
		})
	}
}
