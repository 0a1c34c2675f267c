package tui

import (
	"slices"
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/present"
)

// help is what ? shows.
const help = `1-8         hosts, mesh, events, jobs, workers, onion, runs, load tests
j k         down, up; arrows, PgDn and PgUp as well
g G         to the first, to the last; G follows the events
enter       all that is known of the row
e           its events
s           sort by the next column
/           only rows that contain a text; empty: all
p           pause: the table stays as it is
c           events of chunks that go well: shown, or not
esc         back; then all rows, all events
:           change something, after the name was typed once more:
              :step-down     the holder hands the lease over
              :drain HOST    it begins no more chunks
              :undrain HOST  it begins chunks again
              :stop JOB      the job ends; by its name or id
              :stop-load TEST  the load test ends
q           end`

// key does what a key says.
func (m *Model) key(key string) tea.Cmd {
	if key == "ctrl+c" || m.o.Page && key == "q" {
		return tea.Quit
	}
	if m.o.Page {
		return nil
	}
	if m.ask.what != promptNone {
		return m.answer(key)
	}
	m.notice = ""
	switch key {
	case "q":
		return tea.Quit
	case "1", "2", "3", "4", "5", "6", "7", "8":
		m.show(view(key[0] - '1'))
	case "esc":
		m.back()
	case "?":
		m.mode, m.scroll = modeHelp, 0
	case "/":
		m.mode, m.ask = modeList, asking{what: promptFilter, input: m.list().filter}
	case ":":
		m.ask = asking{what: promptCommand}
	case "enter":
		if m.mode == modeList && len(m.page.keys) > 0 {
			m.mode, m.scroll = modeDetail, 0
			m.list().key = m.page.keys[m.list().at]
		}
	case "e":
		if i := m.list().at; m.mode != modeHelp && i < len(m.page.about) {
			about := m.page.about[i]
			m.show(viewEvents)
			m.about, m.lists[viewEvents].key, m.lists[viewEvents].filter = about, "", ""
		}
	case "s":
		m.nextSort()
	case "c":
		m.chunks = !m.chunks
	case "p":
		m.stopped, m.missed = !m.stopped, 0
	default:
		m.move(key)
	}
	return nil
}

func (m *Model) show(v view) {
	m.view, m.mode, m.stopped, m.missed = v, modeList, false, 0
}

func (m *Model) back() {
	l := m.list()
	switch {
	case m.mode != modeList:
		m.mode = modeList
	case l.filter != "":
		l.filter = ""
	case m.view == viewEvents:
		m.about = event.Subject{}
	}
}

// move goes up or down, in the list or in what is read.
func (m *Model) move(key string) {
	by, page := 0, max(1, m.room()-1)
	switch key {
	case "j", "down":
		by = 1
	case "k", "up":
		by = -1
	case "pgdown", "ctrl+f", "space":
		by = page
	case "pgup", "ctrl+b":
		by = -page
	case "g", "home":
		by = -maxRows
	case "G", "end":
		by = maxRows
	default:
		return
	}
	if m.mode != modeList {
		m.scroll = max(0, min(m.scroll+by, m.lines()-m.body()))
		return
	}
	l, n := m.list(), len(m.page.keys)
	if n == 0 {
		return
	}
	l.at = max(0, min(l.at+by, n-1))
	l.key = m.page.keys[l.at]
	if m.view == viewEvents && by == maxRows {
		l.key = "" // go on with those that come
	}
}

// nextSort sorts by the next column that is on the screen, and then as the view comes.
func (m *Model) nextSort() {
	l := m.list()
	shown := m.page.table.Fit(m.screen.width - len(mark)).Names(present.FormTable)
	for l.sort++; l.sort < len(m.page.table.Columns); l.sort++ {
		if slices.Contains(shown, m.page.table.Columns[l.sort].Name) {
			return
		}
	}
	l.sort = -1
}

// answer edits the last line.
func (m *Model) answer(key string) tea.Cmd {
	a := &m.ask
	switch key {
	case "esc":
		if a.what == promptFilter {
			m.list().filter = ""
		}
		*a = asking{}
	case "backspace":
		if a.input == "" {
			*a = asking{}
			return nil
		}
		_, n := utf8.DecodeLastRuneInString(a.input)
		a.input = a.input[:len(a.input)-n]
	case "ctrl+u":
		a.input = ""
	case "enter":
		return m.entered()
	case "space":
		m.typed(" ")
	default:
		if utf8.RuneCountInString(key) == 1 {
			m.typed(key)
		}
	}
	if a.what == promptFilter {
		m.list().filter = strings.ToLower(a.input)
	}
	return nil
}

// typed takes what was typed or pasted, to the end of the line.
func (m *Model) typed(text string) {
	text, _, _ = strings.Cut(text, "\n")
	if text = m.ask.input + present.Plain(strings.TrimRight(text, "\r")); len(text) <= maxInput {
		m.ask.input = text
	}
	if m.ask.what == promptFilter {
		m.list().filter = strings.ToLower(m.ask.input)
	}
}

// entered ends a line.
func (m *Model) entered() tea.Cmd {
	a := m.ask
	m.ask = asking{}
	switch a.what {
	case promptCommand:
		action, err := m.said.actionOf(a.input)
		if err != nil {
			m.notice = err.Error()
			return nil
		}
		m.ask = asking{what: promptConfirm, action: action}
	case promptConfirm:
		if strings.TrimSpace(a.input) != a.action.Name {
			m.notice = "nothing done: that is not " + a.action.Name
			return nil
		}
		m.notice = "asked: " + a.action.consequence()
		act := m.o.Act
		return func() tea.Msg {
			text, err := act(a.action)
			return Acted{text, err}
		}
	}
	return nil
}
