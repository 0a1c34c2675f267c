package observability

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// LiveFile is for `promtool test rules`: what hosts really answer, by instance, and every
// expression with the claim that it gives nothing. promtool then complains of those that do.
func LiveFile(scrapes map[string][]byte) []byte {
	var b strings.Builder
	b.WriteString("evaluation_interval: 15s\ntests:\n  - interval: 15s\n    input_series:\n")
	for _, instance := range slices.Sorted(maps.Keys(scrapes)) {
		for line := range strings.Lines(string(scrapes[instance])) {
			m := sample.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			v, err := strconv.ParseFloat(m[3], 64)
			if err != nil || v != v || v > 1e300 || v < -1e300 { // no number that the notation has
				v = 0
			}
			labels := strings.TrimSuffix(`job="blue",instance="`+instance+`",`+m[2], ",")
			fmt.Fprintf(&b, "      - series: %s\n        values: '%s+0x20'\n", quote(m[1]+"{"+labels+"}"), strconv.FormatFloat(v, 'f', -1, 64))
		}
	}
	b.WriteString("    promql_expr_test:\n")
	all := Expressions()
	for _, where := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(where, "panel ") {
			fmt.Fprintf(&b, "      - expr: %s\n        eval_time: 5m\n        exp_samples: []\n", quote(all[where]))
		}
	}
	return []byte(b.String())
}

// sample is a line of what a host answers: name, labels, value.
var sample = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)\n$`)

// Silent lists the panels whose expression gave nothing, by what promtool said of LiveFile.
func Silent(said string) []string {
	var out []string
	for where, expr := range Expressions() {
		if strings.HasPrefix(where, "panel ") && !strings.Contains(said, "expr: "+strconv.Quote(expr)+",") {
			out = append(out, strings.TrimSuffix(strings.TrimPrefix(where, "panel "), ", "))
		}
	}
	slices.Sort(out)
	return out
}
