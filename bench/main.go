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
	"syscall"
	"time"

	"github.com/skein-project/skein/worker"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == runnerRole {
		os.Exit(worker.RunnerMain(os.Stdin, os.Stdout, os.Stderr))
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
	out := flags.String("out", "", "file of results to write")
	only := flags.String("run", "", "only the groups that match this expression: takeover, log-append, log-spread, log-verify, log-catchup, queues, plan, guests, members, tunnel, onion")
	short := flags.Bool("short", false, "one tiny round of each, to see that all works")
	burst := flags.Duration("burst", 0, "how long one round of a throughput takes; 0: a second, or with -short as long as shows that it works")
	dir := flags.String("dir", "", "where the stores lie for the time of the run; a temporary directory by default")
	if err := flags.Parse(args); err != nil {
		return err
	}
	groups, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	s := &suite{size: full, log: stderr}
	if *short {
		s.size = tiny
	}
	if *burst > 0 {
		s.size.burst = *burst
	}
	if s.dir, err = os.MkdirTemp(*dir, "skein-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(s.dir) //nolint:errcheck // nothing of it is needed
	header, err := newHeader(s.dir)
	if err != nil {
		return err
	}
	var failed []error
	for _, g := range []struct {
		name string
		run  func(context.Context, *suite) error
	}{
		{"takeover", takeover},
		{"log-append", withRaft(appends)},
		{"log-spread", withRaft(propagation)},
		{"log-verify", verification},
		{"log-catchup", catchUp},
		{"queues", queues},
		{"plan", decisions},
		{"guests", guests},
		{"members", membership},
		{"tunnel", tunnel},
		{"onion", onion},
	} {
		if !groups.MatchString(g.name) {
			continue
		}
		s.group, s.began = g.name, time.Now()
		if err := g.run(ctx, s); err != nil {
			// The others are worth their time all the same.
			s.progress("failed: %v", err)
			failed = append(failed, fmt.Errorf("%s: %w", g.name, err))
		}
		if ctx.Err() != nil {
			return errors.Join(failed...)
		}
		s.progress("took %s", time.Since(s.began).Round(time.Second))
	}
	header.LoadAfter = load()
	report := newReport(header, s.rows, s.skipped)
	if err := report.print(stdout); err != nil {
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
	return report.write(*out)
}

// size is how much is measured.
type size struct {
	crashes, handovers int
	rounds             int           // of throughputs
	burst              time.Duration // of one round of a throughput
	events             int           // in the log that is verified
	history            int           // events of a catch-up
	catchUps           int
	propagations       int
	workers            []int         // of the queues
	submits            int           // of single chunks, each round
	hosts, kills       int           // of the membership
	window             time.Duration // of one round of idle traffic
	loss               time.Duration // how long datagrams are lost
	tunnel             bool
	onionRounds        int // of the publisher beside onionbalance; 0: none
}

// The full run gives percentiles of takeovers enough samples; the tiny one is
// for the tests.
var (
	full = size{
		crashes: 30, handovers: 50, rounds: 5, burst: time.Second, events: 300_000,
		history: 1_000_000, catchUps: 3, propagations: 200, workers: []int{1, crowd, 500}, submits: 40,
		hosts: 100, kills: 5, window: 10 * time.Second, loss: time.Minute, tunnel: true, onionRounds: 3,
	}
	tiny = size{
		crashes: 1, handovers: 1, rounds: 1, burst: 50 * time.Millisecond, events: 2000,
		history: 3000, catchUps: 1, propagations: 2, workers: []int{crowd}, submits: 10,
		hosts: 4, kills: 1, window: time.Second, loss: time.Second,
	}
)

// suite collects the rows of a run.
type suite struct {
	size    size
	dir     string
	log     io.Writer
	group   string
	began   time.Time
	rows    []series
	skipped []Skip
}

func (s *suite) add(r series) { s.rows = append(s.rows, r) }

func (s *suite) skip(name, reason string) { s.skipped = append(s.skipped, Skip{name, reason}) }

// progress tells who waits that something goes on.
func (s *suite) progress(format string, args ...any) {
	fmt.Fprintf(s.log, "%s %4.0f s: %s\n", s.group, time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}
