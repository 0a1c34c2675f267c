package present

import (
	"fmt"
	"strings"

	"github.com/skein-project/skein/api"
)

// OverloadLanes shows how it stands with the kinds of requests.
func OverloadLanes(o api.Overload) Table {
	type L = api.OverloadLane
	return tableOf(o.Lanes,
		col("LANE", Text, 0, func(x L) Cell { return word(x.Lane) }),
		col("NOW", State, 0, func(x L) Cell {
			if x.Refuses {
				return word("refused")
			}
			return word("taken")
		}),
		col("REFUSED FROM", Text, 1, func(x L) Cell {
			if x.From == "" {
				return word("never")
			}
			return word(x.From)
		}),
		col("PLACES", Number, 3, func(x L) Cell { return whole(x.Places) }),
		col("RUNNING", Number, 2, func(x L) Cell { return whole(x.Running) }),
		col("WAITING", Number, 2, func(x L) Cell { return whole(x.Waiting) }),
		col("BY LEVEL", Number, 1, func(x L) Cell { return whole(x.RefusedByLevel) }),
		col("BY PLACES", Number, 1, func(x L) Cell { return whole(x.RefusedByPlaces) }),
	)
}

// OverloadSignals shows what the level comes from.
func OverloadSignals(o api.Overload) Table {
	type S = api.OverloadSignal
	amount := func(x S, v float64) Cell {
		switch x.Unit {
		case "seconds":
			return Cell{Text: fmt.Sprintf("%.0fms", 1000*v), Plain: fmt.Sprintf("%.4g", v)}
		case "share":
			return Cell{Text: fmt.Sprintf("%.0f%%", 100*v), Plain: fmt.Sprintf("%.4g", v)}
		}
		return Cell{Text: fmt.Sprintf("%g", v)}
	}
	return tableOf(o.Signals,
		col("SIGNAL", Text, 0, func(x S) Cell { return word(x.Signal) }),
		col("NOW", Number, 0, func(x S) Cell {
			if x.Value == nil {
				return word("")
			}
			return amount(x, *x.Value)
		}),
		col("OVERLOAD FROM", Number, 0, func(x S) Cell { return amount(x, x.From) }),
		col("SCORE", Number, 0, func(x S) Cell { return Cell{Text: fmt.Sprintf("%.1f", x.Score)} }),
	)
}

// OverloadPage is how loaded a host is, and who else is.
func OverloadPage(o api.Overload) []Field {
	level := OrDash(o.Level)
	if o.Signal != "" {
		level += " by " + o.Signal
	}
	level += fmt.Sprintf(", score %.1f of 8", o.Score)
	if !o.Enabled {
		level += "; overload.enabled is false: nothing follows"
	}
	fields := []Field{{"level", level}}
	var others, silent []string
	for _, h := range o.Hosts {
		if h.Node != o.Node {
			others = append(others, string(h.Node)+" "+h.Level)
		}
	}
	if len(others) > 0 {
		fields = append(fields, Field{"others", few(others)})
	}
	for _, s := range o.Silent {
		when := "in " + Age(s.WaitSeconds)
		if s.Trying {
			when = "now"
		}
		silent = append(silent, fmt.Sprintf("%s (%s, tried %s)", s.Node, s.Kind, when))
	}
	if len(silent) > 0 {
		fields = append(fields, Field{"silent", few(silent)})
	}
	return fields
}

// mostOthers is how many hosts a line names.
const mostOthers = 8

func few(list []string) string {
	if more := len(list) - mostOthers; more > 0 {
		list = append(list[:mostOthers:mostOthers], fmt.Sprintf("%d more", more))
	}
	return strings.Join(list, ", ")
}
