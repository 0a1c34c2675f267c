package observability

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The files that operators take, in this directory.
const (
	RulesFile     = "rules.yml"
	RulesTestFile = "tests.yml"
	// LongTestFile is about histories of a day, which are looked at less often.
	LongTestFile = "tests_long.yml"
)

// runbook is where the section about an alert stands, by the name in lower case.
const runbook = "https://github.com/skein-project/skein/blob/main/docs/operations.md#"

// Rules returns RulesFile.
func Rules() []byte {
	var b strings.Builder
	b.WriteString("# Alerts about a skein cluster, made by the tests of `observability`. Scrape all hosts of a cluster, and no\n" +
		"# others, under one job. docs/operations.md has a section about each.\n" +
		"groups:\n  - name: skein\n    rules:\n")
	for _, a := range Alerts() {
		fmt.Fprintf(&b, "      - alert: %s\n        expr: %s\n", a.Name, quote(a.Expr))
		if a.For > 0 {
			fmt.Fprintf(&b, "        for: %s\n", spell(a.For))
		}
		fmt.Fprintf(&b, "        labels:\n          severity: %s\n        annotations:\n", a.Severity)
		for _, n := range a.annotations(nil) {
			fmt.Fprintf(&b, "          %s: %s\n", n[0], quote(n[1]))
		}
	}
	return []byte(b.String())
}

// annotations are those of a, with the labels of one that fires put in.
func (a Alert) annotations(fires map[string]string) [][2]string {
	summary := a.Summary
	for name, value := range fires {
		summary = strings.ReplaceAll(summary, "{{ $labels."+name+" }}", value)
	}
	return [][2]string{{"summary", summary}, {"runbook_url", runbook + strings.ToLower(a.Name)}}
}

// maxLooks bounds how often it is looked whether an alert is quiet.
const maxLooks = 60

// RulesTest returns RulesTestFile, or LongTestFile, for `promtool test rules`.
func RulesTest(long bool) []byte {
	var b strings.Builder
	every := "30s"
	if long {
		every = "5m"
	}
	b.WriteString("# Histories in which each alert fires, and in which it must not, made by the tests of `observability`.\n" +
		"rule_files: [" + RulesFile + "]\nevaluation_interval: " + every + "\ntests:\n")
	for _, a := range Alerts() {
		if long != (a.For >= day) {
			continue
		}
		for _, h := range a.Fires {
			h.write(&b, a, "fires")
			h.look(&b, a, h.At, true)
		}
		for _, h := range a.Quiet {
			h.write(&b, a, "quiet")
			every := h.step()
			for h.At/every > maxLooks {
				every *= 2
			}
			for at := time.Duration(0); at <= h.At; at += every {
				h.look(&b, a, at, false)
			}
		}
	}
	return []byte(b.String())
}

func (h History) step() time.Duration {
	if h.Step == 0 {
		return 15 * time.Second
	}
	return h.Step
}

func (h History) write(b *strings.Builder, a Alert, what string) {
	fmt.Fprintf(b, "  - name: %s\n    interval: %s\n    input_series:\n", quote(a.Name+" "+what+": "+h.Name), spell(h.step()))
	for _, series := range slices.Sorted(maps.Keys(h.Series)) {
		fmt.Fprintf(b, "      - series: %s\n        values: %s\n", quote(series), quote(constant.ReplaceAllString(h.Series[series], "$1$2+0x$3")))
	}
	b.WriteString("    alert_rule_test:\n")
}

// constant is a value that is repeated, which older promtools want with its slope.
var constant = regexp.MustCompile(`(^| )(-?[0-9]+)x([0-9]+)`)

func (h History) look(b *strings.Builder, a Alert, at time.Duration, fires bool) {
	fmt.Fprintf(b, "      - eval_time: %s\n        alertname: %s\n", spell(at), a.Name)
	if !fires {
		b.WriteString("        exp_alerts: []\n")
		return
	}
	b.WriteString("        exp_alerts:\n")
	for _, want := range h.Want {
		b.WriteString("          - exp_labels:\n")
		fmt.Fprintf(b, "              severity: %s\n", a.Severity)
		for _, name := range slices.Sorted(maps.Keys(want)) {
			fmt.Fprintf(b, "              %s: %s\n", name, quote(want[name]))
		}
		b.WriteString("            exp_annotations:\n")
		for _, n := range a.annotations(want) {
			fmt.Fprintf(b, "              %s: %s\n", n[0], quote(n[1]))
		}
	}
}

// quote writes a scalar of YAML.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// spell writes a duration as Prometheus does.
func spell(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if d > 0 && d%u.unit == 0 {
			return fmt.Sprintf("%d%s", d/u.unit, u.name)
		}
	}
	return fmt.Sprintf("%ds", d/time.Second)
}
