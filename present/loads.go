package present

import (
	"slices"
	"strconv"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
)

// ShortLoad is the beginning of the id of a load test.
func ShortLoad(id event.LoadID) string { return string(id)[:min(len(id), 9)] }

// LoadWord says how a load test is, in a word.
func LoadWord(r api.LoadRun) string {
	switch {
	case r.State == event.LoadEnded:
		return r.Verdict
	case r.StopReason != "":
		return "ending"
	case r.State == event.LoadStarted:
		return "running"
	}
	return string(r.State)
}

// LoadRuns shows load tests.
func LoadRuns(list api.LoadRuns) Table {
	tests := make([]api.WatchedLoad, len(list.Runs))
	for i, r := range list.Runs {
		tests[i].LoadRun = r
	}
	return tableOf(tests, slices.Concat(loadNames(), loadFacts(list.Header))...)
}

// Loads shows load tests, and how those get on that run.
func Loads(head api.Header, list []api.WatchedLoad) Table {
	return tableOf(list, slices.Concat(loadNames(), loadNow(), loadFacts(head))...)
}

type loadColumn = column[api.WatchedLoad]

func loadNames() []loadColumn {
	type L = api.WatchedLoad
	return []loadColumn{
		col("TEST", Text, 0, func(l L) Cell { return Cell{Text: ShortLoad(l.ID), Exact: string(l.ID)} }),
		col("NAME", Text, 0, func(l L) Cell { return word(l.Name) }),
		col("STATE", State, 0, func(l L) Cell { return word(LoadWord(l.LoadRun)) }),
	}
}

func loadNow() []loadColumn {
	now := func(f func(*api.LoadNow) Cell) func(api.WatchedLoad) Cell {
		return func(l api.WatchedLoad) Cell {
			if l.Now == nil || l.State != event.LoadStarted {
				return Cell{Text: Unknown}
			}
			return f(l.Now)
		}
	}
	latency := func(at func(api.LoadTimes) float64) func(api.WatchedLoad) Cell {
		return now(func(n *api.LoadNow) Cell {
			s := at(n.Latency)
			if s == 0 {
				return Cell{Text: Unknown}
			}
			return millis(s)
		})
	}
	return []loadColumn{
		col("TIME", Text, 1, now(func(n *api.LoadNow) Cell {
			return Cell{Text: Age(n.At) + " of " + Age(n.Of), Plain: PlainSeconds(n.At)}
		})),
		col("RATE", Number, 1, now(func(n *api.LoadNow) Cell { return rate(&n.Rate) })),
		more("PLANNED", Number, now(func(n *api.LoadNow) Cell {
			if n.Planned == 0 {
				return Cell{Text: Unknown}
			}
			return rate(&n.Planned)
		})),
		more("P50", Time, latency(func(t api.LoadTimes) float64 { return t.P50 })),
		more("P95", Time, latency(func(t api.LoadTimes) float64 { return t.P95 })),
		col("P99", Time, 2, latency(func(t api.LoadTimes) float64 { return t.P99 })),
		col("FAILED", Number, 2, now(func(n *api.LoadNow) Cell { return failed(n) })),
		more("REQUESTS", Number, now(func(n *api.LoadNow) Cell { return whole(n.Requests) })),
		more("DROPPED", Number, now(func(n *api.LoadNow) Cell { return whole(n.Dropped) })),
		more("USERS", Number, now(func(n *api.LoadNow) Cell { return whole(n.Users) })),
	}
}

func loadFacts(head api.Header) []loadColumn {
	type L = api.WatchedLoad
	return []loadColumn{
		col("HOSTS", Text, 3, func(l L) Cell { return names(hostsOf(l.LoadRun)) }),
		col("SUBMITTED", Time, 5, func(l L) Cell { return at(l.SubmittedAt, head.ObservedAt) }),
		col("OWNER", Text, 4, func(l L) Cell { return word(l.Owner) }),
		col("WHY", Text, 6, func(l L) Cell { return word(why(l)) }),
	}
}

// millis is a latency, of which a tenth of a second says too little.
func millis(s float64) Cell {
	digits := 0
	switch {
	case s >= 10:
		return span(&s)
	case s < 0.01:
		digits = 1
	}
	return Cell{Text: strconv.FormatFloat(s*1e3, 'f', digits, 64) + "ms", Plain: PlainSeconds(s)}
}

// failed is the share of what was due that is not ok.
func failed(n *api.LoadNow) Cell {
	all := n.Requests + n.Dropped
	if all == 0 {
		return Cell{Text: Unknown}
	}
	part := float64(n.Failed) / float64(all)
	return Cell{Text: strconv.FormatFloat(part*100, 'g', 2, 64) + "%", Plain: strconv.FormatFloat(part, 'g', 4, 64)}
}

// why is the reason of what a test came to, or what goes on before it runs.
func why(l api.WatchedLoad) string {
	switch {
	case l.Why != "":
		return l.Why
	case l.State != event.LoadEnded && l.StopReason != "":
		return l.StopReason
	case l.State == event.LoadStarted && l.Now != nil && l.Now.Doing != "running":
		return l.Now.Doing
	}
	return ""
}

func hostsOf(r api.LoadRun) (out []string) {
	for _, h := range r.Hosts {
		name := string(h.Host)
		if h.Lost != "" {
			name += " (lost)"
		}
		out = append(out, name)
	}
	return out
}
