package loadbench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/skein-project/skein/bench/suite"
)

// outcome is what a client came to.
type outcome struct {
	requests      float64
	cpu           time.Duration
	rss           float64 // bytes, the most
	p50, p95, p99 float64 // seconds
	late          float64 // of the generator itself: p50, seconds
}

// run is one use of a tool. A rate of 0 is as fast as the users can.
type run struct {
	kind    string // of the target; empty: plain
	url     string
	users   int
	rate    int
	seconds int
}

// sized is r, or where one only sees that all works something smaller.
func (r run) sized(s *suite.Suite) run {
	if s.Size.Burst < time.Second/2 {
		r.users, r.rate = min(r.users, 5), min(r.rate, 100)
	}
	return r
}

// tool is a client that is compared.
type tool struct {
	name string
	path string // empty: it is not there
	// command makes its arguments and standard input; read understands its output.
	command func(r run, dir string) (args []string, stdin string)
	read    func(out []byte, dir string) (outcome, error)
}

// start runs it. Where nothing else gets a turn a second may pass before a connection
// stands: it is started once more then, for longer.
func (t tool) start(ctx context.Context, r run, dir string) (outcome, error) {
	o, err := t.once(ctx, r, dir)
	if errors.Is(err, errNothing) {
		r.seconds *= 10
		return t.once(ctx, r, dir)
	}
	return o, err
}

var errNothing = errors.New("nothing was sent")

func (t tool) once(ctx context.Context, r run, dir string) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.seconds)*time.Second+time.Minute)
	defer cancel()
	args, stdin := t.command(r, dir)
	cmd := exec.CommandContext(ctx, t.path, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return outcome{}, fmt.Errorf("%s: %w: %.500s", t.name, err, errs.String())
	}
	o, err := t.read(out.Bytes(), dir)
	if err != nil {
		return o, fmt.Errorf("%s: %w in %.500s", t.name, err, out.String())
	}
	o.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		o.rss = float64(u.Maxrss) * 1024
	}
	if o.requests <= 0 {
		return o, fmt.Errorf("%s: %w: %.500s", t.name, errNothing, out.String())
	}
	return o, nil
}

// ours is skein's engine in a process of its own.
func ours() (tool, error) {
	self, err := os.Executable()
	if err != nil {
		return tool{}, err
	}
	return tool{
		name: "skein", path: self,
		command: func(r run, _ string) ([]string, string) {
			return []string{ClientRole, r.url, text(r.users), text(r.rate), text(r.seconds)}, ""
		},
		read: func(out []byte, _ string) (outcome, error) {
			var d struct {
				Requests float64
				Failed   float64
				Latency  struct{ P50, P95, P99 float64 }
				Own      struct {
					P50 float64 `json:"late_p50"`
				} `json:"generator"`
			}
			if err := json.Unmarshal(out, &d); err != nil {
				return outcome{}, err
			}
			if d.Failed > 0 {
				return outcome{}, fmt.Errorf("a share of %g failed", d.Failed)
			}
			return outcome{requests: d.Requests, p50: d.Latency.P50, p95: d.Latency.P95, p99: d.Latency.P99, late: d.Own.P50}, nil
		},
	}, nil
}

// bare is the client alone, in a process of its own: connections that each send the same
// request again and again, and count.
func bare(self string) tool {
	return tool{
		name: "its client alone", path: self,
		command: func(r run, _ string) ([]string, string) {
			return []string{BareRole, r.url, text(r.users), text(r.seconds)}, ""
		},
		read: func(out []byte, _ string) (outcome, error) {
			return outcome{requests: number(out, `(\d+)`)}, nil
		},
	}
}

