package loadview

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
)

// Options say what is shown, and what keys do.
type Options struct {
	Name  string // of the test
	ID    string // of the run; empty: of this machine
	Color bool
	ASCII bool // the terminal has no UTF-8
	// Stop has the test end. Mine: so does Ctrl-C, which leaves it when it is pressed again.
	Stop func() error
	Mine bool
}

// Messages to the model.
type (
	// Heard is what was counted since, in its order.
	Heard struct {
		At   time.Time
		List []api.LoadLive
	}
	// Lost says that nobody answers; it is tried again.
	Lost struct{ Cause error }
	// Tick is the time.
	Tick struct{ At time.Time }
	// Said is something to be told beside.
	Said struct{ Text string }
)

// section is a part of the screen.
type section int

const (
	all section = iota
	phases
	hosts
	errs
	thresholds
)

const (
	// recent is over how much time rates and latencies are told.
	recent = 5 * time.Second
	// sparks is how many seconds of p99 are kept.
	sparks = 60
)

// Model is the state of the screen. Its one owner is the program that runs it.
type Model struct {
	o      Options
	width  int
	height int
	line   line
	last   api.LoadLive // as it came; of its counts, see sums
	sums   sums
	focus  section
	scroll int
	notice string
	asked  bool // s was pressed once
	ending bool // Stop was called
}

// line is what is known of the feed.
type line struct {
	now, heard time.Time
	cause      error
}

// New makes a model that knows nothing yet.
func New(o Options) *Model { return &Model{o: o, width: 80, height: 24} }

// Ended reports that the test has.
func (m *Model) Ended() bool { return m.last.State == event.LoadEnded }

// Init implements tea.Model.
func (m *Model) Init() tea.Cmd { return nil }

// View implements tea.Model.
func (m *Model) View() tea.View {
	v := tea.NewView(m.Text())
	v.AltScreen = true
	return v
}

// Update implements tea.Model.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case Tick:
		m.line.now = msg.At
		m.sums.tick(msg.At)
	case Heard:
		m.line = line{now: msg.At, heard: msg.At}
		for _, x := range msg.List {
			m.sums.add(x, msg.At)
			m.last = x
		}
		m.sums.tick(msg.At)
		if m.Ended() {
			return m, tea.Quit
		}
	case Lost:
		m.line.cause = msg.Cause
	case Said:
		m.notice = msg.Text
	case tea.KeyPressMsg:
		return m, m.key(msg.String())
	}
	return m, nil
}

// stop has the test end.
func (m *Model) stop() tea.Cmd {
	m.notice, m.ending = "asked for its end", true
	return func() tea.Msg {
		if err := m.o.Stop(); err != nil {
			return Said{"not ended: " + err.Error()}
		}
		return Said{"it ends: what is under way has 2 s"}
	}
}

// key does what a key says.
func (m *Model) key(key string) tea.Cmd {
	again := m.asked
	m.asked, m.notice = false, ""
	switch key {
	case "q":
		return tea.Quit
	case "ctrl+c":
		if !m.o.Mine || m.ending {
			return tea.Quit
		}
		return m.stop()
	case "s":
		if !again {
			m.asked = true
			return nil
		}
		return m.stop()
	case "p":
		m.turn(phases)
	case "h":
		m.turn(hosts)
	case "e":
		m.turn(errs)
	case "t":
		m.turn(thresholds)
	case "tab":
		m.focus, m.scroll = (m.focus+1)%(thresholds+1), 0
	case "esc":
		m.focus, m.scroll = all, 0
	case "j", "down":
		m.scroll++
	case "k", "up":
		m.scroll--
	case "pgdown", "space":
		m.scroll += m.body() - 1
	case "pgup":
		m.scroll -= m.body() - 1
	}
	m.scroll = max(0, min(m.scroll, len(m.section())-m.body()))
	return nil
}

// turn shows one section alone, or all again.
func (m *Model) turn(to section) {
	if m.focus == to {
		to = all
	}
	m.focus, m.scroll = to, 0
}
