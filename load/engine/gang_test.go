package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/guard"
	"github.com/skein-project/skein/load/pace"
	"github.com/skein-project/skein/load/reach"
	"github.com/skein-project/skein/load/report"
	"github.com/skein-project/skein/load/rule"
	"github.com/skein-project/skein/load/stat"
)

// TestSlices: three slices do what one generator would: each arrival and each row once,
// beginning at one instant; setup goes through once; the frames are the whole.
func TestSlices(t *testing.T) {
	var mu sync.Mutex
	rows := map[string]int{}
	setups := 0
	in(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/setup" {
			setups++
			_, _ = w.Write([]byte(`{"t":"7"}`))
			return
		}
		rows[r.URL.Path]++
	}), func(t *testing.T, s *scene) {
		text := `
warmup = "500ms"
data.users = { file = "u.csv", pick = "unique" }
traffic.open = { flow = "main", rate = 30, for = "4s", arrivals = "poisson" }
traffic.closed = { flow = "main", users = 4, for = "4s", think = "1s" }
[[flow.setup]]
get = "http://127.0.0.1/setup"
extract.t = { json = "$.t" }
[[flow.main]]
get = "http://127.0.0.1/${users.name}/${t}"
`
		all := "name\n"
		for i := range 1000 {
			all += "u" + string(rune('a'+i/100)) + string(rune('a'+i/10%10)) + string(rune('a'+i%10)) + "\n"
		}
		shares := []int{1, 2, 1}
		start := make(chan [][]byte, 1)
		began := time.Now().Add(5 * time.Second)
		var wait sync.WaitGroup
		sum, warm := stat.NewBank(2, 0), stat.NewBank(2, 0)
		runs := make([]*report.Run, len(shares))
		for i := range shares {
			r, err := load.ParseRows("u.csv", []byte(all))
			if err != nil {
				t.Fatal(err)
			}
			o := s.o
			o.Plan = planOf(t, text, load.Inputs{Rows: map[string]*load.Rows{"users": r}})
			list, err := guard.ParseList(map[string]guard.Limits{"127.0.0.1:80": {}})
			if err != nil {
				t.Fatal(err)
			}
			o.Gang = Gang{Deal: pace.NewDeal(shares, i), Rest: i > 0, Listed: true, List: list}
			next := uint64(0)
			o.Emit = func(f stat.Frame) {
				mu.Lock()
				defer mu.Unlock()
				b, err := stat.ReadBank(f.Bank, 2, 0)
				if err != nil || f.First != next {
					t.Errorf("frame %d where %d is next: %v", f.First, next, err)
					return
				}
				next = f.Last + 1
				if f.Warm {
					warm.Add(b)
				} else {
					sum.Add(b)
				}
			}
			o.Start = func(_ context.Context, extracted [][]byte) (time.Time, [][]byte, error) {
				if i == 0 {
					start <- extracted
					start <- extracted
					return began, nil, nil
				}
				return began, <-start, nil
			}
			e, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			wait.Go(func() {
				r, err := e.Run(t.Context())
				if err != nil {
					t.Error(err)
				}
				runs[i] = r
			})
		}
		wait.Wait()
		requests := uint64(0)
		for _, r := range runs {
			if r == nil || !r.Started.Equal(began) {
				t.Fatal("they do not begin together")
			}
			requests += r.Whole.All().Sent() + r.Warm.All().Sent()
		}
		if n := sum.All().Sent() + warm.All().Sent(); n != requests || uint64(len(rows)+setups) != requests || setups != 1 {
			t.Errorf("frames have %d requests, results %d, the target had %d rows and %d setups", n, requests, len(rows), setups)
		}
		for path, n := range rows {
			if n > 1 || !strings.HasSuffix(path, "/7") {
				t.Errorf("%s %d times", path, n)
			}
		}
	})
}

