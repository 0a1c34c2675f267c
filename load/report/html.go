package report

import (
	"fmt"
	"html"
	"strings"

	"github.com/skein-project/skein/load/rule"
	"github.com/skein-project/skein/present"
)

// style of the page. It fetches nothing, and runs nothing.
const style = `
:root{--bg:#fbfbfa;--card:#fff;--ink:#1d2327;--soft:#667077;--rule:#e3e6e8;--p50:#2f7d6d;--p95:#c77c11;--p99:#b03a2e;--ok:#2f7d6d;--bad:#b03a2e;--warn:#a86a05;--accent:#3b5b8c}
@media(prefers-color-scheme:dark){:root{--bg:#14181b;--card:#1b2024;--ink:#e4e8ea;--soft:#93a0a8;--rule:#2c3439;--p50:#58b8a4;--p95:#e0a24a;--p99:#e07a6e;--ok:#58b8a4;--bad:#e07a6e;--warn:#e0a24a;--accent:#85a8de}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
main{max-width:1120px;margin:0 auto;padding:28px 20px 48px}
header{display:flex;flex-wrap:wrap;align-items:baseline;gap:4px 14px}
h1{font-size:26px;margin:0;letter-spacing:-.01em}
h2{font-size:16px;margin:32px 0 10px}
.verdict{font-weight:600;padding:1px 12px;border-radius:999px;border:1.5px solid;font-size:14px}
.passed{color:var(--ok)}.failed,.aborted,.incomplete{color:var(--bad)}.suspect,.stopped{color:var(--warn)}
.when,.unit,.note{color:var(--soft);font-size:13px}
ul.why{margin:10px 0 0;padding-left:20px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:10px;margin:22px 0}
.tile{background:var(--card);border:1px solid var(--rule);border-radius:8px;padding:10px 14px}
.tile b{display:block;font-size:21px;font-weight:600;font-variant-numeric:tabular-nums;white-space:nowrap}
.tile span{color:var(--soft);font-size:13px}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(480px,100%),1fr));gap:12px}
figure{margin:0;background:var(--card);border:1px solid var(--rule);border-radius:8px;padding:10px 12px 6px}
figcaption{font-size:14px;font-weight:600}figcaption .unit{font-weight:400;margin-right:8px}
.key{font-weight:400;font-size:12.5px;margin-left:10px;color:var(--soft)}
.key:before{content:"";display:inline-block;width:10px;height:3px;border-radius:2px;background:currentColor;margin-right:5px;vertical-align:middle}
.key.c50:before{background:var(--p50)}.key.c95:before{background:var(--p95)}.key.c99:before{background:var(--p99)}.key.cx:before{background:var(--accent)}
svg{display:block;width:100%;height:auto}
.grid{stroke:var(--rule);stroke-width:1;fill:none}.mark{stroke:var(--soft);stroke-dasharray:3 3;fill:none}
.tick{fill:var(--soft);font-size:10.5px;font-variant-numeric:tabular-nums}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round}.area{opacity:.14;stroke:none}
.line.c50{stroke:var(--p50)}.line.c95{stroke:var(--p95)}.line.c99{stroke:var(--p99)}.line.cx{stroke:var(--accent)}
.area.c50{fill:var(--p50)}.area.c95{fill:var(--p95)}.area.c99{fill:var(--p99)}.area.cx{fill:var(--accent)}
.bar{fill:var(--accent);opacity:.75}
.wide{overflow-x:auto;background:var(--card);border:1px solid var(--rule);border-radius:8px}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:6px 14px;text-align:left;border-top:1px solid var(--rule);vertical-align:top}
th{border-top:0;color:var(--soft);font-weight:500;font-size:12.5px}
td.n,th.n{text-align:right;white-space:nowrap}
td.ok,td.fail{font-weight:600;width:1%}td.ok{color:var(--ok)}td.fail{color:var(--bad)}
td code{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
`

