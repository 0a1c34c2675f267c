package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/cmd/skein/man"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/internal/require"
)

func manual() map[string]string {
	pages := map[string]string{}
	for _, p := range man.Pages(newRoot(&cli.App{}, deps{}), man.Options{Date: "2026-01-31", Version: "1.2"}) {
		pages[p.Name] = string(p.Text)
	}
	return pages
}

// TestManual: each command and each key is in the manual, the same way each time,
// and its exit codes are those of docs/cli.md.
func TestManual(t *testing.T) {
	pages := manual()
	for name, text := range manual() {
		if pages[name] != text {
			t.Errorf("%s is another one the second time", name)
		}
	}
	for _, cmd := range newRoot(&cli.App{}, deps{}).Commands() {
		_, ok := pages["skein-"+cmd.Name()+".8"]
		if cmd.Hidden == ok {
			t.Errorf("%s: hidden %t, page %t", cmd.Name(), cmd.Hidden, ok)
		}
	}
	for _, want := range []string{`\fBskein job run\fR \-\-wasm FILE`, `.SS "skein job run \-\-wasm FILE`, `\fB\-f\fR, \fB\-\-follow\fR`} {
		if !strings.Contains(pages["skein-job.8"], want) {
			t.Errorf("skein-job.8 lacks %s", want)
		}
	}
	for _, k := range config.Keys() {
		if !strings.Contains(pages["skein.toml.5"], `\fB`+k.Name+`\fR`) {
			t.Errorf("skein.toml.5 lacks %s", k.Name)
		}
	}
	reference, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (\d+) \| (.*) \|$`).FindAllStringSubmatch(string(reference), -1)
	if len(rows) < 9 {
		t.Fatalf("docs/cli.md has %d exit codes", len(rows))
	}
	for _, r := range rows {
		plain := strings.NewReplacer("`", "", `\|`, "|", "-", `\-`).Replace(r[2])
		if item := ".TP\n\\fB" + r[1] + "\\fR\n" + plain + "\n"; !strings.Contains(pages["skein.8"], item) {
			t.Errorf("skein.8 lacks exit code %s: %s", r[1], plain)
		}
	}
}

// TestManualFormat has mandoc and groff find nothing wrong.
func TestManualFormat(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for name, text := range manual() {
		files = append(files, filepath.Join(dir, name))
		if err := os.WriteFile(files[len(files)-1], []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(files)
	bad := filepath.Join(dir, "bad.8")
	if err := os.WriteFile(bad, []byte(".TH bad 8\n.SH NAME\nbad \\- bad\n.NoSuchMacro\n.SH\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	require.Need(t, require.Man)
	for _, tool := range [][]string{{"mandoc", "-T", "lint", "-W", "warning"}, {"groff", "-man", "-Tutf8", "-ww", "-z"}} {
		check := func(files ...string) string {
			var said bytes.Buffer
			cmd := exec.CommandContext(t.Context(), tool[0], slices.Concat(tool[1:], files)...)
			cmd.Stdout, cmd.Stderr = &said, &said
			if err := cmd.Run(); err != nil && said.Len() == 0 {
				return err.Error()
			}
			return said.String()
		}
		if said := check(files...); said != "" {
			t.Errorf("%s:\n%s", tool[0], said)
		}
		if check(bad) == "" {
			t.Errorf("%s lets a bad page pass", tool[0])
		}
	}
}
