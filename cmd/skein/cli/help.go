package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// HelpCommand says what another command does.
func HelpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND...]", Short: "What a command does, and its flags",
		RunE: func(cmd *cobra.Command, args []string) error {
			asked, rest, err := cmd.Root().Find(args)
			if err == nil {
				err = CommandsOnly(asked, rest)
			}
			if err != nil {
				return err
			}
			asked.InitDefaultHelpFlag() // is shown, too
			return asked.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) (words []string, _ cobra.ShellCompDirective) {
			asked, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			for _, sub := range asked.Commands() {
				if sub.IsAvailableCommand() && strings.HasPrefix(sub.Name(), typed) {
					words = append(words, sub.Name()+"\t"+sub.Short)
				}
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// TidyCompletion has the command of the library, which writes what shells complete with,
// refuse what the others refuse. It writes to the output that root has now.
func TidyCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	cmd, _, err := root.Find([]string{"completion"})
	if err != nil || cmd == root {
		return
	}
	cmd.Short, cmd.Long, cmd.Args = "What completes words for bash, fish, powershell or zsh", "", CommandsOnly
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.Annotations = map[string]string{GroupMark: "yes"}
	for _, shell := range cmd.Commands() {
		shell.Args = Exactly(0, "")
	}
}

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
