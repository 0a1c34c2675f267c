package loadbench

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/skein-project/skein/bench/suite"
)

const (
	users = 50
	many  = 1000
	// frozenRate arrivals a second for frozenSeconds, of which the target stands still
	// for one: of all of them 10 % wait for up to a second, evenly.
	frozenRate    = 1000
	frozenSeconds = 10
	truthP95      = 0.5
	truthP99      = 0.9
)

// target is a process that serves until it is closed.
type target struct {
	url string
	cmd *exec.Cmd
	in  io.Closer
}

func startTarget(ctx context.Context, kind string) (*target, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, TargetRole, kind)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the target: %w", err)
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("start the target: %w", err)
	}
	scheme := "http://"
	if kind != plain {
		scheme = "https://"
	}
	return &target{scheme + strings.TrimSpace(addr), cmd, in}, nil
}

func (t *target) close() {
	t.in.Close() //nolint:errcheck // it ends with that
	_ = t.cmd.Wait()
}

// seconds is how long a client runs as fast as it can.
func seconds(s *suite.Suite) int { return max(1, int(math.Ceil((5 * s.Size.Burst).Seconds()))) }

// off is how far a figure is off the truth, in percent.
func off(x, truth float64) float64 { return math.Abs(x-truth) / truth * 100 }

// Load measures the rows of the group.
func Load(ctx context.Context, s *suite.Suite) error {
	skein, err := ours()
	if err != nil {
		return err
	}
	seconds := seconds(s)
	const (
		cost     = "load: requests of a processor second, HTTP/1.1, beside "
		memory   = "load: memory of 1000 users, beside "
		frozen95 = "load: target frozen for 1 s, 50 users: p95 off the truth, beside "
		frozen99 = "load: target frozen for 1 s, 50 users: p99 off the truth, beside "
	)
	for _, p := range []struct {
		tool
		cost, memory suite.Target
		thousand     bool
		frozen       bool
	}{
		{k6(), suite.Want("ratio", ">=", 5), suite.Want("ratio", "<=", 0.125), true, true},
		{vegeta(), suite.Want("ratio", ">=", 2.5), suite.Target{}, false, true},
		{hey(), suite.Want("ratio", ">=", 2.5), suite.Target{}, false, true},
		{wrk(), suite.Want("ratio", ">=", 0.65), suite.Target{}, false, false},
	} {
		with := p.name
		if p.path == "" {
			s.Skip(cost+with, "it is not installed: scripts/bench-deps")
			continue
		}
		row := suite.Series{Name: cost + with, Unit: "1/s", With: with, Target: p.cost, Digest: suite.Median}
		if err := inTurn(ctx, s, skein, p.tool, run{url: "/", users: users, seconds: seconds}, func(us, them outcome) {
			row.Ours = append(row.Ours, us.requests/us.cpu.Seconds())
			row.Peer = append(row.Peer, them.requests/them.cpu.Seconds())
		}); err != nil {
			return err
		}
		s.Add(row)
		if p.thousand {
			row := suite.Series{Name: memory + with, Unit: "MB", With: with, Target: p.memory, Digest: suite.Median}
			var few [2][]float64 // what a program takes that has one user
			if err := inTurn(ctx, s, skein, p.tool, run{url: "/", users: 1, seconds: seconds}, func(us, them outcome) {
				few[0], few[1] = append(few[0], us.rss/1e6), append(few[1], them.rss/1e6)
			}); err != nil {
				return err
			}
			if err := inTurn(ctx, s, skein, p.tool, run{url: "/", users: many, seconds: seconds}, func(us, them outcome) {
				row.Ours = append(row.Ours, us.rss/1e6-suite.Median(few[0]))
				row.Peer = append(row.Peer, them.rss/1e6-suite.Median(few[1]))
			}); err != nil {
				return err
			}
			s.Add(row)
		}
		if !p.frozen || s.Size.Burst < time.Second/2 { // ten seconds each: not to see that all works
			continue
		}
		a := suite.Series{Name: frozen95 + with, Unit: "%", With: with + ", bounded to 50", Target: suite.Want("ours", "<=", 5), Digest: suite.Median}
		b := suite.Series{Name: frozen99 + with, Unit: "%", With: a.With, Target: a.Target, Digest: suite.Median}
		if err := inTurn(ctx, s, skein, p.tool, run{url: "/freeze", users: users, rate: frozenRate, seconds: frozenSeconds}, func(us, them outcome) {
			a.Ours, a.Peer = append(a.Ours, off(us.p95, truthP95)), append(a.Peer, off(them.p95, truthP95))
			b.Ours, b.Peer = append(b.Ours, off(us.p99, truthP99)), append(b.Peer, off(them.p99, truthP99))
		}); err != nil {
			return err
		}
		s.Add(a)
		s.Add(b)
	}
	return nil
}

// inTurn has both run, each against a target of its own, as often as there are rounds.
func inTurn(ctx context.Context, s *suite.Suite, us, them tool, r run, take func(us, them outcome)) error {
	for round := range s.Size.Rounds {
		var got [2]outcome
		one := func(i int, t tool) func() error {
			return func() error {
				at, err := startTarget(ctx, cmp.Or(r.kind, plain))
				if err != nil {
					return err
				}
				defer at.close()
				if err := suite.Phase(ctx); err != nil {
					return err
				}
				mine := r.sized(s)
				mine.url = at.url + r.url
				got[i], err = t.start(ctx, mine, s.Dir)
				return err
			}
		}
		if err := suite.InTurn(round, one(0, us), one(1, them)); err != nil {
			return err
		}
		take(got[0], got[1])
	}
	s.Progress("%s, %d users, rate %d: done", them.name, r.users, r.rate)
	return nil
}
