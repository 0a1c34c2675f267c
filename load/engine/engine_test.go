package engine

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/internal/faketarget"
	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/guard"
	"github.com/skein-project/skein/load/report"
	"github.com/skein-project/skein/load/rule"
	"github.com/skein-project/skein/load/stat"
)

// scene is a target inside a bubble, and what runs against it.
type scene struct {
	last   *Engine
	target *faketarget.Target
	pipe   *faketarget.Pipe
	o      Options
}

// in runs f in a bubble with a target.
func in(t *testing.T, handler http.Handler, f func(t *testing.T, s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{target: faketarget.New(), pipe: faketarget.NewPipe()}
		if handler == nil {
			handler = s.target
		}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Hour}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = server.Serve(s.pipe)
		}()
		s.o = Options{
			Dial: s.pipe.Dial, PlainTime: true, Seed: 7,
			Lookup: func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
			},
		}
		f(t, s)
		_ = server.Close()
		<-done
	})
}

func planOf(t *testing.T, text string, in load.Inputs) *load.Plan {
	t.Helper()
	s, err := load.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Compile(in)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (s *scene) run(ctx context.Context, t *testing.T, text string) *report.Run {
	t.Helper()
	if s.o.Plan == nil {
		s.o.Plan = planOf(t, text, load.Inputs{})
	}
	rules, err := rule.Compile(s.o.Plan)
	if err != nil {
		t.Fatal(err)
	}
	s.o.Rules = rules
	e, err := New(s.o)
	if err != nil {
		t.Fatal(err)
	}
	s.last = e
	r, err := e.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	points := uint64(0)
	for _, p := range r.Timeline {
		points += p.Latency.N
	}
	both := stat.NewBank(len(s.o.Plan.Steps), len(s.o.Plan.Checks))
	both.Add(r.Whole)
	if r.Warmup > 0 {
		both.Add(r.Warm)
	}
	if n := both.All().Times[stat.Latency].N; n != points && s.o.Plan.Setup == nil {
		t.Errorf("the windows have %d latencies, the result %d", points, n)
	}
	return r
}

func quantiles(r *report.Run) (p50, p95, p99 float64) {
	h := &r.Whole.All().Times[stat.Latency]
	return h.Quantile(0.5), h.Quantile(0.95), h.Quantile(0.99)
}

func within(t *testing.T, what string, got, want, part float64) {
	t.Helper()
	if got < want*(1-part) || got > want*(1+part) {
		t.Errorf("%s is %.4g, want %.4g within %g %%", what, got, want, part*100)
	}
}

// A target that stands still for a second shows in full, however few users there are:
// what arrives meanwhile waits while its clock runs.
func TestFrozenTargetShowsInFull(t *testing.T) {
	in(t, nil, func(t *testing.T, s *scene) {
		r := s.run(t.Context(), t, `
traffic.main = { flow = "f", rate = 1000, for = "10s", max_users = 50 }
[[flow.f]]
get = "http://target.test/freeze"`)
		_, p95, p99 := quantiles(r)
		within(t, "p95", p95, 0.5, 0.05)
		within(t, "p99", p99, 0.9, 0.05)
		all := r.Whole.All()
		if n := all.Classes[load.OK]; n != 10_000 || all.Count() != n || s.target.Count("/freeze") != n {
			t.Errorf("%d ok of %d, the target got %d", n, all.Count(), s.target.Count("/freeze"))
		}
		if r.Length != 10*time.Second || r.Verdict != rule.Passed {
			t.Errorf("%s of %s: %q", r.Verdict, r.Length, r.Why)
		}
		if own := r.Whole.OwnLate; own.Max() > 0.001 || own.N == 0 {
			t.Errorf("the generator was %g s late by its own account", own.Max())
		}
	})
}

// What no user can take for 10 s is dropped, and counted.
func TestOverloadDrops(t *testing.T) {
	in(t, nil, func(t *testing.T, s *scene) {
		r := s.run(t.Context(), t, `
grace = "5s"
traffic.main = { flow = "f", rate = 100, for = "30s", max_users = 10 }
[[flow.f]]
get = "http://target.test/delay?ms=200"`)
		all := r.Whole.All()
		// 50/s get through; the queue has 10 s of arrivals, so what waits longest waits 20 s.
		ok, dropped := all.Classes[load.OK], all.Classes[load.Dropped]
		if ok+dropped+all.Classes[load.Interrupted] != 3000 || dropped < 200 || ok < 1700 || ok > 1760 {
			t.Errorf("%d ok, %d dropped, %d interrupted of 3000", ok, dropped, all.Classes[load.Interrupted])
		}
		if got := s.target.Count("/delay"); got > ok+10 {
			t.Errorf("the target got %d, %d are ok", got, ok)
		}
	})
}

// Closed users begin again, think, and leave; those that ramp down end what they do.
func TestClosedTraffic(t *testing.T) {
	in(t, nil, func(t *testing.T, s *scene) {
		r := s.run(t.Context(), t, `
[traffic.main]
flow = "f"
users = [{ to = 10, over = "10s" }, { hold = "10s" }, { to = 0, over = "10s" }]
think = "90ms"
[[flow.f]]
get = "http://target.test/delay?ms=10"
check = ["status == 200", "json('$.total') == 2"]`)
		all := r.Whole.All()
		within(t, "requests", float64(all.Classes[load.OK]), 2000, 0.02)
		if all.Failed() != 0 || r.Peak.Users != 10 || r.Whole.Checks[1].Passed != all.Classes[load.OK] {
			t.Errorf("%d failed, %d users, checks %v", all.Failed(), r.Peak.Users, r.Whole.Checks)
		}
		if r.Whole.Iterations != all.Count() {
			t.Errorf("%d iterations of %d requests", r.Whole.Iterations, all.Count())
		}
	})
}

// A paced user that is held up keeps its appointments: the wait counts.
func TestPacedUsersHaveAppointments(t *testing.T) {
	in(t, nil, func(t *testing.T, s *scene) {
		r := s.run(t.Context(), t, `
traffic.main = { flow = "f", users = 10, for = "10s", pace = "100ms" }
[[flow.f]]
get = "http://target.test/freeze"`)
		all := r.Whole.All()
		within(t, "requests", float64(all.Count()), 1000, 0.02)
		within(t, "p99", all.Times[stat.Latency].Quantile(0.99), 0.9, 0.06)
		if s := all.Times[stat.Service]; s.Quantile(0.95) > 0.01 {
			t.Error("service has what latency is about")
		}
	})
}

// A flow: what a step extracts the next one uses, rows are dealt, cookies stay.
func TestFlow(t *testing.T) {
	in(t, nil, func(t *testing.T, s *scene) {
		rows, err := load.ParseRows("users.csv", []byte("name\nann\nbob\n\"c\"\"d\"\n"))
		if err != nil {
			t.Fatal(err)
		}
		s.o.Plan = planOf(t, flowText, load.Inputs{Rows: map[string]*load.Rows{"users": rows}})
		r := s.run(t.Context(), t, "")
		for i, st := range s.o.Plan.Steps {
			want := uint64(3)
			if st.Name == "moved" {
				want = 9 // each hop is a request
			}
			if c := r.Whole.Series[i].Classes; c[load.OK] != want || r.Whole.Series[i].Count() != want {
				t.Errorf("%s: %v %q", st.Name, c, r.Errors)
			}
		}
		if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "rows were used up") {
			t.Errorf("notes: %q", r.Notes)
		}
	})
}

