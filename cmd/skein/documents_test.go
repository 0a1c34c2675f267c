package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/cmd/skein/cli"
)

// TestCommandsOfDocuments: each command line that a document, a script of the package or
// a hint in the program shows is one of this program, with flags that it has.
func TestCommandsOfDocuments(t *testing.T) {
	root := newRoot(&cli.App{}, fakeDeps())
	root.InitDefaultHelpCmd()
	cli.TidyCompletion(root)
	// A word behind skein that stands for no command.
	names := map[string]bool{"skein health check": true, "skein watchdog": true, "skein man DIR": true, "skein COMMAND": true}
	shown := regexp.MustCompile("`(skein [^`]+)`")
	typed := regexp.MustCompile(`(?:^\s*(?:\$ )?|[(;|&]\s*)(?:[A-Z_]+=\S+ )*((?:bin/)?skein -*[a-z][^|;&)]*)`)
	seen := 0
	look := func(file, text string, document bool) {
		code := false
		for n, line := range strings.Split(text, "\n") {
			if document && strings.HasPrefix(line, "```") {
				code = !code
				continue
			}
			find := shown
			if code || document && strings.HasPrefix(line, "    ") {
				find = typed
			}
			for _, m := range find.FindAllStringSubmatch(strings.ReplaceAll(line, `\|`, "|"), -1) {
				said := strings.TrimPrefix(m[1], "bin/")
				if names[said] || code && strings.HasPrefix(strings.TrimSpace(line), "#") {
					continue
				}
				seen++
				if fault := unfit(root, said); fault != "" {
					t.Errorf("%s:%d: %s: %s", file, n+1, said, fault)
				}
			}
		}
	}
	top := filepath.Join("..", "..")
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "node_modules" || name == "testdata" || name == "dist" || path == filepath.Join(top, "bin") || path != top && strings.HasPrefix(name, ".")):
			return fs.SkipDir
		case d.IsDir() || strings.HasSuffix(name, "_test.go") || path == filepath.Join(top, "docs", "cli.md"):
			return nil
		}
		switch filepath.Ext(name) {
		case ".md", ".go", ".toml", ".yml", ".service":
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			look(path, string(text), filepath.Ext(name) == ".md")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("%d command lines", seen); seen < 300 {
		t.Errorf("%d command lines found", seen)
	}
}

var (
	comment  = regexp.MustCompile(`\s#.*`)
	longFlag = regexp.MustCompile(`(?:^|[^\w-])--([a-z][a-z-]*)`)
)

// unfit says what is wrong with a command line as a document shows it, with words in
// capitals, brackets and alternatives.
func unfit(root *cobra.Command, said string) string {
	words := strings.Fields(comment.ReplaceAllString(said, ""))[1:]
	for len(words) > 0 && strings.HasPrefix(words[0], "-") { // before the command
		flag, _, whole := strings.Cut(strings.TrimLeft(words[0], "-"), "=")
		f := root.Flags().Lookup(flag)
		if f == nil {
			f = root.PersistentFlags().Lookup(flag)
		}
		if f == nil && len(flag) == 1 {
			f = root.PersistentFlags().ShorthandLookup(flag)
		}
		if f == nil {
			return "no flag " + words[0]
		}
		words = words[1:]
		if !whole && f.NoOptDefVal == "" && len(words) > 0 {
			words = words[1:]
		}
	}
	cmd := root
	for len(words) > 0 {
		word := strings.Trim(words[0], "[](),.…'\"")
		if list := strings.Split(word, "|"); cmd.HasSubCommands() && len(list) > 1 {
			for _, one := range list {
				if sub, _, err := cmd.Find([]string{one}); err != nil || sub == cmd {
					return "no command " + one + " of " + cmd.CommandPath()
				}
			}
			return ""
		}
		sub, _, err := cmd.Find([]string{word})
		if err != nil || sub == cmd {
			break
		}
		cmd, words = sub, words[1:]
	}
	if len(words) > 0 && cmd.HasSubCommands() && regexp.MustCompile(`^[a-z]`).MatchString(words[0]) && (cmd == root || cmd.Annotations[cli.GroupMark] != "") {
		return "no command " + words[0] + " of " + cmd.CommandPath()
	}
	for _, m := range longFlag.FindAllStringSubmatch(strings.Join(words, " "), -1) {
		if cmd.Flags().Lookup(m[1]) == nil && cmd.InheritedFlags().Lookup(m[1]) == nil && m[1] != "help" {
			return cmd.CommandPath() + " has no flag --" + m[1]
		}
	}
	return ""
}
