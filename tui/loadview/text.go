package loadview

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/load/report"
	"github.com/skein-project/skein/present"
)

// The smallest screen that is drawn.
const (
	minWidth  = 60
	minHeight = 12
)

// Full is what a terminal has at least that shows this view of itself.
const (
	FullWidth  = 80
	FullHeight = 24
)

const (
	// silent is how long nothing new may come of a run.
	silent = 5 * time.Second
	// head are the lines over the sections.
	head = 3
	// doubtful is the share of the processors above which figures may be a host's own, and
	// uncertain how far, in seconds, two may have begun apart.
	doubtful  = 0.85
	uncertain = 0.02
)

// Text is the screen: as many lines as the terminal has, none of them wider.
func (m *Model) Text() string {
	if m.width < minWidth || m.height < minHeight {
		return m.plain(m.cut(fmt.Sprintf("%dx%d is too small; q leaves", m.width, m.height)))
	}
	lines := []string{m.ends(m.headline(), m.state()), m.cut(m.traffic()), m.cut(m.latency())}
	text := m.section()
	from := max(0, min(m.scroll, len(text)-m.body()))
	for _, s := range text[from:min(len(text), from+m.body())] {
		lines = append(lines, m.painted(m.cut(s)))
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	return m.plain(strings.Join(append(lines, m.cut(m.foot())), "\n"))
}

// body is how many lines the sections have.
func (m *Model) body() int { return max(1, m.height-head-1) }

func (m *Model) cut(s string) string { return present.Cut(present.Plain(s), m.width) }

// ends writes a text at the left end and one at the right, which stays whole.
func (m *Model) ends(left, right string) string {
	room := m.width - utf8.RuneCountInString(right) - 1
	left = present.Cut(present.Plain(left), max(1, room))
	return left + strings.Repeat(" ", max(1, room-utf8.RuneCountInString(left)+1)) + right
}

// plain leaves what the terminal can show.
func (m *Model) plain(s string) string {
	if !m.o.ASCII {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '…':
			return '~'
		case r > '~':
			return '?'
		}
		return r
	}, s)
}

// painted marks lines that are bad news.
func (m *Model) painted(s string) string {
	if m.o.Color && (strings.Contains(s, " BREACH ") || strings.Contains(s, " lost:") || strings.Contains(s, " silent since ") || strings.Contains(s, " suspect:")) {
		return "\x1b[31m" + s + "\x1b[0m"
	}
	return s
}

func (m *Model) headline() string {
	x := m.last
	name := " " + cmp.Or(m.o.Name, "load test")
	if m.o.ID != "" {
		name += " " + m.o.ID[:min(len(m.o.ID), 9)]
	}
	if x.Of == 0 {
		return name + "  " + cmp.Or(string(x.State), "waits for the first counts")
	}
	const wide = 18
	done := int(math.Round(wide * min(1, x.At/x.Of)))
	state := cmp.Or(x.Verdict, string(x.State))
	switch {
	case x.Warm:
		state = "warm-up"
	case x.State == event.LoadStarted:
		state = "running"
	}
	hosts := 0
	for _, h := range x.Hosts {
		if h.Lost == "" {
			hosts++
		}
	}
	return fmt.Sprintf("%s  %s %s / %s [%s%s]  %s", name, state, clock(x.At), clock(x.Of), strings.Repeat("#", done), strings.Repeat(".", wide-done), present.Plural(hosts, "host"))
}

// clock is minutes and seconds.
func clock(seconds float64) string {
	n := int(seconds)
	if n >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", n/3600, n/60%60, n%60)
	}
	return fmt.Sprintf("%02d:%02d", n/60, n%60)
}

// state says how new the picture is.
func (m *Model) state() string {
	age := m.line.now.Sub(m.line.heard)
	switch {
	case m.line.heard.IsZero():
		return "connecting "
	case m.line.cause != nil || age > silent:
		return fmt.Sprintf("stale %ds ", int(max(0, age).Seconds()))
	}
	return "live "
}

