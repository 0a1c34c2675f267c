package man

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/docs/topics"
)

// Options is what stands in the margins of every page.
type Options struct {
	// Date is YYYY-MM-DD, or empty.
	Date string
	// Version is that of the program.
	Version string
}

// Page is one file of the manual.
type Page struct {
	// Name is the file's, as skein-job.8.
	Name string
	Text []byte
}

// environment are the variables that stand for flags of all commands.
var environment = []struct{ name, text string }{
	{"SKEIN_SOCKET", "as --socket"},
	{"SKEIN_CONFIG", "as --config"},
	{"SKEIN_TIMEOUT", "as --timeout"},
	{"SKEIN_OUTPUT", "as --output"},
	{"SKEIN_COLOR", "as --color"},
	{"SKEIN_KEY", "as --key"},
	{"SKEIN_PIN", "as --pin"},
	{"SKEIN_...", "any key of the configuration, as SKEIN_MESH_LISTEN for mesh.listen; skein.toml(5) names each"},
}

// files are what a host has of skein.
var files = []struct{ name, text string }{
	{config.DefaultPath, "the configuration, which may be missing; see skein.toml(5)"},
	{config.DefaultStateDir, "identity, event log, votes and artefacts"},
	{config.DefaultSocket, "the daemon's socket"},
	{"/etc/credstore/skein.token", "the invite of a host that is to join, which only root can read"},
}

// Pages returns the manual of the commands below root, in the order of names.
func Pages(root *cobra.Command, o Options) []Page {
	pages := []Page{{root.Name() + ".8", overview(root, o)}, {"skein.toml.5", keys(o)}}
	for _, cmd := range shown(root) {
		pages = append(pages, Page{pageName(cmd) + ".8", command(cmd, o)})
	}
	slices.SortFunc(pages, func(a, b Page) int { return strings.Compare(a.Name, b.Name) })
	return pages
}

// shown are the commands below cmd that help lists.
func shown(cmd *cobra.Command) (out []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		if !sub.Hidden && sub.Name() != "help" && sub.Name() != "completion" {
			out = append(out, sub)
		}
	}
	return out
}

// pageName is the name of the page about a command below the root.
func pageName(cmd *cobra.Command) string { return cmd.Root().Name() + "-" + cmd.Name() }

func overview(root *cobra.Command, o Options) []byte {
	p := newPage(root.Name(), section, root.Short, o)
	p.section("SYNOPSIS")
	p.b.WriteString(bold(root.Name()) + " [" + italic("flags") + "] " + italic("command") + " ...\n")
	p.section("DESCRIPTION")
	p.text(root.Long)
	p.section("COMMANDS")
	for _, cmd := range shown(root) {
		p.item(bold(pageName(cmd))+fmt.Sprintf("(%d)", section), cmd.Short+".")
	}
	p.section("OPTIONS")
	p.text("Every command takes these.")
	p.flags(root.PersistentFlags())
	p.section("SETTINGS")
	p.text("The daemon, and commands that work on its files, take these as well. They override the configuration.")
	settings := pflag.NewFlagSet("", pflag.ContinueOnError)
	cli.AddSettings(settings)
	p.flags(settings)
	p.section("EXIT STATUS")
	for _, e := range topics.Exits() {
		p.item(bold(fmt.Sprint(e.Code)), strings.ReplaceAll(e.Text, "`", ""))
	}
	p.b.WriteString(".PP\n")
	p.lines("skein " + strings.ReplaceAll(topics.CheckExits, "`", ""))
	p.section("ENVIRONMENT")
	for _, e := range environment {
		p.item(bold(e.name), e.text)
	}
	p.section("FILES")
	for _, f := range files {
		p.item(italic(f.name), f.text)
	}
	also := []string{"skein.toml(5)"}
	for _, cmd := range shown(root) {
		also = append(also, fmt.Sprintf("%s(%d)", pageName(cmd), section))
	}
	p.seeAlso(also...)
	return p.bytes()
}

