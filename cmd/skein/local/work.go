package local

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/client"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/outside"
)

// workTokenCredential is like tokenCredential, of the unit of `skein work`.
const workTokenCredential = "skein.work-token"

func workCommand(a *cli.App, d Options) *cobra.Command {
	var o outside.Options
	var token string
	var memory uint64
	cmd := &cobra.Command{
		Use:   "work --gateway URL",
		Short: "Work for a cluster of others, as no host of it",
		Long: "Runs chunks that a gateway hands out, until Ctrl-C or SIGTERM. The computer needs no open\n" +
			"port and joins no mesh: it asks by HTTPS. What it keeps is a key, modules, and results\n" +
			"until they count, in --dir; so it goes on after a crash, sleep or the loss of a gateway.\n" +
			"Whoever owns it enrols it by an access token (`skein gateway token create --role work`);\n" +
			"without one it prints a code by which the owner claims it. Modules run in WebAssembly,\n" +
			"without files, network or this computer's clock.",
		Example: "  skein work --gateway https://gw1.example.org:8443 --token @attic.token",
		Args:    cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(o.Gateways) == 0 {
				return cli.Usagef("--gateway is missing").WithHint("the URL of a gateway, like https://gw1.example.org:8443; several with commas, which are tried in turn")
			}
			if token == "" {
				if file := credential(a, workTokenCredential); file != "" {
					token = "@" + file
				}
			}
			if memory < 1 || memory > job.MaxMemoryBytes>>20 {
				return cli.Usagef("--memory is %d, want 1-%d MiB", memory, job.MaxMemoryBytes>>20)
			}
			var err error
			if o.Token, err = workToken(a, token); err != nil {
				return err
			}
			if o.TLS, err = client.TLS(a.Pins); err != nil {
				return cli.Usagef("--pin: %s", err)
			}
			if o.Dir == "" {
				if o.Dir, err = workDir(a); err != nil {
					return err
				}
			}
			level := zerolog.WarnLevel
			if a.Verbose {
				level = zerolog.DebugLevel
			}
			o.MemoryBytes, o.Version = memory<<20, d.Version
			o.Logger = zerolog.New(zerolog.ConsoleWriter{Out: a.Err, TimeFormat: "15:04:05", NoColor: a.ErrWidth == 0}).Level(level).With().Timestamp().Logger()
			o.Say = func(text string) { a.Note("%s", text) }
			err = d.Work(cmd.Context(), o)
			if _, final := errors.AsType[*outside.FinalError](err); final {
				return cli.Failf(cli.ExitUsage, "%s", err) // the unit does not start again after it
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.Gateways, "gateway", nil, "URL of a gateway; several are tried in turn")
	f.StringVar(&token, "token", "", "access token for work: @FILE, or - for standard input")
	f.StringVar(&o.Name, "name", "", "what its owner sees")
	f.IntVar(&o.Slots, "slots", 0, "chunks at once, 1-64 (default: the processors)")
	f.Uint64Var(&memory, "memory", 1024, "MiB that one chunk may have")
	f.StringVar(&o.Dir, "dir", "", "directory of its state (default: $STATE_DIRECTORY, else ~/.local/state/skein-work)")
	return cmd
}

// workToken reads --token. Tokens never travel in argv, where every user of the machine
// could read them.
func workToken(a *cli.App, arg string) (api.Secret, error) {
	const limit = 4096
	if arg == "" {
		return "", nil
	}
	var text []byte
	var err error
	switch file, at := strings.CutPrefix(arg, "@"); {
	case arg == "-":
		text, err = io.ReadAll(io.LimitReader(a.In, limit))
	case at && file != "":
		text, err = os.ReadFile(file)
	default:
		return "", cli.Usagef("--token wants @FILE or -").WithHint("put the token into a file that only you can read; in argv every user could see it")
	}
	if err == nil && (len(text) >= limit || strings.TrimSpace(string(text)) == "") {
		err = errors.New("no token is in it")
	}
	if err != nil {
		return "", cli.Usagef("--token: %s", err)
	}
	return api.Secret(strings.TrimSpace(string(text))), nil
}

// workDir is where state is kept unless --dir says otherwise.
func workDir(a *cli.App) (string, error) {
	if dir := a.Getenv("STATE_DIRECTORY"); filepath.IsAbs(dir) {
		return dir, nil
	}
	if dir := a.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "skein-work"), nil
	}
	home := a.Getenv("HOME")
	if !filepath.IsAbs(home) {
		return "", cli.Usagef("--dir is missing, and there is no home directory")
	}
	return filepath.Join(home, ".local", "state", "skein-work"), nil
}