// TestListed: what the host's list does not allow is not dialled.
func TestListed(t *testing.T) {
	in(t, nil, func(t *testing.T, s *scene) {
		list, err := guard.ParseList(map[string]guard.Limits{"x.example.org:80": {}})
		if err != nil {
			t.Fatal(err)
		}
		var last *Engine
		run := func(url string) (*report.Run, error) {
			o := s.o
			text := "vars = { at = \"" + url + "\" }\ntraffic.main = { flow = \"main\", users = 1, for = \"2s\", think = \"100ms\" }\n[[flow.main]]\nget = \"${at}/\"\n"
			if strings.Contains(url, "${") {
				text = strings.NewReplacer(url, "", "${at}", url).Replace(text)
			}
			o.Plan = planOf(t, text, load.Inputs{})
			o.Gang = Gang{Listed: true, List: list}
			e, err := New(o)
			if err != nil {
				return nil, err
			}
			last = e
			return e.Run(t.Context())
		}
		var refused *RefusedError
		if _, err := run("http://127.0.0.1"); !errors.As(err, &refused) {
			t.Errorf("an address without an entry: %v", err)
		}
		r, err := run("http://x.example.org") // which is 127.0.0.1
		if err != nil {
			t.Fatal(err)
		}
		if got := last.Blocked(); len(got) != 1 || got[guard.Unlisted] != r.Whole.All().Classes[load.Blocked] {
			t.Errorf("blocked: %v", got)
		}
		if all := r.Whole.All(); all.Classes[load.Blocked] == 0 || all.Classes[load.Blocked] != all.Count() || s.target.Count("/") != 0 {
			t.Errorf("%v, the target had %d", all.Classes, s.target.Count("/"))
		}
		lookup, asked := s.o.Lookup, ""
		s.o.Lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
			asked += name + " "
			return lookup(ctx, name)
		}
		r, err = run("http://secret${random(1, 9)}.elsewhere.test") // whose servers would hear of it
		if err != nil {
			t.Fatal(err)
		}
		if all := r.Whole.All(); all.Classes[load.Blocked] == 0 || all.Classes[load.Blocked] != all.Count() || last.Blocked()[guard.Unlisted] != all.Count() || asked != "" {
			t.Errorf("%v, blocked %v, asked for the addresses of %q", all.Classes, last.Blocked(), asked)
		}
		lo, _ := guard.ParseTarget("127.0.0.0/8:80", guard.Limits{Rate: 5})
		list = guard.List{lo}
		r, err = run("http://127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		if n := r.Whole.All().Sent(); n > 14 || n < 5 || r.Self.Slowed == "" {
			t.Errorf("%d requests in 2 s, 5 a second are allowed; %q", n, r.Self.Slowed)
		}
		r, err = run("http://127.0.0.${random(1, 200)}") // all of one entry
		if err != nil {
			t.Fatal(err)
		}
		if n := r.Whole.All().Sent(); n > 14 || n < 5 || r.Self.Slowed == "" {
			t.Errorf("%d requests in 2 s to many addresses, 5 a second are allowed; %q", n, r.Self.Slowed)
		}
	})
}

