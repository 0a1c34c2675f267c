package observability

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Expressions lists every PromQL expression of the rules and the dashboard, by where
// it stands. Those of the dashboard have its variables put in.
func Expressions() map[string]string {
	out := map[string]string{}
	for _, a := range Alerts() {
		out["alert "+a.Name] = a.Expr
	}
	for _, r := range Dashboard() {
		for _, p := range r.Panels {
			for _, q := range p.Queries {
				out["panel "+r.Title+", "+p.Title+", "+q.Legend] = filled.Replace(q.Expr)
			}
		}
	}
	return out
}

// filled puts in what Grafana would.
var filled = strings.NewReplacer("$job", "blue", "$__rate_interval", "5m", "$node", "n1")

var (
	metric = regexp.MustCompile(`\b(?:skein|go|process)_[a-z0-9_]+`)
	choice = regexp.MustCompile(`\b((?:skein|go|process)_[a-z0-9_]+)\{([^}]*)\}`)
	match  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*"`)
)

// Metrics lists the metrics in an expression, ours and those of the Go runtime and the
// process, sorted; those of a histogram with their suffix.
func Metrics(expr string) []string {
	seen := map[string]bool{}
	for _, name := range metric.FindAllString(expr, -1) {
		seen[name] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// Matched lists the labels by which an expression chooses series of a metric.
func Matched(expr, name string) []string {
	seen := map[string]bool{}
	for _, m := range choice.FindAllStringSubmatch(expr, -1) {
		if m[1] == name {
			for _, l := range match.FindAllStringSubmatch(m[2], -1) {
				seen[l[1]] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// Base takes the suffix of a histogram off a name.
func Base(name string) (base string, histogram bool) {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok {
			return base, true
		}
	}
	return name, false
}
