package present

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/skein-project/skein/api"
)

// Addresses shows the onion addresses of the cluster.
func Addresses(o api.Onion) Table {
	type A = api.OnionAddress
	observed := o.ObservedAt
	return tableOf(o.Addresses,
		col("ADDRESS", Text, 0, func(x A) Cell { return Cell{Text: x.Address} }),
		col("KEY", Text, 6, func(x A) Cell { return yes(x.Key) }),
		col("PUBLISHER", Text, 2, func(x A) Cell { return Cell{Text: publisherOf(x)} }),
		col("PUBLISHED", Time, 1, func(x A) Cell {
			if x.PublishedAt == nil {
				return Cell{Text: Unknown}
			}
			return at(*x.PublishedAt, observed)
		}),
		col("POINTS", Text, 3, func(x A) Cell {
			var points []string
			for n, c := range x.Points {
				points = append(points, string(n)+":"+strconv.Itoa(c))
			}
			slices.Sort(points)
			return names(points)
		}),
		col("KEEPERS", Text, 4, func(x A) Cell { return names(x.Keepers) }),
		col("CLIENTS", Text, 5, func(x A) Cell {
			if len(x.Clients) == 0 {
				return Cell{Text: "all"}
			}
			return names(x.Clients)
		}),
	)
}

// publisherOf names who publishes an address, and what it does about it if that is
// this host.
func publisherOf(x api.OnionAddress) string {
	name := OrDash(x.Publisher)
	switch {
	case len(x.Awaited) > 0:
		return name + ", once " + Joined(x.Awaited) + " has points"
	case x.Fenced:
		return name + ", fenced: another has a later term"
	case x.Solo:
		return name + ", by tor"
	}
	return name
}

// Directories shows what the directories have that clients ask.
func Directories(v api.OnionVerified) Table {
	type D = api.OnionDirView
	return tableOf(v.Dirs,
		col("DIRECTORY", Text, 0, func(d D) Cell { return Cell{Text: d.Dir} }),
		col("REVISION", Number, 1, func(d D) Cell { return word(d.Revision) }),
		col("POINTS", Number, 0, func(d D) Cell {
			if d.Revision == "" || d.Points < 0 {
				return Cell{Text: Unknown}
			}
			return whole(d.Points)
		}),
		col("REASON", Text, 0, func(d D) Cell { return word(d.Reason) }),
	)
}

// OnionHosts shows what each host contributes to the addresses.
func OnionHosts(o api.Onion) Table {
	type H = api.OnionHost
	return tableOf(o.Hosts,
		col("NODE", Text, 0, func(h H) Cell { return word(h.Node) }),
		col("STATE", State, 0, func(h H) Cell { return word(health(h.Health, h.Stopped)) }),
		col("POINTS", Number, 0, func(h H) Cell { return whole(h.Points) }),
		col("WEIGHT", Number, 3, func(h H) Cell { return whole(h.Weight) }),
		col("HEALTHY", Text, 2, func(h H) Cell { return yes(h.Healthy) }),
		col("SERVING", Text, 1, func(h H) Cell { return yes(h.Serving) }),
		col("KEYS", Number, 4, func(h H) Cell { return whole(h.Keys) }),
		col("WHY", Text, 0, func(h H) Cell { return Cell{Text: OrDash(cmp.Or(h.LeftOut, h.Reason))} }),
	)
}

// OnionHost says in one line what a host contributes to the addresses.
func OnionHost(h api.OnionHost) string {
	points := Plural(h.Points, "point") + " standing"
	if h.Asked > 0 {
		points += fmt.Sprintf(" of %d asked for", h.Asked)
	}
	words := []string{string(h.Node), string(health(h.Health, h.Stopped)), fmt.Sprintf("weight %d, %s", h.Weight, points)}
	switch {
	case h.Address == "":
		words = append(words, "serves nothing")
	case h.Weight == 0:
		words = append(words, "drained")
	case h.LeftOut != "":
		words = append(words, "left out: "+h.LeftOut)
	case !h.Serving:
		words = append(words, "left out")
	}
	var failing []string
	for _, b := range h.Backends {
		if !b.Healthy {
			failing = append(failing, b.Name)
		}
	}
	switch {
	case len(failing) > 0:
		words = append(words, fmt.Sprintf("%d of %s unhealthy: %s", len(failing), Plural(len(h.Backends), "backend"), strings.Join(failing, " ")))
	case !h.Healthy:
		words = append(words, "its target fails")
	}
	if h.Reason != "" {
		words = append(words, "refused: "+h.Reason)
	}
	return strings.Join(words, ", ")
}

// Operators says where the operators of a host find its page; empty: it has none.
func Operators(o api.Onion) string {
	if o.OperatorAddress == "" {
		return ""
	}
	return Joined(o.Operators) + " with their keys, at http://" + o.OperatorAddress + "/"
}

// Tor says in one line how a host's tor is.
func Tor(t api.OnionTor) string {
	if !t.Enabled {
		return "is off: set tor.enabled"
	}
	line := fmt.Sprintf("%s %s, %d %%, %s", t.Version, t.State, t.Bootstrap, Plural(t.Restarts, "restart"))
	if t.WrongMaster > 0 {
		line += fmt.Sprintf(", %d introductions for an address that this host does not serve", t.WrongMaster)
	}
	if t.Reason != "" {
		line += ": " + t.Reason
	}
	return strings.TrimSpace(line)
}