// TestLimits: what the list of a host allows is all that a target gets, whatever is planned.
func TestLimits(t *testing.T) {
	const closed = "traffic.main = { flow = \"main\", users = 20, for = \"4s\" }\n[[flow.main]]\nget = \"http://127.0.0.1/\"\n"
	const open = "traffic.main = { flow = \"main\", rate = 200, for = \"4s\" }\n[[flow.main]]\nget = \"http://127.0.0.1/\"\n"
	slowed := func(t *testing.T, r *report.Run) {
		t.Helper()
		if r.Self.Slowed == "" || r.Verdict != rule.Suspect {
			t.Errorf("%s %v, slowed %q: nobody is told", r.Verdict, r.Doubts, r.Self.Slowed)
		}
	}
	run := func(t *testing.T, s *scene, text string, l guard.Limits, g Gang) *report.Run {
		t.Helper()
		list, err := guard.ParseList(map[string]guard.Limits{"127.0.0.1:80": l})
		if err != nil {
			t.Fatal(err)
		}
		g.Listed, g.List = true, list
		s.o.Gang, s.o.Plan = g, planOf(t, text, load.Inputs{})
		return s.run(t.Context(), t, text)
	}
	for _, text := range []string{closed, open} {
		in(t, nil, func(t *testing.T, s *scene) { // 10 a second at first, 50 in the end: 120, and what waits then
			r := run(t, s, text, guard.Limits{Ramp: 10}, Gang{})
			seconds := map[int]uint64{}
			for _, p := range r.Timeline {
				seconds[int((p.At-1)/time.Second)] += p.Latency.N
			}
			if n := s.target.Count("/"); text == closed && n > 150 || n < 100 || seconds[0] > 18 { // what is due waits, and is sent later
				t.Errorf("ramp 10: %d requests in 4 s, by second %v", n, seconds)
			}
			slowed(t, r)
		})
	}
	var sent, now, most atomic.Uint64
	slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		sent.Add(1)
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(^uint64(0))
		time.Sleep(100 * time.Millisecond)
	})
	in(t, slow, func(t *testing.T, s *scene) { // 20 users share 3 connections, 10 requests a second each
		s.o.Plan = nil
		r := run(t, s, "http.connections = \"request\"\n"+closed, guard.Limits{Connections: 3}, Gang{})
		if n := sent.Swap(0); n < 100 || most.Load() != 3 {
			t.Errorf("3 connections: %d requests in 4 s, %d at a time", n, most.Load())
		}
		slowed(t, r)
	})
	for _, text := range []string{closed, open} {
		in(t, slow, func(t *testing.T, s *scene) {
			r := run(t, s, text, guard.Limits{}, Gang{MaxUsers: 4})
			if n := sent.Swap(0); text == closed && (n > 165 || n < 120) || r.Peak.Users > 4 {
				t.Errorf("4 users: %d requests in 4 s, %d users", n, r.Peak.Users)
			}
			slowed(t, r)
		})
	}
}

// TestProof: a target that must show that it is meant gets one request, and no more before it
// has.
func TestProof(t *testing.T) {
	for answer, want := range map[string]string{"c1\n": "", "c2": `it is "c2"`, "": "it is", "-": "the status is 404"} {
		var asked, hits atomic.Uint64
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != reach.ProofPath {
				hits.Add(1)
				return
			}
			asked.Add(1)
			if answer == "-" {
				w.WriteHeader(http.StatusNotFound)
			}
			fmt.Fprint(w, answer)
		})
		in(t, h, func(t *testing.T, s *scene) {
			list, err := guard.ParseList(map[string]guard.Limits{"127.0.0.0/8:80": {Proof: true}})
			if err != nil {
				t.Fatal(err)
			}
			for _, url := range []string{"http://127.0.0.1/x", "http://127.0.0.${random(2, 3)}/x"} {
				asked.Store(0)
				hits.Store(0)
				s.o.Plan = planOf(t, "traffic.main = { flow = \"main\", users = 2, for = \"1s\", think = \"100ms\" }\n[[flow.main]]\nget = \""+url+"\"\n", load.Inputs{})
				s.o.Gang = Gang{Listed: true, List: list, Proof: "c1"}
				e, err := New(s.o)
				if err != nil {
					t.Fatal(err)
				}
				r, err := e.Run(t.Context())
				sent := hits.Load()
				switch refused := (*RefusedError)(nil); {
				case want == "":
					if err != nil || sent == 0 || asked.Load() > 2 {
						t.Errorf("%s: %v, %d requests, asked %d times", url, err, sent, asked.Load())
					}
				case sent != 0:
					t.Errorf("%s, %q: %d requests", url, answer, sent)
				case err != nil && (!errors.As(err, &refused) || !strings.Contains(err.Error(), want)):
					t.Errorf("%s, %q: %v, want %q", url, answer, err, want)
				case err == nil && (r.Whole.All().Classes[load.Blocked] == 0 || e.Blocked()[guard.Unproven] == 0):
					t.Errorf("%s, %q: %v, blocked %v", url, answer, r.Whole.All().Classes, e.Blocked())
				}
			}
		})
	}
}

