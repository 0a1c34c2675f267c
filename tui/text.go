package tui

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/present"
)

// The smallest screen that is drawn.
const (
	minWidth  = 60
	minHeight = 12
)

// silent is how long a watch may say nothing: in large clusters it tells ages each 5 s.
const silent = 12 * time.Second

// mark stands before the chosen row; the others have as much room.
const mark = "> "

// Text is the screen: as many lines as the terminal has, none of them wider.
func (m *Model) Text() string {
	if m.o.Page {
		return m.plain(strings.Join(m.statusPage(), "\n"))
	}
	if m.screen.width < minWidth || m.screen.height < minHeight {
		return m.plain(strings.Join(m.small(), "\n"))
	}
	s, known := one[api.Status](&m.said, "status")
	lines := []string{m.ends(m.headline(s, known), m.state()), m.fitting(m.summary(s, known)), m.tabs()}
	switch m.mode {
	case modeHelp:
		lines = append(lines, m.window(strings.Split(help, "\n"))...)
	case modeDetail:
		lines = append(lines, m.window(m.detail())...)
	default:
		lines = append(lines, m.table()...)
	}
	for len(lines) < m.screen.height-1 {
		lines = append(lines, "")
	}
	return m.plain(strings.Join(append(lines, m.last()), "\n"))
}

// small says that the terminal is.
func (m *Model) small() []string {
	lines := []string{
		fmt.Sprintf("%dx%d is too small,", m.screen.width, m.screen.height),
		fmt.Sprintf("%dx%d is needed;", minWidth, minHeight),
		"q ends",
	}
	for i, s := range lines {
		lines[i] = m.cut(s)
	}
	return lines[:max(0, min(len(lines), m.screen.height))]
}

// body is how many lines lie between the three at the head and the last.
func (m *Model) body() int { return m.screen.height - 4 }

// above are the lines over the table, a third of the body at most.
func (m *Model) above() []string {
	list := m.page.above
	if most := max(1, m.body()/3); len(list) > most {
		rest := len(list) - most + 1
		list = append(list[:most-1:most-1], fmt.Sprintf("and %d lines more", rest))
	}
	return list
}

// room is how many rows a table shows.
func (m *Model) room() int { return max(1, m.body()-len(m.above())-1) }

// lines is how long what is read is.
func (m *Model) lines() int {
	if m.mode == modeHelp {
		return strings.Count(help, "\n") + 1
	}
	return len(m.detail())
}

func (m *Model) cut(s string) string { return present.Cut(present.Plain(s), m.screen.width) }

