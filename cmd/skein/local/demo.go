package local

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/internal/demo"
)

// mostWorkers is how many outside workers a demo may have: each has an address of its own.
const mostWorkers = 2000

func demoCommand(a *cli.App, d Options) *cobra.Command {
	var o demo.Options
	var profile, iterations string
	var onion, ui, scale bool
	var workers int
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Three hosts on this machine, a job, the holder killed, nothing lost",
		Long: "Starts three daemons on this machine, submits a job, kills the lease holder at\n" +
			"40 % and lets the job finish; then checks that nothing was lost or counted\ntwice. It needs no privileges and leaves nothing behind.\n\n" +
			"With --onion the three daemons serve one onion address on a private Tor network,\n" +
			"which needs tor and tor-gencert. A client fetches from it, the publishing host\nis killed, and the client continues.\n\n" +
			"With --ui it prints a link to the page of the cluster and goes on until Ctrl-C: one\n" +
			"job follows another, hosts are killed, cut off and asked to hand the lease over.\n\n" +
			"With --scale-out it starts a Redis, a PostgreSQL and a Centrifugo as well, which must be\n" +
			"installed: two of the hosts are gateways that share the Redis, and 200 outside workers\n" +
			"(--workers) attach there, whose connections Centrifugo keeps. A job goes from a table into\n" +
			"the table while a gateway, Centrifugo, Redis and the holder are killed, and its result is\n" +
			"compared with that of this machine alone.",
		Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch o.Profile = cluster.Profile(profile); o.Profile {
			case cluster.ProfileClassic, cluster.ProfileLAN, cluster.ProfileFast:
			default:
				return cli.Usagef("--profile is %q, want classic, lan or fast", profile)
			}
			if onion && (o.Handover || iterations != "" || o.Wasm != "") {
				return cli.Usagef("--onion runs no job: leave out --handover, --iterations and --wasm")
			}
			if ui && (onion || o.Handover) {
				return cli.Usagef("--ui has mishaps of its own: leave out --onion and --handover")
			}
			if scale && (onion || ui || o.Handover) {
				return cli.Usagef("--scale-out has steps of its own: leave out --onion, --ui and --handover")
			}
			if workers != 0 && !scale {
				return cli.Usagef("--workers is for --scale-out")
			}
			if workers < 0 || workers > mostWorkers {
				return cli.Usagef("--workers is %d, want 1 to %d", workers, mostWorkers)
			}
			if iterations != "" {
				n, err := cli.ParseCount(iterations)
				if err != nil {
					return cli.Usagef("--iterations: %s", err)
				}
				o.Iterations = n
			}
			exe, err := os.Executable()
			if err != nil {
				return cli.Failf(cli.ExitFailed, "find the program: %s", err)
			}
			o.Exe, o.Out = exe, a.Out
			if onion {
				_, err = d.DemoOnion(cmd.Context(), o)
				return err
			}
			if o.Wasm != "" && !exists(o.Wasm) {
				return cli.Usagef("--wasm: there is no file %s", o.Wasm)
			}
			if o.Wasm == "" {
				o.Wasm = pi(filepath.Dir(exe))
			}
			if ui {
				return d.DemoShow(cmd.Context(), o, demoPage)
			}
			if scale {
				return d.DemoScale(cmd.Context(), o, workers)
			}
			_, err = d.Demo(cmd.Context(), o)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&profile, "profile", string(cluster.ProfileLAN), "timing: classic, lan or fast")
	f.StringVar(&o.Wasm, "wasm", "", "module of the pi example (default: the one that came with the program)")
	f.StringVar(&iterations, "iterations", "", "iterations of the job (default: about 15 s of work, with --scale-out 45 s)")
	f.BoolVar(&o.Handover, "handover", false, "stop the holder with SIGTERM instead of killing it")
	f.BoolVar(&onion, "onion", false, "serve one onion address on a private Tor network instead of a job")
	f.BoolVar(&ui, "ui", false, "show the cluster as a page, and go on until Ctrl-C")
	f.BoolVar(&scale, "scale-out", false, "use a Redis, a PostgreSQL, a Centrifugo, gateways and outside workers as well")
	f.IntVar(&workers, "workers", 0, "outside workers of --scale-out (default 200)")
	f.BoolVar(&o.Keep, "keep", false, "leave the state directories behind")
	return cmd
}

// pi is the example module of the program in bin: beside it where it was built, in
// share where it was installed.
func pi(bin string) string {
	built := filepath.Join(bin, "examples", "pi.wasm")
	if installed := filepath.Join(bin, "..", "share", "skein", "examples", "pi.wasm"); !exists(built) && exists(installed) {
		return installed
	}
	return built
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