// find looks for a program where scripts/bench-deps puts it, and in the path.
func find(name string) string {
	for _, dir := range []string{"../bin/tools", "bin/tools"} {
		if path, err := filepath.Abs(filepath.Join(dir, name)); err == nil {
			if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
				return path
			}
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

// number is the first group of a pattern, 0 if it does not match.
func number(out []byte, pattern string) float64 {
	m := regexp.MustCompile(pattern).FindSubmatch(out)
	if m == nil {
		return 0
	}
	x, _ := strconv.ParseFloat(string(m[1]), 64)
	return x
}

func wrk() tool {
	return tool{
		name: "wrk", path: find("wrk"),
		command: func(r run, _ string) ([]string, string) {
			return []string{"-t1", "-c" + text(r.users), "-d" + text(r.seconds) + "s", r.url}, ""
		},
		read: func(out []byte, _ string) (outcome, error) {
			return outcome{requests: number(out, `(\d+) requests in`)}, nil
		},
	}
}

// h2load has a stream at a time of each connection, as a user of ours has.
func h2load() tool {
	return tool{
		name: "h2load", path: find("h2load"),
		command: func(r run, _ string) ([]string, string) {
			return []string{"-t1", "-m1", "-c" + text(r.users), "-D" + text(r.seconds), r.url}, ""
		},
		read: func(out []byte, _ string) (outcome, error) {
			return outcome{requests: number(out, `(\d+) succeeded`)}, nil
		},
	}
}

func hey() tool {
	return tool{
		name: "hey v0.1.5", path: find("hey"),
		command: func(r run, _ string) ([]string, string) {
			args := []string{"-c", text(r.users), "-z", text(r.seconds) + "s"}
			if r.rate > 0 {
				args = append(args, "-q", text(r.rate/r.users))
			}
			return append(args, r.url), ""
		},
		read: func(out []byte, _ string) (outcome, error) {
			return outcome{
				requests: number(out, `\[200\]\s+(\d+) responses`),
				p95:      number(out, `95%{1,2} in ([\d.]+) secs`), p99: number(out, `99%{1,2} in ([\d.]+) secs`),
			}, nil
		},
	}
}

// vegeta has as many workers as there are users, as its rate is 0, or bounded.
func vegeta() tool {
	t := tool{
		name: "vegeta v12.13.0", path: find("vegeta"),
		command: func(r run, dir string) ([]string, string) {
			return []string{
				"attack", "-rate=" + text(r.rate), "-duration=" + text(r.seconds) + "s", "-workers=" + text(r.users), "-max-workers=" + text(r.users),
				"-output=" + filepath.Join(dir, "vegeta.bin"),
			}, "GET " + r.url + "\n"
		},
	}
	t.read = func(_ []byte, dir string) (outcome, error) {
		// What it writes is read by another process: that is not the cost of a request.
		out, err := exec.Command(t.path, "report", "-type=json", filepath.Join(dir, "vegeta.bin")).Output()
		if err != nil {
			return outcome{}, err
		}
		var d struct {
			Requests  float64
			Latencies struct {
				P95 float64 `json:"95th"`
				P99 float64 `json:"99th"`
			}
		}
		if err := json.Unmarshal(out, &d); err != nil {
			return outcome{}, err
		}
		return outcome{requests: d.Requests, p95: d.Latencies.P95 / 1e9, p99: d.Latencies.P99 / 1e9}, nil
	}
	return t
}

// k6Script does what the scenario of skein does.
const k6Script = `import http from 'k6/http';
import { check } from 'k6';
export const options = { insecureSkipTLSVerify: true, summaryTrendStats: ['p(95)', 'p(99)'], scenarios: { main: %s } };
export default function () {
  const res = http.get('%s?n=' + Math.floor(Math.random() * 1000000));
  const answer = res.json();
  check(res, { status: r => r.status === 200, ok: () => answer.ok === true });
  const token = answer.token;
}
export function handleSummary(data) {
  const m = data.metrics;
  return { stdout: JSON.stringify({ requests: m.http_reqs.values.count, p95: m.http_req_duration.values['p(95)'], p99: m.http_req_duration.values['p(99)'] }) };
}
`

func k6() tool {
	return tool{
		name: "k6 v1.8.1", path: find("k6"),
		command: func(r run, dir string) ([]string, string) {
			how := fmt.Sprintf(`{ executor: 'constant-vus', vus: %d, duration: '%ds' }`, r.users, r.seconds)
			if r.rate > 0 {
				how = fmt.Sprintf(`{ executor: 'constant-arrival-rate', rate: %d, duration: '%ds', preAllocatedVUs: %d, maxVUs: %d }`, r.rate, r.seconds, r.users, r.users)
			}
			path := filepath.Join(dir, "k6.js")
			if err := os.WriteFile(path, fmt.Appendf(nil, k6Script, how, r.url), 0o600); err != nil {
				return []string{"the script could not be written"}, ""
			}
			return []string{"run", "--quiet", "--no-usage-report", path}, ""
		},
		read: func(out []byte, _ string) (outcome, error) {
			var d struct{ Requests, P95, P99 float64 }
			i := bytes.IndexByte(out, '{')
			if i < 0 {
				return outcome{}, errors.New("no summary")
			}
			if err := json.Unmarshal(out[i:], &d); err != nil {
				return outcome{}, err
			}
			return outcome{requests: d.Requests, p95: d.P95 / 1e3, p99: d.P99 / 1e3}, nil
		},
	}
}
