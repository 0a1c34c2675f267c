package loadbench

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/bench/testbed"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/load/bundle"
	"github.com/skein-project/skein/load/report"
)

const (
	five = 5 // hosts
	// startsEach is how many tests begin in a round: of percentiles of one a round there is none.
	startsEach = 8
	// lagRate is that of the test that is followed, requests a second.
	lagRate = 500
)

// Gang measures tests on five daemons: how far apart their first requests come, and how far behind
// its end a follower hears of a window.
func Gang(ctx context.Context, s *suite.Suite) error {
	at, err := startTarget(ctx, plain)
	if err != nil {
		return err
	}
	defer at.close()
	ds, err := testbed.NewDaemons(ctx, s, five, "SKEIN_LOAD_ENABLED=true", "SKEIN_LOAD_OWNERS=*", "SKEIN_LOAD_TARGETS="+strings.TrimPrefix(at.url, "http://")+"=0")
	if err != nil {
		return err
	}
	defer ds.Close() //nolint:errcheck // what they leave is in a temporary directory
	asked := ds.Hosts[five-1].API
	var apart, lags []float64
	for round := range s.Size.Rounds {
		for range startsEach {
			if err := suite.Phase(ctx); err != nil {
				return err
			}
			x, err := start(ctx, asked, at.url)
			if err != nil {
				return err
			}
			apart = append(apart, x.Seconds*1e3)
		}
		more, err := lag(ctx, asked, at.url, 4*seconds(s))
		if err != nil {
			return err
		}
		lags = append(lags, more...)
		s.Progress("round %d: first requests %.3g ms apart, windows heard %.4g ms behind their end (medians)", round+1, suite.Median(apart), suite.Median(lags))
	}
	const spread, behind = "load: first requests of five hosts, apart", "load: a window of five hosts, heard by a follower behind its end"
	s.Add(suite.Series{Name: spread + ", p50", Unit: "ms", Digest: suite.Median, Ours: apart})
	s.Add(suite.Series{Name: spread + ", p99", Unit: "ms", Target: suite.Want("ours", "<=", 5), Digest: suite.P99, Ours: apart})
	s.Add(suite.Series{Name: behind + ", p50", Unit: "ms", Digest: suite.Median, Ours: lags})
	s.Add(suite.Series{Name: behind + ", p99", Unit: "ms", Target: suite.Want("ours", "<=", 1500), Digest: suite.P99, Ours: lags})
	return nil
}

// submit has a scenario run on all hosts.
func submit(ctx context.Context, c *api.Client, scenario string) (string, error) {
	text, err := (&bundle.Bundle{Scenario: scenario}).Encode()
	if err != nil {
		return "", err
	}
	art, err := c.PutArtefact(ctx, bytes.NewReader(text))
	if err != nil {
		return "", err
	}
	out, err := c.SubmitLoad(ctx, api.LoadRequest{Key: rand.Text(), Bundle: art.Hash, Hosts: five})
	return string(out.Run), err
}

// follow tells what is heard of a test, to its end.
func follow(ctx context.Context, c *api.Client, id string, heard func(api.LoadLive)) error {
	return c.FollowLoad(ctx, id, api.FollowOptions{Retry: func(err error) error { return err }}, func(x api.LoadLive) error {
		heard(x)
		return nil
	})
}

// start has each host send one request, at the start, and says how far apart they came.
func start(ctx context.Context, c *api.Client, url string) (x spread, err error) {
	id, err := submit(ctx, c, fmt.Sprintf("grace = \"1s\"\ntraffic.main = { flow = \"f\", users = %d, for = \"1s\", think = \"5s\" }\n[[flow.f]]\nget = \"%s/first\"\n", five, url))
	if err != nil {
		return x, err
	}
	var end api.LoadLive
	if err := follow(ctx, c, id, func(x api.LoadLive) { end = x }); err != nil {
		return x, err
	}
	if x, err = told[spread](ctx, url+"/spread"); err != nil {
		return x, err
	}
	if x.Connections != five {
		return x, fmt.Errorf("%d hosts sent a first request, want %d: %s, %+v", x.Connections, five, end.Verdict, end.Hosts)
	}
	return x, nil
}

// lag is how far behind its end each window of a test was heard of, in milliseconds.
func lag(ctx context.Context, c *api.Client, url string, length int) (out []float64, err error) {
	id, err := submit(ctx, c, fmt.Sprintf("grace = \"1s\"\ntraffic.main = { flow = \"f\", rate = %d, for = \"%ds\" }\n[[flow.f]]\nget = \"%s/\"\n", lagRate, length, url))
	if err != nil {
		return nil, err
	}
	type window struct {
		heard time.Time
		end   float64
	}
	var list []window
	last := 0.0
	if err := follow(ctx, c, id, func(x api.LoadLive) {
		if x.At > last && x.State == event.LoadStarted && x.At < x.Of {
			list, last = append(list, window{time.Now(), x.At}), x.At
		}
	}); err != nil {
		return nil, err
	}
	var doc *report.Report
	if err := suite.Poll(ctx, "the report is reached", time.Minute, func() bool {
		x, err := c.LoadReport(ctx, id)
		if err == nil {
			doc, err = report.Parse(x.Report)
		}
		return err == nil
	}); err != nil {
		return nil, err
	}
	for _, w := range list {
		out = append(out, suite.Ms(w.heard.Sub(doc.Started.Add(time.Duration(w.end*float64(time.Second))))))
	}
	if len(out) == 0 {
		return nil, errors.New("the follower heard of no window before the end")
	}
	return out, nil
}