const flowText = `
vars = { base = "http://target.test" }
data.users = { file = "users.csv", pick = "unique" }
traffic.main = { flow = "f", rate = 10, for = "1s" }
[[flow.f]]
name = "login"
post = "${base}/login"
json = { user = "${users.name}" }
extract.token = { json = "$.token" }
check = "status == 200"
[[flow.f]]
name = "pay"
get = "${base}/pay?n=${uuid()}"
auth = { bearer = "${token}" }
[[flow.f]]
name = "cookie"
get = "${base}/cookie"
[[flow.f]]
name = "again"
get = "${base}/cookie"
check = "json('$.seen') == true"
[[flow.f]]
name = "moved"
get = "${base}/redirect?n=2"
redirects = 2
check = "status == 200"
[[flow.f]]
name = "packed"
get = "${base}/gzip"
check = "json('$.items[1].name') == 'thread'"`

// Steps that wait for none run at a time; what comes after a failure is skipped.
func TestGraph(t *testing.T) {
	in(t, nil, func(t *testing.T, s *scene) {
		r := s.run(t.Context(), t, `
traffic.main = { flow = "f", rate = 1, for = "3s" }
[[flow.f]]
name = "a"
get = "http://target.test/delay?ms=200"
[[flow.f]]
name = "b"
get = "http://target.test/status?code=503"
[[flow.f]]
name = "c"
after = ["a"]
get = "http://target.test/delay?ms=100"
[[flow.f]]
name = "d"
after = ["a", "b"]
get = "http://target.test/"
[[flow.f]]
name = "e"
after = ["d"]
get = "http://target.test/"`)
		for i, want := range []load.Class{load.OK, load.HTTP5xx, load.OK, load.Skipped, load.Skipped} {
			if c := r.Whole.Series[i].Classes; c[want] != 3 {
				t.Errorf("step %s: %v", s.o.Plan.Steps[i].Name, c)
			}
		}
	})
}

