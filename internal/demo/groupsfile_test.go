package demo

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// TestGroupsFile takes groups from a file, one of 10 000 members, over a reload
// and a restart. A file that is wrong changes nothing, and groups set by hand
// stay.
func TestGroupsFile(t *testing.T) {
	parallel(t)
	d, ctx := start(t, 1)
	h := d.hosts[0]
	file := filepath.Join(t.TempDir(), "groups.toml")
	var many strings.Builder
	many.WriteString("many = [\n")
	for i := range cluster.MaxGroupMembers {
		fmt.Fprintf(&many, "\"uid:%d\",\n", 100_000+i)
	}
	many.WriteString("]\n")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reload := func() {
		t.Helper()
		if err := h.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	members := func(name string) []string {
		t.Helper()
		all, err := h.api.Groups(ctx)
		if err != nil {
			return nil // it is starting
		}
		i := slices.IndexFunc(all.Groups, func(g api.Group) bool { return g.Name == name })
		if i < 0 {
			return nil
		}
		return all.Groups[i].Members
	}
	has := func(name string, n int) {
		t.Helper()
		eventually(ctx, t, 30*time.Second, fmt.Sprintf("group %s has %d members", name, n), func() error {
			if got := len(members(name)); got != n {
				return fmt.Errorf("it has %d", got)
			}
			return nil
		})
	}
	if _, err := h.api.SetGroup(ctx, "byhand", []string{"uid:1"}); err != nil {
		t.Fatal(err)
	}
	write(many.String() + "few = [\"uid:1\", \"node:n1\"]\n")
	reconfigure(t, h, "[mesh]\n", fmt.Sprintf("[jobs]\ngroups_file = %q\n\n[mesh]\n", file))
	reload()
	has("many", cluster.MaxGroupMembers)
	has("few", 2)

	write("few = [\"uid 1\"]\n")
	before := countLog(t, h, "configuration refused")
	reload()
	eventually(ctx, t, 10*time.Second, "the wrong file is refused", func() error {
		if countLog(t, h, "configuration refused") == before {
			return errors.New("it is not")
		}
		return nil
	})
	has("few", 2)

	write("few = [\"uid:7\"]\nmany = []\n")
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-h.done
	if err := h.run(); err != nil {
		t.Fatal(err)
	}
	// Most of both would leave: they wait for an operator, and the doctor says so.
	eventually(ctx, t, 30*time.Second, "the doctor names what waits", func() error {
		found, err := h.api.Doctor(ctx)
		if err != nil {
			return err
		}
		for _, f := range found.Findings {
			if f.Check == "groups" && strings.Contains(f.Detail, "few (1 left, jobs.groups_file), many (0 left") && strings.Contains(f.Hint, "skein group set --force few") {
				return nil
			}
		}
		return fmt.Errorf("findings: %+v", found.Findings)
	})
	has("few", 2)
	has("many", cluster.MaxGroupMembers)
	for _, name := range []string{"few", "many"} {
		if text, err := exec.CommandContext(ctx, d.o.Exe, "--socket", filepath.Join(h.dir, "sock"), "group", "set", "--force", name).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	has("few", 1)
	has("many", 0)
	has("byhand", 1)
	if all, err := h.api.Groups(ctx); err != nil || len(all.Waiting) > 0 {
		t.Errorf("still waits: %+v, %v", all.Waiting, err)
	}
}
