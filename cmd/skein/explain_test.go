package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/docs"
	"github.com/skein-project/skein/docs/topics"
)

// TestEverythingIsExplained: each kind of event, alert, check, metric, key and exit code
// is offered and has its topic; of each kind one is shown as commands show it. All are
// laid out in the test of cmd/skein/local.
func TestEverythingIsExplained(t *testing.T) {
	read := func(path ...string) string {
		text, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, path...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	words := map[string][]string{}
	for _, k := range event.KindTable() {
		words["event"] = append(words["event"], string(k.Kind))
	}
	for _, k := range config.Keys() {
		words["key"] = append(words["key"], k.Name)
	}
	for _, e := range topics.Exits() {
		words["exit code"] = append(words["exit code"], fmt.Sprint(e.Code))
	}
	// Other tests hold these files equal to what a daemon registers, to the alerts and
	// to the checks.
	for kind, in := range map[string]struct{ text, word string }{
		"alert":  {read("observability", "rules.yml"), `alert: "?(\w+)`},
		"metric": {read("docs", "metrics.md"), "(?m)^\\| `(skein_[a-z_]+)`"},
		"check":  {read("docs", "operations.md"), `(?m)^### ([a-z0-9-]+)$`},
	} {
		for _, m := range regexp.MustCompile(in.word).FindAllStringSubmatch(in.text, -1) {
			words[kind] = append(words[kind], m[1])
		}
	}
	offers, _ := completions(t, &fakeCluster{}, "explain", "")
	all := topics.All()
	for _, kind := range []string{"event", "alert", "check", "metric", "key", "exit code"} {
		if len(words[kind]) < 8 {
			t.Errorf("%d of kind %s", len(words[kind]), kind)
		}
		for _, word := range words[kind] {
			if !slices.Contains(offers, word) {
				t.Errorf("%s is not offered", word)
			}
			if !slices.ContainsFunc(topics.Named(all, word), func(x docs.Topic) bool { return x.Name == word && x.Kind == kind }) {
				t.Errorf("%s %s has no topic", kind, word)
			}
		}
		word := words[kind][0]
		code, out, errs := inProcess(t, &fakeCluster{}, cli.Terminal{OutWidth: 80}, "explain", word)
		if code != 0 || !strings.Contains(out, word+" ("+kind+", docs/") {
			t.Errorf("%s %s: exit %d %s%s", kind, word, code, out, errs)
		}
	}
	if bytes.Contains([]byte(strings.Join(offers, " ")), []byte("#")) {
		t.Errorf("%q", offers)
	}
}

// TestExits: each code with which commands end is explained, and no other.
func TestExits(t *testing.T) {
	codes := []int{
		cli.ExitOK, cli.ExitFailed, cli.ExitUsage, cli.ExitUnreachable, cli.ExitNotFound, cli.ExitForbidden, cli.ExitDegraded, cli.ExitTimeout, cli.ExitGoal,
		cli.ExitInterrupted,
	}
	var told []int
	for _, e := range topics.Exits() {
		told = append(told, e.Code)
	}
	if !slices.Equal(told, codes) {
		t.Errorf("explained are %v, want %v", told, codes)
	}
}
