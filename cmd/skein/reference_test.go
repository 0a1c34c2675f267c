package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/docs/topics"
)

// TestReference keeps docs/cli.md equal to the commands.
func TestReference(t *testing.T) {
	const path = "../../docs/cli.md"
	want := reference(newRoot(&cli.App{}, deps{}))
	if os.Getenv("SKEIN_UPDATE") == "1" {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, want) {
		t.Fatalf("docs/cli.md is stale (%v): run SKEIN_UPDATE=1 go test ./cmd/skein", err)
	}
}

const referenceHead = `# Commands

Generated from the program's own help by the tests of ` + "`cmd/skein`" + `.

` + "`skein run`" + ` is the daemon; every other command is a client of its socket or works on the state directory. Results go to
stdout, everything else to stderr. ` + "`-o tsv` and `-o csv`" + ` are for scripts: seconds and bytes are plain numbers; what is not known is an empty cell. ` + "`-o json`" + ` is the API's body; an error is then one
JSON object on stderr, ` + "`{\"error\": {\"exit\", \"message\", \"hint\"}}`" + `. Flags override the
environment (` + "`SKEIN_SOCKET`, `SKEIN_CONFIG`, `SKEIN_KEY`, `SKEIN_PIN`, `SKEIN_TIMEOUT`, `SKEIN_OUTPUT`, `SKEIN_COLOR`" + `), which overrides the
configuration file. Commands that end a membership, change who votes, move the root key
or give something up ask for confirmation on a terminal and need ` + "`--yes`" + ` elsewhere.

| Exit | Meaning |
|---|---|
`

func reference(root *cobra.Command) []byte {
	var b bytes.Buffer
	b.WriteString(referenceHead)
	for _, e := range topics.Exits() {
		fmt.Fprintf(&b, "| %d | %s |\n", e.Code, strings.ReplaceAll(e.Text, "|", "\\|"))
	}
	b.WriteString("\n" + topics.CheckExits + "\n")
	b.WriteString("\nEvery command takes:\n\n```\n" + root.PersistentFlags().FlagUsages() + "```\n")
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	cli.AddSettings(set)
	b.WriteString("\nCommands marked *settings* also take these, which override the configuration file:\n\n```\n" + set.FlagUsages() + "```\n")
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
			return
		}
		if cmd.Runnable() && cmd != root && cmd.Annotations[cli.GroupMark] == "" {
			fmt.Fprintf(&b, "\n## %s\n\n%s.", cmd.CommandPath(), cmd.Short)
			if cmd.Long != "" {
				fmt.Fprintf(&b, " %s", strings.ReplaceAll(cmd.Long, "\n", " "))
			}
			fmt.Fprintf(&b, "\n\n```\n%s\n", strings.TrimSuffix(cmd.UseLine(), " [flags]"))
			settings := ""
			local := pflag.NewFlagSet("", pflag.ContinueOnError)
			cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
				switch own := set.Lookup(f.Name); {
				case own != nil && own.Usage == f.Usage:
					settings = "\n*settings*\n"
				case f.Name != "help":
					local.AddFlag(f)
				}
			})
			b.WriteString(local.FlagUsages() + "```\n" + settings)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
	return b.Bytes()
}
