package engine

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/guard"
	"github.com/skein-project/skein/load/pace"
	"github.com/skein-project/skein/load/report"
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
			list, err := guard.ParseList(map[string]float64{"127.0.0.1:80": 0})
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
		list, err := guard.ParseList(map[string]float64{"x.example.org:80": 0})
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
		lo, _ := guard.ParseTarget("127.0.0.0/8:80", 5)
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