// Setup runs once, before all; what it extracts everybody has.
func TestSetup(t *testing.T) {
	in(t, nil, func(t *testing.T, s *scene) {
		s.run(t.Context(), t, `
traffic.main = { flow = "f", users = 3, for = "1s", think = "100ms" }
[[flow.setup]]
post = "http://target.test/login"
json = { user = "root" }
extract.key = { json = "$.token" }
[[flow.f]]
get = "http://target.test/pay"
auth = { bearer = "${key}" }
check = "status == 200"
[[flow.teardown]]
name = "end"
get = "http://target.test/echo"`)
		if s.target.Count("/login") != 1 || s.target.Count("/echo") != 1 || s.target.Count("/pay") < 27 {
			t.Errorf("login %d, end %d, pay %d", s.target.Count("/login"), s.target.Count("/echo"), s.target.Count("/pay"))
		}
	})
}

// A token of OAuth is got once, and sent with each request.
func TestOAuth(t *testing.T) {
	var tokens, asked atomic.Int64
	in(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		switch {
		case r.URL.Path == "/token" && user == "load" && password == "word" && r.FormValue("grant_type") == "client_credentials":
			tokens.Add(1)
			_, _ = w.Write([]byte(`{"access_token":"t-7","token_type":"Bearer","expires_in":3600}`))
		case r.Header.Get("Authorization") == "Bearer t-7":
			asked.Add(1)
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}), func(t *testing.T, s *scene) {
		r := s.run(t.Context(), t, `
traffic.main = { flow = "f", users = 3, for = "1s", think = "100ms" }
[[flow.f]]
get = "http://target.test/api"
auth.oauth2 = { url = "http://login.test/token", client_id = "load", client_secret = "word" }`)
		if all := r.Whole.All(); tokens.Load() != 1 || asked.Load() < 27 || all.Failed() != 0 || all.Count() != uint64(asked.Load()) {
			t.Errorf("%d tokens, %d requests with it, %v %q", tokens.Load(), asked.Load(), all.Classes, r.Errors)
		}
	})
}

