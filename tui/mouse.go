package tui

import (
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
)

// Lines of the screen: the tabs, and the first line of the body.
const (
	tabsLine = 2
	bodyLine = 3
)

// wheelRows is how many rows one turn of the wheel moves.
const wheelRows = 3

// clicked chooses a view or a row; a click on the chosen row shows all of it, and one
// beside what is read goes back.
func (m *Model) clicked(x, y int) {
	if m.o.Page || m.ask.what != promptNone || m.screen.width < minWidth || m.screen.height < minHeight {
		return
	}
	m.notice = ""
	if y == tabsLine {
		if v, ok := m.tabAt(x); ok {
			m.show(v)
		}
		return
	}
	if m.mode != modeList {
		m.back()
		return
	}
	l := m.list()
	row := y - bodyLine - len(m.above()) - 1 // below the names of the columns
	at := l.top + row
	switch {
	case row < 0 || row >= m.room() || at >= len(m.page.keys):
	case at == l.at && l.key == m.page.keys[at]:
		m.key("enter")
	default:
		l.at, l.key = at, m.page.keys[at]
	}
}

// tabAt is the view whose name stands in a column.
func (m *Model) tabAt(x int) (view, bool) {
	line := []rune(m.tabs())
	if x < 0 || x >= len(line) {
		return 0, false
	}
	at := 0
	for v := range views {
		// Between brackets or spaces.
		end := at + utf8.RuneCountInString(m.tab(v)) + 2
		if x < end {
			return v, strings.TrimSpace(string(line[x])) != ""
		}
		at = end
	}
	return 0, false
}

// turned moves in the list, or in what is read.
func (m *Model) turned(button tea.MouseButton) {
	key := map[tea.MouseButton]string{tea.MouseWheelDown: "j", tea.MouseWheelUp: "k"}[button]
	if key == "" || m.o.Page || m.ask.what != promptNone {
		return
	}
	for range wheelRows {
		m.move(key)
	}
}