// TestRedeal: when a slice is lost, the others together do from a time on all that one
// generator would, neither less nor twice.
func TestRedeal(t *testing.T) {
	const from = 5 * time.Second
	for arrivals, of := range map[string][]int{"even": {1, 2}, "poisson": {1, 2}, "even, a part is nobody's": {1, 2, 1}} {
		var mu sync.Mutex
		var sent []time.Time
		h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, time.Now())
		})
		in(t, h, func(t *testing.T, s *scene) {
			text := "traffic.open = { flow = \"main\", rate = 30, for = \"10s\", arrivals = \"" + strings.Split(arrivals, ",")[0] + "\", max_users = 40 }\n[[flow.main]]\nget = \"http://127.0.0.1/\"\n"
			began := time.Now().Add(time.Second)
			shares := []int{1, 2, 1}
			engines := make([]*Engine, len(shares))
			ctx, lose := context.WithCancel(t.Context())
			var wait sync.WaitGroup
			for i := range shares {
				o := s.o
				o.Plan = planOf(t, text, load.Inputs{})
				o.Gang = Gang{Deal: pace.NewDeal(shares, i), Start: func(context.Context, [][]byte) (time.Time, [][]byte, error) { return began, nil, nil }}
				e, err := New(o)
				if err != nil {
					t.Fatal(err)
				}
				engines[i] = e
				mine := t.Context()
				if i == 2 {
					mine = ctx
				}
				wait.Go(func() {
					if _, err := e.Run(mine); err != nil {
						t.Error(err)
					}
				})
			}
			time.Sleep(3 * time.Second)
			lose()
			for i := range 2 {
				engines[i].Redeal(from, pace.NewDeal(of, i))
			}
			wait.Wait()
			want, n := 0, 0
			next := engines[0].traffics[0].sequence(from, pace.Deal{})
			for at, ok := next(); ok; at, ok = next() {
				if at < from {
					t.Errorf("%s is before its time", at)
				}
				want++
			}
			for _, at := range sent {
				if !at.Before(began.Add(from)) {
					n++
				}
			}
			if len(of) == 3 {
				want = want * 3 / 4
			}
			if n < want-1 || n > want+1 || len(of) == 2 && n != want || want < 100 {
				t.Errorf("%s: %d requests from then on, want %d", arrivals, n, want)
			}
		})
	}
}

// TestRedealOfLateGenerator: what is due behind the time of a redeal is sent however late the
// generator is then; only what was due before it was told is the deal's of before.
func TestRedealOfLateGenerator(t *testing.T) {
	plan := planOf(t, "traffic.open = { flow = \"main\", rate = 30, for = \"10s\" }\n[[flow.main]]\nget = \"http://127.0.0.1/\"\n", load.Inputs{})
	for told, want := range map[time.Duration]int{
		2 * time.Second: 150/3 + 150/2,
		5 * time.Second: 150/3 + 150/2,
		7 * time.Second: 210/3 + 90/2,
	} {
		got := 0
		for i := range 2 {
			e, err := New(Options{Plan: plan, Gang: Gang{Deal: pace.NewDeal([]int{1, 1, 1}, i)}})
			if err != nil {
				t.Fatal(err)
			}
			e.began = time.Now().Add(-time.Minute) // all is due long since
			e.redealt.Store(&redeal{5 * time.Second, e.began.Add(told), pace.NewDeal([]int{1, 1}, i), nil})
			tr := e.traffics[0]
			next := due{t: tr, next: tr.sequence(0, e.o.Deal)}
			for _, ok := next.wait(func(time.Time) bool { return true }); ok; _, ok = next.wait(func(time.Time) bool { return true }) {
				got++
			}
			if late := strings.Join(e.notes, ""); (told > 5*time.Second) != strings.Contains(late, "2s too late") {
				t.Errorf("told at %s: %q", told, late)
			}
		}
		if got != 2*want {
			t.Errorf("told at %s: %d arrivals of both, want %d", told, got, 2*want)
		}
	}
}
