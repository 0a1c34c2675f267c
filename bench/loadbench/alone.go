package loadbench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/skein-project/skein/bench/suite"
)

// Alone measures what has no peer: how late requests begin, how exact percentiles are, what
// users take, and what the engine adds to its client.
func Alone(ctx context.Context, s *suite.Suite) error {
	skein, err := ours()
	if err != nil {
		return err
	}
	row := suite.Series{Name: "load: requests of a processor second, HTTP/1.1, beside its client alone", Unit: "1/s", With: "its client alone", Target: suite.Want("ratio", ">=", 0.8), Digest: suite.Median}
	if err := inTurn(ctx, s, skein, bare(skein.path), run{url: "/", users: users, seconds: seconds(s)}, func(us, them outcome) {
		row.Ours = append(row.Ours, us.requests/us.cpu.Seconds())
		row.Peer = append(row.Peer, them.requests/them.cpu.Seconds())
	}); err != nil {
		return err
	}
	s.Add(row)
	for _, kind := range []string{plain, secure} {
		row := suite.Series{Name: "load: memory of 1000 users, HTTP/1.1", Unit: "MB", Target: suite.Want("ours", "<=", 20), Digest: suite.Median}
		if kind == secure {
			row.Name, row.Target = row.Name+" over TLS", suite.Want("ours", "<=", 55)
		}
		for range s.Size.Rounds {
			few, err := alone(ctx, s, skein, run{kind: kind, url: "/", users: 1, seconds: seconds(s)})
			if err != nil {
				return err
			}
			all, err := alone(ctx, s, skein, run{kind: kind, url: "/", users: many, seconds: seconds(s)})
			if err != nil {
				return err
			}
			row.Ours = append(row.Ours, (all.rss-few.rss)/1e6)
		}
		s.Add(row)
	}
	for _, rate := range []int{1000, 20_000} {
		row := suite.Series{Name: fmt.Sprintf("load: lateness of a request, %d/s, p50", rate), Unit: "ms", Target: suite.Want("ours", "<=", 0.1), Digest: suite.Median}
		for range s.Size.Rounds {
			got, err := alone(ctx, s, skein, run{url: "/", users: many, rate: rate, seconds: seconds(s)})
			if err != nil {
				return err
			}
			row.Ours = append(row.Ours, got.late*1e3)
		}
		s.Add(row)
	}
	return lognormal(ctx, s, skein)
}

// lognormal compares what the client says with what the target itself measured.
func lognormal(ctx context.Context, s *suite.Suite, skein tool) error {
	var rows [3]suite.Series
	for i, p := range []string{"p50", "p95", "p99"} {
		rows[i] = suite.Series{Name: "load: delays around 20 ms, 500/s: " + p + " off that of the target", Unit: "%", Target: suite.Want("ours", "<=", 3), Digest: suite.Median}
	}
	for range s.Size.Rounds {
		at, err := startTarget(ctx, plain)
		if err != nil {
			return err
		}
		if err := func() error {
			defer at.close()
			got, err := skein.start(ctx, run{url: at.url + "/lognormal", users: many, rate: 500, seconds: 2 * seconds(s)}.sized(s), s.Dir)
			if err != nil {
				return err
			}
			truth, err := told[[3]float64](ctx, at.url+"/quantiles")
			if err != nil {
				return err
			}
			for i, x := range []float64{got.p50, got.p95, got.p99} {
				rows[i].Ours = append(rows[i].Ours, off(x, truth[i]))
			}
			return nil
		}(); err != nil {
			return err
		}
	}
	for _, r := range rows {
		s.Add(r)
	}
	return nil
}

// told is what the target tells at an URL.
func told[T any](ctx context.Context, url string) (out T, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return out, err
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return out, err
	}
	defer a.Body.Close()
	return out, json.NewDecoder(a.Body).Decode(&out)
}

// alone runs one client against a target of its own.
func alone(ctx context.Context, s *suite.Suite, t tool, r run) (outcome, error) {
	at, err := startTarget(ctx, cmp.Or(r.kind, plain))
	if err != nil {
		return outcome{}, err
	}
	defer at.close()
	if err := suite.Phase(ctx); err != nil {
		return outcome{}, err
	}
	r.url = at.url + r.url
	return t.start(ctx, r.sized(s), s.Dir)
}