// The warm-up is apart; a threshold ends a run; a stop is no failure; grace is the
// end of everything.
func TestEnds(t *testing.T) {
	traffic := `traffic.main = { flow = "f", rate = 100, for = "60s" }
`
	t.Run("warm-up", func(t *testing.T) {
		in(t, nil, func(t *testing.T, s *scene) {
			r := s.run(t.Context(), t, `warmup = "5s"
traffic.main = { flow = "f", rate = 100, for = "20s" }
[[flow.f]]
get = "http://target.test/"`)
			if w, m := r.Warm.All().Count(), r.Whole.All().Count(); w+m != 2000 || w < 495 || w > 505 || r.Length != 15*time.Second {
				t.Errorf("%d and %d requests, %s", w, m, r.Length)
			}
		})
	})
	t.Run("threshold", func(t *testing.T) {
		in(t, nil, func(t *testing.T, s *scene) {
			r := s.run(t.Context(), t, traffic+`thresholds = [{ when = "rate(failed)<0.1", window = "2s", abort = true }]
[[flow.f]]
get = "http://target.test/status?code=404"`)
			if r.Verdict != rule.Aborted || r.Whole.All().Count() > 210 || r.Whole.All().Classes[load.HTTP4xx] < 190 {
				t.Errorf("%s after %d requests: %q", r.Verdict, r.Whole.All().Count(), r.Why)
			}
		})
	})
	t.Run("harm", func(t *testing.T) {
		in(t, nil, func(t *testing.T, s *scene) {
			r := s.run(t.Context(), t, traffic+`[[flow.f]]
get = "http://target.test/status?code=503"`)
			if n := r.Whole.All().Count(); r.Verdict != rule.Aborted || n < 2990 || n > 3020 || !strings.Contains(r.Why[0], "breaks") {
				t.Errorf("%s after %d requests: %q", r.Verdict, n, r.Why)
			}
		})
	})
	t.Run("the target says so", func(t *testing.T) {
		in(t, nil, func(t *testing.T, s *scene) {
			r := s.run(t.Context(), t, traffic+`[[flow.f]]
get = "http://target.test/stop"`)
			if r.Verdict != rule.Aborted || s.target.Count("/stop") > 3 {
				t.Errorf("%s after %d requests: %q", r.Verdict, s.target.Count("/stop"), r.Why)
			}
		})
	})
	t.Run("the target says so and leads elsewhere", func(t *testing.T) {
		var stops, elsewhere atomic.Uint64
		in(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/stop" {
				elsewhere.Add(1)
				return
			}
			stops.Add(1)
			w.Header().Set("Skein-Load", "stop")
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}), func(t *testing.T, s *scene) {
			r := s.run(t.Context(), t, traffic+`[[flow.f]]
get = "http://target.test/stop"
redirects = 3`)
			if r.Verdict != rule.Aborted || stops.Load() > 3 || elsewhere.Load() != 0 {
				t.Errorf("%s after %d requests, %d elsewhere: %q", r.Verdict, stops.Load(), elsewhere.Load(), r.Why)
			}
		})
	})
	t.Run("stopped", func(t *testing.T) {
		in(t, nil, func(t *testing.T, s *scene) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			begin := time.Now()
			r := s.run(ctx, t, traffic+`[[flow.f]]
get = "http://target.test/delay?ms=60000"`)
			if r.Verdict != rule.Stopped || time.Since(begin) > 13*time.Second || r.Whole.All().Classes[load.Interrupted] != 1000 {
				t.Errorf("%s after %s: %v", r.Verdict, time.Since(begin), r.Whole.All().Classes)
			}
		})
	})
	t.Run("grace", func(t *testing.T) {
		in(t, nil, func(t *testing.T, s *scene) {
			begin := time.Now()
			r := s.run(t.Context(), t, `grace = "3s"
traffic.main = { flow = "f", users = 5, for = "2s" }
[[flow.f]]
get = "http://target.test/delay?ms=20000"`)
			if took := time.Since(begin); took < 5*time.Second || took > 5200*time.Millisecond || r.Whole.All().Classes[load.Interrupted] != 5 {
				t.Errorf("after %s: %v", took, r.Whole.All().Classes)
			}
		})
	})
	t.Run("timeout", func(t *testing.T) {
		in(t, nil, func(t *testing.T, s *scene) {
			r := s.run(t.Context(), t, `traffic.main = { flow = "f", users = 1, for = "2s" }
[[flow.f]]
get = "http://target.test/delay?ms=20000"
timeout = "500ms"`)
			if c := r.Whole.All().Classes; c[load.Timeout] < 4 || r.Whole.All().Count() > 5 {
				t.Errorf("%v", c)
			}
		})
	})
}

