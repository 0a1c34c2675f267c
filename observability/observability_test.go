package observability

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/skein-project/skein/internal/require"
)

// TestFiles keeps the files that operators take equal to the tables.
func TestFiles(t *testing.T) {
	dashboard, err := DashboardJSON()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{RulesFile: Rules(), RulesTestFile: RulesTest(false), LongTestFile: RulesTest(true), DashboardFile: dashboard} {
		if os.Getenv("SKEIN_UPDATE") == "1" {
			if err := os.WriteFile(name, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if have, err := os.ReadFile(name); err != nil || !bytes.Equal(have, want) {
			t.Errorf("%s is stale (%v): run SKEIN_UPDATE=1 go test ./observability", name, err)
		}
	}
}

// TestAlerts: each alert has a history in which it fires, one in which it must not, and a
// section in the handbook to which its rule leads.
func TestAlerts(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, m := range regexp.MustCompile(`(?m)^### (Skein\w+)$`).FindAllSubmatch(text, -1) {
		have = append(have, string(m[1]))
	}
	var want []string
	for _, a := range Alerts() {
		want = append(want, a.Name)
		if len(a.Fires) == 0 || len(a.Quiet) == 0 {
			t.Errorf("%s has %d histories in which it fires and %d in which it does not", a.Name, len(a.Fires), len(a.Quiet))
		}
		for _, h := range a.Fires {
			if len(h.Want) == 0 {
				t.Errorf("%s: %q does not say which alerts fire", a.Name, h.Name)
			}
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("docs/operations.md has sections about %q, and the alerts are %q", have, want)
	}
}

// documented reads which labels each metric of docs/metrics.md has; a test of daemon
// keeps that file equal to what a daemon registers.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(skein_[a-z0-9_]+)` \\| ([^|]*) \\|").FindAllSubmatch(text, -1) {
		out[string(m[1])] = strings.FieldsFunc(string(m[2]), func(r rune) bool { return strings.ContainsRune("`, -", r) })
	}
	if len(out) < 100 {
		t.Fatalf("only %d metrics found", len(out))
	}
	// Those of the runtime and the process, which a daemon registers by the same collectors.
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		var names []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			names = append(names, l.GetName())
		}
		out[f.GetName()] = names
	}
	return out
}

// unknown says what an expression names that no daemon has.
func unknown(expr string, known map[string][]string) (wrong []string) {
	for _, name := range Metrics(expr) {
		base, histogram := Base(name)
		labels, ok := known[name]
		if !ok && histogram {
			labels, ok = known[base]
		}
		if !ok {
			wrong = append(wrong, name)
			continue
		}
		for _, l := range Matched(expr, name) {
			if !slices.Contains(append(labels, "job", "instance", "le"), l) {
				wrong = append(wrong, name+"{"+l+"}")
			}
		}
	}
	return wrong
}

// TestRegistered: rules and dashboard name only metrics and labels that exist.
func TestRegistered(t *testing.T) {
	known := documented(t)
	for where, expr := range Expressions() {
		if wrong := unknown(expr, known); wrong != nil {
			t.Errorf("%s: %s names %q, which no daemon has", where, expr, wrong)
		}
	}
	for _, a := range Alerts() {
		for _, h := range slices.Concat(a.Fires, a.Quiet) {
			for series := range h.Series {
				if wrong := unknown(series, known); wrong != nil {
					t.Errorf("%s: %q has %q, which no daemon has", a.Name, h.Name, wrong)
				}
			}
		}
	}
	for _, expr := range []string{`skein_no_such_total`, `skein_coord_peers{job="x", colour="red"}`, `sum(go_no_such)`, `go_goroutines{colour="red"}`, `rate(process_no_such_total[5m])`} {
		if wrong := unknown(expr, known); len(wrong) != 1 {
			t.Errorf("%s: noticed %q", expr, wrong)
		}
	}
}