// HTML is the report as one file.
func (d *Report) HTML() []byte {
	var b strings.Builder
	e := html.EscapeString
	fmt.Fprintf(&b, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"+
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"+
		"<title>%s: %s</title><style>%s</style></head>\n<body><main>\n", e(d.Name), e(string(d.Verdict)), style)
	fmt.Fprintf(&b, "<header><h1>%s</h1><span class=\"verdict %s\">%s</span><span class=\"when\">%s, %s", e(d.Name), e(string(d.Verdict)), e(string(d.Verdict)),
		e(d.Started.Format("2 January 2006, 15:04:05 UTC")), e(present.Age(d.Seconds)))
	if d.Warmup > 0 {
		fmt.Fprintf(&b, " after %s of warm-up", e(present.Age(d.Warmup)))
	}
	b.WriteString("</span></header>\n")
	if len(d.Why)+len(d.Notes) > 0 {
		b.WriteString("<ul class=\"why\">")
		for _, w := range append(append([]string{}, d.Why...), d.Notes...) {
			fmt.Fprintf(&b, "<li>%s</li>", e(w))
		}
		b.WriteString("</ul>\n")
	}
	d.tiles(&b)
	d.charts(&b)
	section(&b, "Thresholds", d.ThresholdTable(), len(d.Thresholds) > 0, "")
	section(&b, "Steps", d.Table(), len(d.Steps) > 0, "latencies in milliseconds, from the intended start to the last byte")
	section(&b, "Phases", d.phaseTable(), len(d.Phases) > 0, "milliseconds, of all steps")
	section(&b, "Checks", d.allChecks(), len(d.Checks) > 0, "")
	section(&b, "Hosts", d.HostTable(), len(d.Hosts) > 0, "times in milliseconds")
	section(&b, "Errors", d.ErrorTable(), len(d.Errors) > 0, "")
	d.generator(&b)
	b.WriteString("</main></body></html>\n")
	return []byte(b.String())
}

func (d *Report) tiles(b *strings.Builder) {
	tile := func(value, name string) {
		fmt.Fprintf(b, "<div class=\"tile\"><b>%s</b><span>%s</span></div>", html.EscapeString(value), html.EscapeString(name))
	}
	b.WriteString("<div class=\"tiles\">")
	tile(present.Count(float64(d.Requests)), "requests")
	tile(PerSecond(d.Rate), "rate")
	if d.Latency.Count > 0 {
		tile(Millis(d.Latency.P50)+" ms", "p50")
		tile(Millis(d.Latency.P95)+" ms", "p95")
		tile(Millis(d.Latency.P99)+" ms", "p99")
	}
	tile(Percent(d.Failed), "failed")
	if d.Dropped > 0 {
		tile(present.Count(float64(d.Dropped)), "dropped")
	}
	b.WriteString("</div>\n")
}

func (d *Report) charts(b *strings.Builder) {
	if len(d.Timeline) == 0 {
		return
	}
	var x, p50, p95, p99, rate, failed, users, queue []float64
	waits := false
	for _, p := range d.Timeline {
		x = append(x, p.At)
		p50, p95, p99 = append(p50, p.P50*1e3), append(p95, p.P95*1e3), append(p99, p.P99*1e3)
		rate, failed = append(rate, p.Rate), append(failed, p.Failed*p.Rate)
		users, queue = append(users, float64(p.Users)), append(queue, float64(p.Queue))
		waits = waits || p.Queue > 0
	}
	var breaks []mark
	if d.Warmup > 0 {
		breaks = append(breaks, mark{d.Warmup, "warm-up ends"})
	}
	for _, m := range d.Marks {
		breaks = append(breaks, mark{m.At, m.Text})
	}
	b.WriteString("<div class=\"charts\">\n")
	b.WriteString(chart{"Latency", "ms", x, []line{{"p50", "c50", true, p50}, {"p95", "c95", false, p95}, {"p99", "c99", false, p99}}, breaks}.svg())
	b.WriteString(bars(d.Latency))
	requests := []line{{"sent", "cx", true, rate}}
	if d.Failed > 0 {
		requests = append(requests, line{"failed", "c99", true, failed})
	}
	b.WriteString(chart{"Requests", "per second", x, requests, breaks}.svg())
	lines := []line{{"busy", "cx", true, users}}
	if waits {
		lines = append(lines, line{"arrivals that wait", "c95", false, queue})
	}
	b.WriteString(chart{"Users", "", x, lines, breaks}.svg())
	b.WriteString("</div>\n")
}

