package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// WriteHelp writes what a command does, and its flags.
func (a *App) WriteHelp(w io.Writer, cmd *cobra.Command) {
	width := helpWidth
	if a.OutWidth > 0 {
		width = min(width, max(40, a.OutWidth))
	}
	text := cmd.Short + "."
	if cmd.Long != "" {
		text = cmd.Long
		if !cmd.HasParent() {
			text = cmd.Short + ".\n\n" + text
		}
	}
	fmt.Fprintf(w, "%s\n\nUsage:\n", Wrap(text, width, ""))
	if cmd.Runnable() && (cmd.Annotations[GroupMark] == "" && cmd.HasParent() || !cmd.HasAvailableSubCommands()) {
		fmt.Fprintf(w, "  %s\n", Wrap(cmd.UseLine(), width-2, "    "))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "  %s COMMAND\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	writeCommands(w, cmd, width)
	for _, part := range []struct {
		title string
		flags *pflag.FlagSet
	}{{"Flags", cmd.LocalFlags()}, {"Flags of every command", cmd.InheritedFlags()}} {
		if usage := part.flags.FlagUsagesWrapped(width); usage != "" {
			fmt.Fprintf(w, "\n%s:\n%s", part.title, usage)
		}
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\n`%s COMMAND --help` says more.\n", cmd.CommandPath())
	}
}

// writeCommands lists the commands below one, by their groups.
func writeCommands(w io.Writer, cmd *cobra.Command, width int) {
	list := func(title, id string) {
		first := true
		for _, sub := range cmd.Commands() {
			if sub.GroupID != id || !sub.IsAvailableCommand() && sub.Name() != "help" {
				continue
			}
			if first {
				fmt.Fprintf(w, "\n%s:\n", title)
				first = false
			}
			name := fmt.Sprintf("  %-*s  ", max(11, cmd.Commands()[0].NamePadding()), sub.Name())
			fmt.Fprintln(w, name+Wrap(sub.Short, width-len(name), strings.Repeat(" ", len(name))))
		}
	}
	for _, g := range cmd.Groups() {
		list(g.Title, g.ID)
	}
	title := "Commands"
	if len(cmd.Groups()) > 0 {
		title = "More"
	}
	list(title, "")
}