// TestDashboard: no row is collapsed, no panel is empty or lies upon another, every
// query is about the chosen cluster.
func TestDashboard(t *testing.T) {
	text, err := DashboardJSON()
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			ID          int
			Type, Title string
			Collapsed   bool
			GridPos     struct{ X, Y, W, H int }
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	var rows []string
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			rows = append(rows, p.Title)
		} else if len(p.Targets) == 0 {
			t.Errorf("%s shows nothing", p.Title)
		}
		if p.Collapsed {
			t.Errorf("%s is collapsed", p.Title)
		}
		for _, q := range p.Targets {
			for _, name := range regexp.MustCompile(`\b(?:skein|go|process)_[a-z0-9_]+`).FindAllStringIndex(q.Expr, -1) {
				if !strings.HasPrefix(q.Expr[name[1]:], `{job="$job"`) {
					t.Errorf("%s: %s is of all clusters", p.Title, q.Expr)
				}
			}
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok || x >= across {
					t.Fatalf("%s lies upon %q or beside the page", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
	if want := "Cluster Lease Mesh Log Jobs Onion Gateway Overload API"; strings.Join(rows, " ") != want {
		t.Errorf("rows %q, want %s", rows, want)
	}
}

// promtool runs it in a directory.
func promtool(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	path, err := require.Promtool()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOGC=400") // a fifth less of a processor
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestRules: promtool finds the rules right, and each alert fires where it should and
// only there.
func TestRules(t *testing.T) {
	require.Need(t, require.Prom)
	if out, err := promtool(t, ".", "check", "rules", RulesFile); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := promtool(t, ".", "test", "rules", RulesTestFile, LongTestFile); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestPatience: were the alerts to wait for nothing, the histories in which they must not
// fire would show it for each that waits. Each has one in which it fires.
func TestPatience(t *testing.T) {
	require.Need(t, require.Prom)
	hasty := regexp.MustCompile(`(?m)^ +for: .*\n`).ReplaceAllString(string(Rules()), "")
	dir := t.TempDir()
	for name, text := range map[string]string{RulesFile: hasty, RulesTestFile: string(RulesTest(false)), LongTestFile: string(RulesTest(true))} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, err := promtool(t, dir, "test", "rules", RulesTestFile, LongTestFile)
	if err == nil {
		t.Error("promtool found nothing")
	}
	for _, a := range Alerts() {
		if a.For > 0 && !strings.Contains(out, "alertname: "+a.Name) {
			t.Errorf("no history shows that %s waits for %s", a.Name, a.For)
		}
		if !slices.ContainsFunc(a.Fires, func(h History) bool { return len(h.Want) > 0 }) {
			t.Errorf("no history shows that %s fires", a.Name)
		}
	}
}

// TestExpressions has promtool read every expression of the dashboard.
func TestExpressions(t *testing.T) {
	require.Need(t, require.Prom)
	check := func(exprs map[string]string) (string, error) {
		var b strings.Builder
		b.WriteString("groups:\n  - name: panels\n    rules:\n")
		i := 0
		for _, expr := range exprs {
			fmt.Fprintf(&b, "      - record: panel:%d\n        expr: %s\n", i, quote(expr))
			i++
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "panels.yml"), []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return promtool(t, dir, "check", "rules", "panels.yml")
	}
	all := Expressions()
	if len(all) < 50 {
		t.Errorf("only %d expressions", len(all))
	}
	if out, err := check(all); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := check(map[string]string{"broken": "sum by (rate(skein_jobs[5m])"}); err == nil {
		t.Errorf("promtool takes anything: %s", out)
	}
}

// TestDashboardIsWhole: what the schema of Grafana's dashboards and panels calls required
// is there (grafana-foundation-sdk v0.0.22 reads dashboard.json strictly).
func TestDashboardIsWhole(t *testing.T) {
	text, err := os.ReadFile(DashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Annotations map[string]any
		Panels      []struct {
			Type, Title string
			Options     map[string]any
		}
	}
	if err := json.Unmarshal(text, &d); err != nil || d.Annotations["list"] == nil || len(d.Panels) < 50 {
		t.Fatalf("%v, annotations %v, %d panels", err, d.Annotations, len(d.Panels))
	}
	need := map[string][]string{
		"stat": {
			"graphMode", "colorMode", "justifyMode", "textMode", "wideLayout", "showPercentChange", "percentChangeColorMode", "orientation", "reduceOptions",
		},
		"timeseries": {"legend", "tooltip"},
		"legend":     {"displayMode", "placement", "showLegend", "calcs"},
	}
	for _, p := range d.Panels {
		legend, _ := p.Options["legend"].(map[string]any)
		for _, name := range need[p.Type] {
			if p.Options[name] == nil {
				t.Errorf("%s lacks %s", p.Title, name)
			}
		}
		for _, name := range need["legend"] {
			if p.Type == "timeseries" && legend[name] == nil {
				t.Errorf("%s: its legend lacks %s", p.Title, name)
			}
		}
	}
}
