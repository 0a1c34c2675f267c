package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/daemon"
	"github.com/skein-project/skein/offline"
)

// TestFirstSteps: who starts a daemon on a host that is in no cluster is told the steps
// that init tells, and init before them.
func TestFirstSteps(t *testing.T) {
	empty, none, made := t.TempDir(), filepath.Join(t.TempDir(), "none"), filepath.Join(t.TempDir(), "made")
	config := filepath.Join(t.TempDir(), "skein.toml")
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(empty, 0o700); err != nil { // no warning that others may read it
		t.Fatal(err)
	}
	d := fakeDeps()
	d.local.Run, d.local.Init = daemon.Run, offline.Init
	says := func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		code := execute(t.Context(), args, cli.Terminal{
			In: strings.NewReader(""), Out: &out, Err: &errs,
			Env: []string{"SKEIN_CONFIG=" + config, "SKEIN_NODE_NAME=n1", "SKEIN_SOCKET=" + filepath.Join(filepath.Dir(config), "s")},
		}, d)
		if code != want || out.Len() > 0 {
			t.Fatalf("%q: exit %d, want %d %s%s", args, code, want, out.String(), errs.String())
		}
		return errs.String()
	}
	steps := regexp.MustCompile(`skein (?:run --join @FILE|token create --out FILE|[a-z]+)`)
	_, next, _ := strings.Cut(says(cli.ExitOK, "init", "--state-dir", made), "next:\n")
	told := steps.FindAllString(strings.ReplaceAll(next, " --config "+config, ""), -1)
	for _, step := range []string{"skein run", "skein status", "skein token create --out FILE", "skein run --join @FILE"} {
		if !slices.Contains(told, step) {
			t.Errorf("init does not tell %s: %q", step, told)
		}
	}
	for _, dir := range []string{empty, none} {
		text := says(cli.ExitUsage, "run", "--state-dir", dir)
		error, hint, _ := strings.Cut(text, "skein: hint: ")
		if strings.Count(text, "\n") != 2 || !strings.HasPrefix(error, "skein: error: "+dir+": state directory belongs to no cluster yet") {
			t.Errorf("run says %q", text)
		}
		have := steps.FindAllString(hint, -1)
		if len(have) == 0 || have[0] != "skein init" {
			t.Errorf("run does not begin with init: %q", hint)
		}
		for _, step := range told {
			if !slices.Contains(have, step) {
				t.Errorf("init tells %s, run does not: %q", step, hint)
			}
		}
	}
	if _, err := os.Stat(none); !os.IsNotExist(err) {
		t.Errorf("run made %s: %v", none, err)
	}
}
