package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/skein-project/skein/bench/facebench"
	"github.com/skein-project/skein/bench/gatebench"
	"github.com/skein-project/skein/bench/loadbench"
	"github.com/skein-project/skein/bench/logbench"
	"github.com/skein-project/skein/bench/memberbench"
	"github.com/skein-project/skein/bench/onionbench"
	"github.com/skein-project/skein/bench/overloadbench"
	"github.com/skein-project/skein/bench/queuebench"
	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/bench/watchbench"
	"github.com/skein-project/skein/worker/runner"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == runnerRole {
		os.Exit(runner.Main(os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == gatebench.CrowdRole {
		os.Exit(gatebench.Crowd(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == gatebench.GatewaysRole {
		debug.SetGCPercent(400)
		os.Exit(gatebench.Gateways(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == loadbench.TargetRole {
		os.Exit(loadbench.Target(os.Args[2:], os.Stdin, os.Stdout))
	}
	if len(os.Args) > 1 && os.Args[1] == loadbench.ClientRole {
		os.Exit(loadbench.Client(os.Args[2:], os.Stdout))
	}
	if len(os.Args) > 1 && os.Args[1] == loadbench.BareRole {
		os.Exit(loadbench.Bare(os.Args[2:], os.Stdout))
	}
	if len(os.Args) > 1 && os.Args[1] == loadbench.HostsRole {
		os.Exit(loadbench.Hosts(os.Args[2:], os.Stdin, os.Stdout))
	}
	if len(os.Args) > 1 && os.Args[1] == loadbench.HolderRole {
		os.Exit(loadbench.CarryOut(os.Args[2:], os.Stdout))
	}
	debug.SetGCPercent(400) // as a daemon does; for all peers in this process alike
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures what args ask for and writes table and file.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var only string
	out := flags.String("out", "", "file of results to write; with -run its other rows stay")
	flags.StringVar(&only, "run", "", "only the groups that match this expression: takeover, log-append, log-spread, log-verify, log-catchup, queues, workflows, workflows-outputs, plan, guests, members, tunnel, onion, watch, watch-idle, watch-followers, watch-append, replay, web-size, web-paint, web-network, web-events, top-idle, top-binary, load, load-secure, load-alone, load-holder, load-gang, gateway-push, gateway-token, gateway-crew, gateway-many, gateway-redis, gateway-centrifugo, gateway-scale, gateway-browser, overload")
	flags.StringVar(&only, "only", "", "the same as -run; with commas between several")
	short := flags.Bool("short", false, "one tiny round of each, to see that all works")
	burst := flags.Duration("burst", 0, "how long one round of a throughput takes; 0: a second, or with -short as long as shows that it works")
	dir := flags.String("dir", "", "where the stores lie for the time of the run; a temporary directory by default")
	busy := flags.Bool("busy", false, "write the file of results even if the load of the machine before the run is above 0.5")
	if err := flags.Parse(args); err != nil {
		return err
	}
	groups, err := regexp.Compile(strings.ReplaceAll(only, ",", "|"))
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	s := &suite.Suite{Size: suite.Full, Log: stderr}
	if *short {
		s.Size = suite.Tiny
	}
	if *burst > 0 {
		s.Size.Burst = *burst
	}
	if s.Dir, err = os.MkdirTemp(*dir, "skein-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(s.Dir) //nolint:errcheck // nothing of it is needed
	if *out != "" && !*busy {
		if err := suite.AwaitQuiet(ctx, suite.Load, suite.SettleTime, 5*time.Second); err != nil {
			return err
		}
	}
	header, err := suite.NewHeader(s.Dir)
	if err != nil {
		return err
	}
	var failed []error
	for _, g := range []struct {
		name string
		run  func(context.Context, *suite.Suite) error
	}{
		{"takeover", logbench.Takeover},
		{"log-append", logbench.WithRaft(logbench.Appends)},
		{"log-spread", logbench.WithRaft(logbench.Propagation)},
		{"log-verify", logbench.Verification},
		{"log-catchup", logbench.CatchUp},
		{"queues", queuebench.Queues},
		{"workflows", queuebench.Workflows},
		{"workflows-outputs", queuebench.Outputs},
		{"plan", decisions},
		{"guests", guests},
		{"members", memberbench.Membership},
		{"tunnel", tunnel},
		{"onion", onionbench.Onion},
		{"watch", watchbench.FanOut},
		{"watch-idle", watchbench.Idle},
		{"watch-followers", watchbench.Followers},
		{"watch-append", facebench.Append},
		{"replay", logbench.Replay},
		{"web-size", facebench.WebSize},
		{"web-paint", facebench.WebPaint},
		{"web-network", facebench.WebNetwork},
		{"web-events", facebench.WebEvents},
		{"top-idle", facebench.TopIdle},
		{"top-binary", facebench.TopBinary},
		{"load", loadbench.Load},
		{"load-secure", loadbench.Secure},
		{"load-alone", loadbench.Alone},
		{"load-holder", loadbench.Holder},
		{"load-gang", loadbench.Gang},
		{"gateway-push", gatebench.Push},
		{"gateway-token", gatebench.Token},
		{"gateway-crew", gatebench.Crew},
		{"gateway-many", gatebench.Many},
		{"gateway-redis", gatebench.OverRedis},
		{"gateway-centrifugo", gatebench.OverCentrifugo},
		{"gateway-scale", gatebench.Scale},
		{"gateway-browser", browserGuest},
		{"overload", overloadbench.Goodput},
	} {
		if !groups.MatchString(g.name) {
			continue
		}
		s.Group, s.Began = g.name, time.Now()
		if err := g.run(ctx, s); err != nil {
			// The others are worth their time all the same.
			s.Progress("failed: %v", err)
			failed = append(failed, fmt.Errorf("%s: %w", g.name, err))
		}
		if ctx.Err() != nil {
			return errors.Join(failed...)
		}
		s.Progress("took %s", time.Since(s.Began).Round(time.Second))
	}
	header.LoadAfter = suite.Load()
	report := suite.NewReport(header, s.Rows, s.Skipped)
	if err := report.Print(stdout); err != nil {
		return err
	}
	switch {
	case len(failed) > 0:
		return errors.Join(failed...) // the file of an earlier run stays
	case len(report.Results) == 0:
		return errors.New("nothing was measured")
	case *out == "":
		return nil
	}
	if only != "" {
		if err := report.Keep(*out); err != nil {
			return err
		}
	}
	return report.Write(*out)
}