func (m *Model) traffic() string {
	x, s := m.last, &m.sums
	planned := ""
	if x.Planned > 0 {
		planned = " of " + strings.TrimSuffix(report.PerSecond(x.Planned), "/s")
	}
	failed := float64(s.failed) / max(1, float64(s.requests+s.dropped))
	return fmt.Sprintf(" %s%s   users %d   queue %d   dropped %d   failed %s   requests %d", report.PerSecond(s.rate()), planned, x.Users, x.Queue, s.dropped, report.Percent(min(1, failed)), s.requests)
}

func (m *Model) latency() string {
	t := m.sums.latency(m.sums.steps...)
	if t.P50 == 0 {
		return " latency  nothing has ended in the last seconds"
	}
	text := fmt.Sprintf(" latency  p50 %s  p95 %s  p99 %s  max %s ms", report.Millis(t.P50), report.Millis(t.P95), report.Millis(t.P99), report.Millis(m.sums.most))
	if room := m.width - utf8.RuneCountInString(text) - len("   p99 "); room > 4 {
		text += "   p99 " + m.spark(min(room-1, sparks))
	}
	return text
}

// spark is p99 over the last seconds.
func (m *Model) spark(room int) string {
	signs := []rune("▁▂▃▄▅▆▇█")
	if m.o.ASCII {
		signs = []rune("_.:-=+*#")
	}
	list := m.sums.p99[max(0, len(m.sums.p99)-room):]
	most := 0.0
	for _, v := range list {
		most = max(most, v)
	}
	var b strings.Builder
	for _, v := range list {
		if v == 0 {
			b.WriteByte(' ')
			continue
		}
		b.WriteRune(signs[min(len(signs)-1, int(v/most*float64(len(signs)-1)+0.5))])
	}
	return b.String()
}

// section is what the body shows. With all of them each gets the room that it needs as far
// as the next ones leave it.
func (m *Model) section() []string {
	switch m.focus {
	case phases:
		return m.phases()
	case hosts:
		return m.hosts()
	case errs:
		return m.failures()
	case thresholds:
		return m.thresholds()
	}
	parts := [][]string{m.steps(), m.hosts(), m.thresholds(), m.failures()}
	room := m.body() - len(parts) + 1 // lines between them
	var lines []string
	for i, p := range parts {
		most := room
		for _, later := range parts[i+1:] {
			most -= min(len(later), 3)
		}
		if most = max(most, 2); len(p) > most {
			p = append(p[:most-1:most-1], fmt.Sprintf("  and %d more", len(p)-most+1))
		}
		room -= len(p)
		if i > 0 && len(p) > 0 && len(lines) > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, p...)
	}
	return lines
}

// table writes a table with a blank before each line.
func (m *Model) table(t present.Table) []string {
	if len(t.Rows) == 0 {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(t.Write(present.FormTable, m.width-1, nil), "\n"), "\n")
	for i := range lines {
		lines[i] = " " + lines[i]
	}
	return lines
}

func (m *Model) steps() []string {
	t := present.Table{Columns: []present.Column{{Name: "STEP"}, number("RATE"), number("P50"), number("P95"), number("P99"), number("FAILED"), number("CHECKS")}}
	rate := m.sums.rate()
	for _, s := range m.sums.steps {
		if s.requests+s.failed == 0 {
			continue // of setup, or its turn is to come
		}
		l := m.sums.latency(s)
		millis := func(x float64) string {
			if l.P50 == 0 {
				return present.Unknown
			}
			return report.Millis(x)
		}
		checks := present.Unknown
		if n := s.checks.Passed + s.checks.Failed; n > 0 {
			checks = report.Percent(float64(s.checks.Passed) / float64(n))
		}
		failed := float64(s.failed) / max(1, float64(s.requests+s.dropped))
		t.Add(s.name, report.PerSecond(rate*m.sums.part(s)), millis(l.P50), millis(l.P95), millis(l.P99), report.Percent(min(1, failed)), checks)
	}
	return m.table(t)
}