// Nothing is sent to what the guard refuses, however it is reached.
func TestGuard(t *testing.T) {
	for _, addr := range []string{"169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "0.0.0.0"} {
		p := planOf(t, `traffic.main = { flow = "f", users = 1, for = "1s" }
[[flow.f]]
get = "http://`+addr+`/"`, load.Inputs{})
		var refused *RefusedError
		if _, err := New(Options{Plan: p}); !errors.As(err, &refused) {
			t.Errorf("%s: %v", addr, err)
		}
	}
	// A name that resolves there, at first or later, and a redirect.
	to := func(addrs ...string) func(context.Context, string) ([]netip.Addr, error) {
		return func(context.Context, string) (out []netip.Addr, err error) {
			for _, a := range addrs {
				out = append(out, netip.MustParseAddr(a))
			}
			return out, nil
		}
	}
	in(t, nil, func(t *testing.T, s *scene) {
		s.o.Lookup = to("169.254.169.254")
		r := s.run(t.Context(), t, `traffic.main = { flow = "f", rate = 100, for = "10s" }
[[flow.f]]
get = "http://metadata.test/"`)
		if got := s.last.Blocked(); len(got) != 1 || got[guard.Metadata] != r.Whole.All().Classes[load.Blocked] {
			t.Errorf("blocked: %v", got)
		}
		if c := r.Whole.All().Classes; r.Verdict != rule.Aborted || c[load.Blocked] < 100 || c[load.Blocked] > 102 || s.target.Count("/") != 0 {
			t.Errorf("%s: %v", r.Verdict, c)
		}
	})
	in(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/secret", http.StatusFound)
	}), func(t *testing.T, s *scene) {
		dials := 0
		dial := s.o.Dial
		s.o.Dial = func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
			dials++
			if a.Addr() != netip.MustParseAddr("127.0.0.1") {
				t.Errorf("dials %s", a)
			}
			return dial(ctx, a)
		}
		r := s.run(t.Context(), t, `traffic.main = { flow = "f", users = 1, for = "1s", think = "100ms" }
[[flow.f]]
get = "http://target.test/"
redirects = 3`)
		if c := r.Whole.All().Classes; c[load.Blocked] == 0 || dials == 0 {
			t.Errorf("%v after %d dials", c, dials)
		}
	})
	// A name that is bound to another address later gains nothing, whoever keeps connections.
	for _, connections := range []string{"user", "request", "shared"} {
		in(t, nil, func(t *testing.T, s *scene) {
			began := time.Now()
			s.o.Lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
				if time.Since(began) > 45*time.Second {
					return to("169.254.169.254")(ctx, name)
				}
				return to("127.0.0.1")(ctx, name)
			}
			dial := s.o.Dial
			s.o.Dial = func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
				if !a.Addr().IsLoopback() {
					t.Errorf("dials %s", a)
				}
				return dial(ctx, a)
			}
			r := s.run(t.Context(), t, `http.connections = "`+connections+`"
traffic.main = { flow = "f", users = 1, start = "500ms", for = "90s", pace = "1s" }
[[flow.f]]
get = "http://rebound.test/"`)
			if c := r.Whole.All().Classes; c[load.OK] != 60 || c[load.Blocked] < 30 || c[load.Blocked] > 31 || s.target.Count("/") != 60 {
				t.Errorf("%s: %v, the target had %d", connections, c, s.target.Count("/"))
			}
		})
	}
	// The internet gets no more than it may.
	in(t, nil, func(t *testing.T, s *scene) {
		s.o.Lookup = to("203.0.113.7")
		s.o.Plan = planOf(t, `traffic.main = { flow = "f", rate = 1001, for = "1s" }
[[flow.f]]
get = "http://public.test/"`, load.Inputs{})
		e, err := New(s.o)
		if err != nil {
			t.Fatal(err)
		}
		var refused *RefusedError
		if _, err := e.Run(t.Context()); !errors.As(err, &refused) || s.target.Count("/") != 0 {
			t.Errorf("1001/s: %v", err)
		}
	})
	in(t, nil, func(t *testing.T, s *scene) {
		s.o.Lookup, s.o.PublicRate = to("203.0.113.7"), 100
		r := s.run(t.Context(), t, `traffic.main = { flow = "f", users = 5, for = "5s" }
[[flow.f]]
get = "http://public.test/"`)
		if n := s.target.Count("/"); n > 520 || n < 480 || r.Verdict != rule.Suspect {
			t.Errorf("%d requests in 5 s of 100/s, %s %q", n, r.Verdict, r.Why)
		}
	})
}