// command is the page of a command and of those below it.
func command(cmd *cobra.Command, o Options) []byte {
	p := newPage(pageName(cmd), section, cmd.Short, o)
	p.section("SYNOPSIS")
	for i, one := range runnable(cmd) {
		if i > 0 {
			p.b.WriteString(".br\n")
		}
		p.synopsis(one)
	}
	p.section("DESCRIPTION")
	if cmd.Long != "" {
		p.text(cmd.Long)
	} else {
		p.text(cmd.Short + ".")
	}
	p.options(cmd, func() { p.section("OPTIONS") })
	if cmd.Example != "" {
		p.section("EXAMPLES")
		p.verbatim(cmd.Example)
	}
	if len(shown(cmd)) > 0 {
		p.section("COMMANDS")
		for _, one := range runnable(cmd) {
			if one != cmd { // whose page it is
				p.below(one)
			}
		}
	}
	p.seeAlso(fmt.Sprintf("%s(%d)", cmd.Root().Name(), section), "skein.toml(5)")
	return p.bytes()
}

// runnable are the command and those below it that do something.
func runnable(cmd *cobra.Command) (out []*cobra.Command) {
	if cmd.Annotations[cli.GroupMark] == "" {
		out = append(out, cmd)
	}
	for _, sub := range shown(cmd) {
		out = append(out, runnable(sub)...)
	}
	return out
}

// use is how a command is written, without what every command takes.
func use(cmd *cobra.Command) string { return strings.TrimSuffix(cmd.UseLine(), " [flags]") }

func (p *page) synopsis(cmd *cobra.Command) {
	p.b.WriteString(bold(cmd.CommandPath()) + escape(strings.TrimPrefix(use(cmd), cmd.CommandPath())))
	if cmd.LocalNonPersistentFlags().HasAvailableFlags() {
		p.b.WriteString(" [" + italic("flags") + "]")
	}
	p.b.WriteString("\n")
}

// below is what the page of a group says about a command in it.
func (p *page) below(cmd *cobra.Command) {
	p.subsection(use(cmd))
	p.text(cmd.Short + ".")
	if cmd.Long != "" {
		p.b.WriteString(".PP\n")
		p.text(cmd.Long)
	}
	p.options(cmd, func() {})
	if cmd.Example != "" {
		p.b.WriteString(".PP\n")
		p.verbatim(cmd.Example)
	}
}

// options writes the flags of one command, after a heading if there are any.
func (p *page) options(cmd *cobra.Command, heading func()) {
	settings := pflag.NewFlagSet("", pflag.ContinueOnError)
	cli.AddSettings(settings)
	takesSettings := false
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if s := settings.Lookup(f.Name); s != nil && s.Usage == f.Usage {
			takesSettings = true
		} else {
			own.AddFlag(f)
		}
	})
	if !takesSettings && !own.HasAvailableFlags() {
		return
	}
	heading()
	p.flags(own)
	if takesSettings {
		p.b.WriteString(".PP\n")
		p.lines("The settings that skein(8) lists can be given as well.")
	}
}

// flags writes one paragraph a flag.
func (p *page) flags(set *pflag.FlagSet) {
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		tag := bold("--" + f.Name)
		if f.Shorthand != "" {
			tag = bold("-"+f.Shorthand) + ", " + tag
		}
		if value != "" {
			tag += " " + italic(value)
		}
		switch f.DefValue {
		case "", "false", "0", "0s", "[]":
		default:
			usage += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		p.item(tag, usage)
	})
}

// keys is the page about the configuration's file.
func keys(o Options) []byte {
	p := newPage("skein.toml", 5, "configuration of the skein daemon", o)
	p.section("DESCRIPTION")
	p.text("The file is " + config.DefaultPath + " unless --config or SKEIN_CONFIG names another, and may be missing. It is TOML. " +
		"Flags override the environment, which overrides the file. Unknown keys, wrong types and values out of range are errors, " +
		"all reported at once.\n\nskein config init prints all keys with their defaults as a file to edit, skein config check reads one as the daemon " +
		"would, and skein config diff shows what a reload or a restart would change. Where it says reload, systemctl reload skein " +
		"has the daemon take the new value; all others need a restart.")
	heading := "-"
	for _, k := range config.Keys() {
		at, _, nested := strings.Cut(k.Name, ".")
		if !nested {
			at = "top level"
		}
		if at != heading {
			heading = at
			p.section(strings.ToUpper(at))
		}
		text := strings.Join(k.Doc, "\n") + "\nDefault " + k.Default + "; " + k.Env
		if k.Live {
			text += "; reload"
		}
		p.item(bold(k.Name), text+".")
	}
	p.seeAlso(fmt.Sprintf("skein(%d)", section), fmt.Sprintf("skein-config(%d)", section), "systemctl(1)")
	return p.bytes()
}