// ends writes a text at the left end and one at the right, which stays whole.
func (m *Model) ends(left, right string) string {
	room := m.screen.width - utf8.RuneCountInString(right) - 1
	if room < 1 {
		return m.cut(left)
	}
	left = present.Cut(present.Plain(left), room)
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

func (m *Model) headline(s api.Status, known bool) string {
	if !known {
		return " waiting for the first picture of " + present.OrDash(m.said.hello.Node)
	}
	text := fmt.Sprintf(" %s  %s*  term %s  %s", present.OrDash(s.Cluster), m.said.hello.Node, present.TermOf(uint64(s.Term)), s.State)
	if len(s.Reasons) > 0 {
		text += ": " + strings.Join(s.Reasons, ", ")
	}
	return text
}

// state says how new the picture is.
func (m *Model) state() string {
	clock := m.line.now.UTC().Format(time.TimeOnly) + "Z "
	age := m.line.now.Sub(m.line.heard)
	switch {
	case m.line.heard.IsZero():
		return clock + "connecting "
	case m.line.cause != nil || age > silent:
		return clock + fmt.Sprintf("stale %ds ", int(max(0, age).Seconds()))
	case m.stopped && m.missed > 0:
		return clock + fmt.Sprintf("paused, %d new ", m.missed)
	case m.stopped:
		return clock + "paused "
	}
	return clock + "live "
}

// fitting is a line of as many of the parts as have room: a part is not cut, it is left out.
func (m *Model) fitting(parts []string) string {
	line := ""
	for i, s := range parts {
		s = present.Plain(s)
		if i > 0 && utf8.RuneCountInString(line)+2+utf8.RuneCountInString(s) > m.screen.width {
			continue
		}
		line += strings.Repeat(" ", min(2, i+1)) + s
	}
	return m.cut(line)
}

// summary are the parts of the second line, what matters most first.
func (m *Model) summary(s api.Status, known bool) []string {
	if !known {
		return nil
	}
	holder := "holder " + present.OrDash(s.Lease.Holder)
	if s.Lease.RenewedSeconds != nil {
		holder += " " + present.AgeOf(s.Lease.RenewedSeconds)
	}
	if was, cause := m.said.before(s, m.line.now.Add(m.said.ahead)); was != "" {
		holder += " after " + string(was)
		if cause != "" {
			holder += " (" + cause + ")"
		}
	}
	parts := []string{holder}
	if s.Lease.Publisher != s.Lease.Holder {
		parts = append(parts, "publisher "+present.OrDash(s.Lease.Publisher))
	}
	if s.Publish.State == api.PublishFailing {
		parts = append(parts, "publishing fails")
	}
	if s.Publish.State == api.PublishOK && s.Publish.PublishedAt != nil {
		parts = append(parts, "published "+present.When(*s.Publish.PublishedAt, m.line.now.Add(m.said.ahead), false))
	}
	log := fmt.Sprintf("log %d", s.Log.Events)
	switch {
	case s.Log.CheckProblem != "":
		log += " damaged"
	case s.Log.CheckedAt != nil:
		log += " ok " + present.When(*s.Log.CheckedAt, m.line.now.Add(m.said.ahead), false)
	default:
		log += " not checked"
	}
	if len(s.Log.Forked) > 0 {
		log += fmt.Sprintf(" forked: %s", s.Log.Forked[0])
	}
	return append(parts, log, fmt.Sprintf("jobs %d run %d wait", s.Jobs.Running, s.Jobs.Pending),
		fmt.Sprintf("%d/%d alive", s.Members.Alive, s.Members.Total))
}

func (m *Model) tabs() string {
	var b strings.Builder
	for v := range views {
		if text := m.tab(v); v == m.view {
			b.WriteString("[" + text + "]")
		} else {
			b.WriteString(" " + text + " ")
		}
	}
	keys := "? "
	switch {
	case m.screen.width >= 88:
		keys = "/ filter ? help "
	case m.screen.width >= 80:
		keys = "? help "
	}
	return m.ends(strings.TrimRight(b.String(), " "), keys)
}

// narrow is the width below which the tabs have no room for a space in each.
const narrow = 74

// tab is how a view is called.
func (m *Model) tab(v view) string {
	if m.screen.width < narrow {
		return fmt.Sprintf("%d%s", v+1, shortNames[v])
	}
	return fmt.Sprintf("%d %s", v+1, viewNames[v])
}

// table is the view that is chosen.
func (m *Model) table() []string {
	var lines []string
	for _, s := range m.above() {
		lines = append(lines, m.cut("  "+s))
	}
	if len(m.page.table.Rows) == 0 {
		return append(lines, m.cut("  "+m.nothing()))
	}
	width := m.screen.width - len(mark)
	text := strings.Split(strings.TrimSuffix(m.page.table.Write(present.FormTable, width, nil), "\n"), "\n")
	shown := text
	if m.o.Color {
		shown = strings.Split(strings.TrimSuffix(m.page.table.Write(present.FormTable, width, present.Paint), "\n"), "\n")
	}
	lines = append(lines, "  "+text[0])
	l := m.list()
	for i := l.top; i < min(l.top+m.room(), len(m.page.keys)); i++ {
		switch {
		case i != l.at:
			lines = append(lines, "  "+shown[i+1])
		case m.o.Color:
			lines = append(lines, "\x1b[7m"+mark+text[i+1]+"\x1b[0m")
		default:
			lines = append(lines, mark+text[i+1])
		}
	}
	return lines
}

// nothing says why a table has no row.
func (m *Model) nothing() string {
	switch {
	case m.line.heard.IsZero():
		return "nothing was heard of the cluster yet"
	case !m.said.tells(topicOf[m.view]):
		return "the daemon does not tell of " + topicOf[m.view] + ": is it of another version?"
	case m.list().filter != "":
		return "no row contains that; esc shows all"
	case m.view == viewEvents && m.about != event.Subject{}:
		return "none of the last events is about that; `skein events` has all"
	case m.view == viewMesh:
		return "no link is known: a host alone has none, and others report after some seconds"
	case m.view == viewWorkers:
		return "the holder has not told of its workers"
	}
	return "there are none"
}

// detail is all that is known of the row that is chosen.
func (m *Model) detail() []string {
	l := m.list()
	if l.at >= len(m.page.keys) || m.page.keys[l.at] != l.key {
		return []string{"it is gone; esc goes back"}
	}
	wide := 0
	for _, c := range m.page.table.Columns {
		wide = max(wide, len(c.Name))
	}
	var lines []string
	for i, c := range m.page.table.Columns {
		text := []rune(present.Plain(m.page.table.Rows[l.at][i].In(present.FormWide)))
		room := m.screen.width - wide - 4
		name := c.Name
		for first := true; first || len(text) > 0; first = false {
			n := min(len(text), room)
			lines = append(lines, fmt.Sprintf("%-*s  %s", wide, name, string(text[:n])))
			name, text = "", text[n:]
		}
	}
	return lines
}

// window is the part of some lines that is shown.
func (m *Model) window(lines []string) []string {
	from := min(m.scroll, max(0, len(lines)-m.body()))
	var shown []string
	for _, s := range lines[from:min(len(lines), from+m.body())] {
		shown = append(shown, m.cut("  "+s))
	}
	return shown
}

// last is the line that asks, or tells.
func (m *Model) last() string {
	switch m.ask.what {
	case promptFilter:
		return m.typing("/", m.ask.input)
	case promptCommand:
		return m.typing(":", m.ask.input)
	case promptConfirm:
		return m.typing(m.ask.action.consequence()+": type "+m.ask.action.Name+" to do it: ", m.ask.input)
	}
	if m.notice != "" {
		return m.cut(" " + m.notice)
	}
	var parts []string
	if n := m.lines(); m.mode != modeList && n > m.body() {
		return fmt.Sprintf(" lines %d to %d of %d; j goes on, esc goes back", m.scroll+1, min(n, m.scroll+m.body()), n)
	}
	if m.view == viewEvents && m.about != (event.Subject{}) {
		parts = append(parts, "about "+cmp.Or(m.about.Job, m.about.Run, m.about.Member, m.about.Worker))
	}
	l := m.list()
	if l.filter != "" {
		parts = append(parts, "/"+l.filter)
	}
	if l.sort >= 0 && l.sort < len(m.page.table.Columns) {
		parts = append(parts, "by "+m.page.table.Columns[l.sort].Name)
	}
	if n := len(m.page.keys); n > m.room() {
		parts = append(parts, fmt.Sprintf("%d of %d", l.at+1, n))
	}
	if m.line.unread > 0 {
		parts = append(parts, present.Plural(m.line.unread, "message")+" not understood: is the daemon of another version?")
	}
	if m.line.cause != nil {
		parts = append(parts, m.line.cause.Error())
	}
	if e, ok := m.said.latest(); ok && len(parts) == 0 && m.view != viewEvents {
		parts = append(parts, e.HLC.Time().Format(time.TimeOnly)+"  "+present.Brief(present.Sentence(e.Source.Node, e.Kind, e.Body)))
	}
	return m.cut(" " + strings.Join(parts, "  "))
}

// typing shows the end of what is typed.
func (m *Model) typing(before, input string) string {
	text := []rune(present.Plain(before + input + "_"))
	return string(text[max(0, len(text)-m.screen.width):])
}

// statusPage is the page of `skein status`.
func (m *Model) statusPage() []string {
	s, known := one[api.Status](&m.said, "status")
	if !known {
		return []string{m.ends(m.headline(s, known), m.state())}
	}
	s.Node, s.ObservedAt = cluster.NodeID(m.said.hello.Node), m.line.now.Add(m.said.ahead)
	lines := []string{m.ends("* "+present.Headline(s), m.state())}
	wide := 0
	fields := present.Status(s)
	for _, f := range fields {
		wide = max(wide, len(f.Name))
	}
	for _, f := range fields {
		lines = append(lines, m.cut(fmt.Sprintf("  %-*s  %s", wide, f.Name, f.Text)))
	}
	return lines[:max(0, min(len(lines), m.screen.height))]
}
