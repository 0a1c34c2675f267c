package tui

import (
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/present"
)

// Options say how the picture looks, and what may be done from it.
type Options struct {
	Color bool
	ASCII bool // the terminal has no UTF-8
	// Mouse has the terminal tell of clicks and of the wheel, which it then no longer
	// uses to select text.
	Mouse bool
	// Page shows the page of `skein status` instead of the views; no key but those
	// that end does anything.
	Page bool
	// Act carries an action out and says what came of it; it may take its time.
	Act func(Action) (string, error)
}

// Messages to the model.
type (
	// Heard is what the watch said, in its order.
	Heard struct {
		At       time.Time
		Messages []api.WatchMessage
	}
	// Lost says that the watch broke; it is tried again.
	Lost struct{ Cause error }
	// Tick is the time.
	Tick struct{ At time.Time }
	// Acted is what came of an action.
	Acted struct {
		Text string
		Err  error
	}
)

// mode is what the body of the screen shows.
type mode int

const (
	modeList mode = iota
	modeDetail
	modeHelp
)

// prompt is what the last line asks for.
type prompt int

const (
	promptNone prompt = iota
	promptFilter
	promptCommand
	promptConfirm
)

// maxInput bounds what is typed.
const maxInput = 200

// list is where the reader is in a view.
type list struct {
	key    string // of the row that is chosen; empty: the first, or the last event
	at     int    // where it was
	top    int    // first row on the screen
	filter string // lower case
	sort   int    // column; -1: as the view comes
}

// asking is an open prompt.
type asking struct {
	what   prompt
	input  string
	action Action // to be confirmed
}

// screen is the size of the terminal.
type screen struct{ width, height int }

// line is what is known of the watch itself.
type line struct {
	now, heard time.Time
	cause      error // why it broke; nil: it is there
	unread     int   // messages that were not understood
}

// Model is the state of the screen. Its one owner is the program that runs it.
type Model struct {
	o       Options
	said    watched
	line    line
	screen  screen
	view    view
	mode    mode
	scroll  int // of a detail or the help
	lists   [views]list
	ask     asking
	notice  string
	about   event.Subject // of the events
	chunks  bool          // the events of those that go well are shown
	page    page          // of the view, as filtered and sorted
	missed  int           // events since the pause
	stopped bool          // paused: the page stays
}

// New makes a model that knows nothing yet.
func New(o Options) *Model {
	m := &Model{o: o, screen: screen{80, 24}}
	for i := range m.lists {
		m.lists[i].sort = -1
	}
	return m
}

// Init implements tea.Model.
func (m *Model) Init() tea.Cmd { return nil }

// View implements tea.Model.
func (m *Model) View() tea.View {
	v := tea.NewView(m.Text())
	v.AltScreen = true
	if m.o.Mouse {
		v.MouseMode = tea.MouseModeCellMotion
	}
	return v
}

// Update implements tea.Model.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.screen = screen{msg.Width, msg.Height}
	case Tick:
		m.line.now = msg.At
	case Heard:
		m.hear(msg)
	case Lost:
		m.line.cause = msg.Cause
	case Acted:
		m.notice = msg.Text
		if msg.Err != nil {
			m.notice = "not done: " + msg.Err.Error()
		}
	case tea.KeyPressMsg:
		if cmd := m.key(msg.String()); cmd != nil {
			return m, cmd
		}
	case tea.MouseClickMsg:
		m.clicked(msg.X, msg.Y)
	case tea.MouseWheelMsg:
		m.turned(msg.Button)
	case tea.PasteMsg:
		if m.ask.what != promptNone {
			m.typed(msg.Content)
		}
	default:
		return m, nil
	}
	m.refresh()
	return m, nil
}

func (m *Model) hear(h Heard) {
	m.line.now, m.line.heard, m.line.cause = h.At, h.At, nil
	before := len(m.said.events)
	for _, msg := range h.Messages {
		if err := m.said.apply(msg, h.At); err != nil {
			m.line.unread++
		}
	}
	if m.stopped {
		m.missed += max(0, len(m.said.events)-before)
	}
}

// list is where the reader is in the view that is shown.
func (m *Model) list() *list { return &m.lists[m.view] }

// refresh makes the page anew, and finds the chosen row in it.
func (m *Model) refresh() {
	if !m.stopped {
		all := m.chunks || m.about != (event.Subject{}) || m.list().filter != ""
		m.page = m.said.pageOf(m.view, m.about, all, m.line.now)
		m.page.steady()
		m.page.narrow(m.list().filter)
		m.page.order(m.list().sort)
	}
	l := m.list()
	n := len(m.page.keys)
	at := slices.Index(m.page.keys, l.key)
	switch {
	case at >= 0:
		l.at = at
	case l.key == "" && m.view == viewEvents:
		l.at = n - 1
	case l.key == "":
		l.at = 0
	}
	l.at = max(0, min(l.at, n-1))
	// The chosen row is on the screen, and as few lines as possible lie free below.
	room := m.room()
	l.top = max(0, min(l.top, n-room))
	if l.at < l.top {
		l.top = l.at
	} else if l.at >= l.top+room {
		l.top = l.at - room + 1
	}
}

// narrow leaves the rows that contain a text.
func (p *page) narrow(text string) {
	if text == "" {
		return
	}
	var rows [][]present.Cell
	keys, about := p.keys, p.about
	p.keys, p.about = nil, nil
	for i, row := range p.table.Rows {
		if slices.ContainsFunc(row, func(c present.Cell) bool {
			return strings.Contains(strings.ToLower(c.Text), text) || strings.Contains(strings.ToLower(c.Exact), text)
		}) {
			rows = append(rows, row)
			p.row(keys[i], about[i])
		}
	}
	p.table.Rows = rows
}

// order sorts the rows by a column; what is not known comes last.
func (p *page) order(column int) {
	if column < 0 || column >= len(p.table.Columns) {
		return
	}
	at := make([]int, len(p.table.Rows))
	for i := range at {
		at[i] = i
	}
	rows, keys, about := p.table.Rows, p.keys, p.about
	slices.SortStableFunc(at, func(a, b int) int {
		return compare(rows[a][column], rows[b][column])
	})
	p.table.Rows, p.keys, p.about = make([][]present.Cell, len(at)), nil, nil
	for i, k := range at {
		p.table.Rows[i] = rows[k]
		p.row(keys[k], about[k])
	}
}

func compare(a, b present.Cell) int {
	x, y := a.In(present.FormPlain), b.In(present.FormPlain)
	if (x == present.Unknown) != (y == present.Unknown) {
		if x == present.Unknown {
			return 1
		}
		return -1
	}
	f, err := strconv.ParseFloat(strings.TrimSuffix(x, "%"), 64)
	g, err1 := strconv.ParseFloat(strings.TrimSuffix(y, "%"), 64)
	if err == nil && err1 == nil {
		switch {
		case f < g:
			return -1
		case f > g:
			return 1
		}
		return 0
	}
	return strings.Compare(x, y)
}