func (d *Report) phaseTable() present.Table {
	t := present.Table{Columns: []present.Column{{Name: "PHASE"}}}
	for _, n := range []string{"COUNT", "P50", "P95", "P99", "MAX"} {
		t.Columns = append(t.Columns, present.Column{Name: n, Kind: present.Number})
	}
	for _, name := range []string{"late", "dns", "connect", "tls", "send", "first_byte", "receive", "service"} {
		if p, ok := d.Phases[name]; ok {
			t.Add(name, fmt.Sprint(p.Count), Millis(p.P50), Millis(p.P95), Millis(p.P99), Millis(p.Max))
		}
	}
	return t
}

func (d *Report) allChecks() present.Table {
	t := present.Table{Columns: []present.Column{{Name: ""}, {Name: "CHECK"}, {Name: "STEP"}, {Name: "HELD", Kind: present.Number}, {Name: "FAILED", Kind: present.Number}}}
	for _, c := range d.Checks {
		state := "ok"
		if c.Failed > 0 || c.Passed == 0 {
			state = "fail"
		}
		t.Add(state, c.Text, c.Step, fmt.Sprint(c.Passed), fmt.Sprint(c.Failed))
	}
	return t
}

func (d *Report) generator(b *strings.Builder) {
	g := d.Generator
	fmt.Fprintf(b, "<h2>Generator</h2><p class=\"note\">Starts late by p50 %s, p99 %s, at most %s ms where a user was free; up to %s of the processors over 10 s; at most %d users busy, %d arrivals waiting.</p>\n",
		Millis(g.LateP50), Millis(g.LateP99), Millis(g.LateMax), Percent(g.CPU), g.PeakUsers, g.PeakQueue)
	if len(g.Doubts) == 0 || d.Verdict == rule.Suspect { // which says them above
		return
	}
	b.WriteString("<ul>")
	for _, x := range g.Doubts {
		fmt.Fprintf(b, "<li>in doubt: %s</li>", html.EscapeString(x))
	}
	b.WriteString("</ul>\n")
}

// section is a table of the page.
func section(b *strings.Builder, title string, t present.Table, some bool, note string) {
	if !some {
		return
	}
	e := html.EscapeString
	fmt.Fprintf(b, "<h2>%s</h2><div class=\"wide\"><table><thead><tr>", e(title))
	var number []bool
	for _, c := range t.Columns {
		if c.Wide {
			continue
		}
		number = append(number, c.Kind == present.Number)
		fmt.Fprintf(b, "<th%s>%s</th>", alignment(c.Kind == present.Number), e(strings.ToLower(c.Name)))
	}
	b.WriteString("</tr></thead><tbody>\n")
	for _, row := range t.Lines(present.FormTable) {
		b.WriteString("<tr>")
		for i, cell := range row {
			class := alignment(number[i])
			if i == 0 && (cell == "ok" || cell == "fail") {
				class = " class=\"" + cell + "\""
			}
			fmt.Fprintf(b, "<td%s>%s</td>", class, e(cell))
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</tbody></table></div>\n")
	if note != "" {
		fmt.Fprintf(b, "<p class=\"note\">%s</p>\n", e(note))
	}
}

func alignment(number bool) string {
	if number {
		return " class=\"n\""
	}
	return ""
}