// phases are what parts of requests took in the last seconds.
func (m *Model) phases() []string {
	t := present.Table{Columns: []present.Column{{Name: "PHASE"}, number("P50"), number("P95"), number("P99"), number("MAX")}}
	for _, p := range m.sums.phases {
		if l := m.sums.latency(p); l.P50 > 0 {
			t.Add(p.name, report.Millis(l.P50), report.Millis(l.P95), report.Millis(l.P99), report.Millis(l.Max))
		}
	}
	if len(t.Rows) == 0 {
		return []string{" nothing has ended in the last seconds"}
	}
	return append(m.table(t), "", " milliseconds of the last seconds, of all steps", " late: since it was due; first_byte: the target's own part")
}

func number(name string) present.Column { return present.Column{Name: name, Kind: present.Number} }

func (m *Model) hosts() []string {
	t := present.Table{Columns: []present.Column{{Name: "HOST"}, number("SHARE"), number("RATE"), number("LATE P99"), number("CPU"), number("CLOCK"), {Name: "STATE"}}}
	for _, h := range m.last.Hosts {
		rate, late, cpu := present.Unknown, present.Unknown, present.Unknown
		if h.Lost == "" && h.Stage != "silent" {
			rate, cpu = report.PerSecond(0), report.Percent(h.CPU)
			if one := m.sums.hosts[string(h.Host)]; one != nil {
				rate = report.PerSecond(one.rate())
			}
			if h.LateP99 > 0 {
				late = report.Millis(h.LateP99) + " ms"
			}
		}
		t.Add(string(h.Host), report.Percent(h.Share), rate, late, cpu, "+-"+report.Millis(h.Clock)+" ms", stateOf(h))
	}
	return m.table(t)
}

// stateOf says how a host gets on, and what is in doubt of it.
func stateOf(h api.LoadHostLive) string {
	switch {
	case h.Lost != "":
		return "lost: " + h.Lost
	case h.Stage == "silent":
		return fmt.Sprintf("silent since %s", clock(h.At))
	case h.CPU > doubtful:
		return h.Stage + " suspect: CPU"
	case h.Clock > uncertain:
		return h.Stage + " suspect: clock"
	}
	return h.Stage
}

func (m *Model) thresholds() []string {
	var lines []string
	for _, x := range m.last.Thresholds {
		word, value := "ok    ", "no samples"
		if x.Samples {
			value = report.Quantity(x.Value, x.Unit)
		}
		if !x.OK && x.Samples {
			word = "BREACH"
		} else if !x.Samples {
			word = "-     "
		}
		lines = append(lines, fmt.Sprintf(" %s %s  %s", word, x.Text, value))
	}
	return lines
}

func (m *Model) failures() []string {
	list := m.sums.failures()
	if len(list) == 0 {
		return nil
	}
	if m.focus == errs {
		t := present.Table{Columns: []present.Column{{Name: "ERROR"}, {Name: "STEP"}, number("COUNT")}}
		for _, f := range list {
			t.Add(f.class, f.step, fmt.Sprint(f.n))
		}
		return m.table(t)
	}
	line := " ERRORS"
	var lines []string
	for _, f := range list {
		one := fmt.Sprintf("  %s %d %s", f.class, f.n, f.step)
		if utf8.RuneCountInString(line+one) > m.width {
			lines = append(lines, line)
			line = "       "
		}
		line += one
	}
	return append(lines, line)
}

// foot is the last line: what is asked, what happens, or which keys there are.
func (m *Model) foot() string {
	switch {
	case m.asked:
		return " s once more ends the test for everybody; another key does not"
	case m.notice != "":
		return " " + m.notice
	case m.line.cause != nil:
		return " " + m.line.cause.Error()
	case m.last.Doing != "" && m.last.Doing != "running":
		return " " + m.last.Doing
	}
	leave := "q leaves it"
	if m.o.ID == "" {
		leave = "q ends it"
	}
	text := " " + leave + "  s stops it  p phases  h hosts  e errors  t thresholds  esc all"
	if n := len(m.section()); n > m.body() {
		text = fmt.Sprintf(" %d more lines: j k", n-m.body()) + text
	}
	return text
}
