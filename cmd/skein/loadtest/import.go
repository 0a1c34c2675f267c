package loadtest

import (
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/load/convert"
	"github.com/skein-project/skein/present"
)

func importCommand(a *cli.App) *cobra.Command {
	var out string
	var all bool
	one := func(use, short, long string, read func(text []byte) ([]convert.Request, []string, error)) *cobra.Command {
		cmd := &cobra.Command{
			Use: use + " FILE", Short: short, Args: cli.Exactly(1, "a file, or - for standard input"), Long: long,
			RunE: func(_ *cobra.Command, args []string) error {
				text, err := input(a, args[0])
				if err != nil {
					return err
				}
				list, notes, err := read(text)
				if err != nil {
					return cli.Usagef("%s %s", args[0], err)
				}
				name := strings.TrimSuffix(filepath.Base(args[0]), filepath.Ext(args[0]))
				if args[0] == "-" {
					name = use
				}
				scenario, more, err := convert.Write(name[:min(len(name), 64)], list)
				if err != nil {
					return cli.Usagef("%s: %s", args[0], err)
				}
				for _, n := range append(notes, more...) {
					a.Note("%s", present.Plain(n))
				}
				if out != "" {
					return writeOut(out, []byte(scenario))
				}
				_, err = io.WriteString(a.Out, scenario)
				return err
			},
		}
		cmd.Flags().StringVar(&out, "out", "", "file to write the scenario into (default: standard output)")
		return cmd
	}
	har := one("har", "From what a browser recorded, a HAR file",
		"Pictures, scripts, styles and fonts are left out, gaps become times to think, cookies are those\nthat the target sets, and headers that are secrets become ${secret.NAME}.",
		func(text []byte) ([]convert.Request, []string, error) { return convert.HAR(text, all) })
	har.Flags().BoolVar(&all, "all", false, "also pictures, scripts, styles and fonts")
	return cli.Group("import", "Make a scenario of what other tools write",
		har,
		one("curl", "From a command line of curl", "As browsers copy it: \"Copy as cURL\". Headers and passwords that are secrets become ${secret.NAME}.",
			func(text []byte) ([]convert.Request, []string, error) {
				r, err := convert.Curl(string(text))
				return []convert.Request{r}, nil, err
			}),
		one("targets", "From targets of vegeta", "Lines METHOD URL with headers behind; bodies of files are refused.",
			func(text []byte) ([]convert.Request, []string, error) {
				list, err := convert.Targets(string(text))
				return list, nil, err
			}))
}

// input reads a file, or standard input.
func input(a *cli.App, path string) ([]byte, error) {
	if path != "-" {
		return readFile(path, convert.MaxInput)
	}
	text, err := io.ReadAll(io.LimitReader(a.In, convert.MaxInput+1))
	switch {
	case err != nil:
		return nil, cli.Usagef("read standard input: %s", err)
	case len(text) > convert.MaxInput:
		return nil, cli.Usagef("standard input has more than the %d bytes that are allowed", convert.MaxInput)
	}
	return text, nil
}
