package demo

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/skein-project/skein/api"
)

// segmentsOf lists the segments of one host's chain in a state directory.
func segmentsOf(t *testing.T, stateDir, chain string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(stateDir, "log", chain, "*.seg"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no segment of %s: %v", chain, err)
	}
	return paths
}

// halt stops a host with SIGTERM and waits for it.
func halt(t *testing.T, h *host) {
	t.Helper()
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-h.done // the demo bounds how long that takes
}

// TestRepairOfADamagedHost damages the own chain and a foreign one of a stopped
// host. It does not start; a repair later it does, fetches what is missing,
// goes on as a new incarnation, and all hosts agree again.
func TestRepairOfADamagedHost(t *testing.T) {
	parallel(t)
	d, ctx := start(t, 3)
	n3 := d.hosts[2]
	spec, err := d.upload(ctx, filepath.Join(bin, "examples", "pi.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	spec.Key, spec.Iterations, spec.Chunk = "k", 60_000, 1000
	sub := submit(ctx, t, d.hosts[0], spec)
	finish(ctx, t, d.hosts[0], sub.Job)
	halt(t, n3)
	for _, chain := range []string{"n1.1", "n3.1"} {
		path := segmentsOf(t, n3.stateDir(), chain)[0]
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		// In the first group; what is behind it can still be read.
		at := strings.Index(string(text), `"`) + 2
		text[at] ^= 1
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := n3.run(); err != nil {
		t.Fatal(err)
	}
	<-n3.done
	text, err := os.ReadFile(filepath.Join(n3.dir, "log"))
	if err != nil || !strings.Contains(string(text), "skein log repair") {
		t.Fatalf("the daemon does not name the remedy: %v", err)
	}
	out, errs, code := d.cli(ctx, n3, "log", "repair", "--from-peer", "n2", "--config", n3.config)
	if code != 0 || !strings.Contains(out, "n1/1\n") || !strings.Contains(out, "n3/1\n") || !strings.Contains(out, "of its next incarnation") {
		t.Fatalf("log repair: exit %d\n%s%s", code, out, errs)
	}
	if err := n3.run(); err != nil {
		t.Fatal(err)
	}
	whole := func(s api.Status) bool {
		return s.State == api.StateOK && !slices.ContainsFunc(s.Reasons, func(r string) bool { return strings.Contains(r, "fetched again") })
	}
	if err := n3.await(ctx, "whole again", whole); err != nil {
		t.Fatalf("%v: %v", err, n3.last.Reasons)
	}
	if err := n3.await(ctx, "like the others", func(s api.Status) bool {
		other, err := d.hosts[0].api.Status(ctx)
		return err == nil && other.Log.StateHash == s.Log.StateHash && other.Log.Events == s.Log.Events && s.Log.Sources == 4
	}); err != nil {
		t.Fatal(err)
	}
	halt(t, n3)
	out, errs, code = d.cli(ctx, n3, "log", "verify", "--state-dir", n3.stateDir())
	if code != 0 || !strings.Contains(out, "n3/2") {
		t.Fatalf("log verify after the repair: exit %d\n%s%s", code, out, errs)
	}
	if left, err := os.ReadDir(filepath.Join(n3.stateDir(), "damaged")); err != nil || len(left) != 2 {
		t.Errorf("%d directories of damaged files, %v", len(left), err)
	}

	// Then all of it is gone.
	if err := os.RemoveAll(filepath.Join(n3.stateDir(), "log")); err != nil {
		t.Fatal(err)
	}
	before := digest(t, n3.stateDir())
	if err := n3.run(); err != nil {
		t.Fatal(err)
	}
	<-n3.done
	if digest(t, n3.stateDir()) != before {
		t.Error("a start that refused changed the state directory")
	}
	for _, command := range [][]string{{"doctor", "--config", n3.config}, {"log", "verify", "--state-dir", n3.stateDir()}} {
		if out, errs, code := d.cli(ctx, n3, command...); code != 1 || !strings.Contains(out+errs, "nothing of it is left") {
			t.Errorf("%s: exit %d\n%s%s", command, code, out, errs)
		}
	}
	if out, errs, code := d.cli(ctx, n3, "log", "repair", "--config", n3.config); code != 0 || !strings.Contains(out, "of its next incarnation") {
		t.Fatalf("log repair: exit %d\n%s%s", code, out, errs)
	}
	if err := n3.run(); err != nil {
		t.Fatal(err)
	}
	if err := n3.await(ctx, "with what the others have", func(s api.Status) bool {
		other, err := d.hosts[0].api.Status(ctx)
		return err == nil && s.State == api.StateOK && other.Log.StateHash == s.Log.StateHash && other.Log.Events == s.Log.Events && s.Log.Sources == 5
	}); err != nil {
		t.Fatal(err)
	}
}
