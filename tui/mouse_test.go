package tui

import (
	"errors"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
)

// TestMouse: a click chooses a view or a row, the next one shows all of it, and one more
// goes back; the wheel moves; nothing happens elsewhere, or while something is asked.
func TestMouse(t *testing.T) {
	m := started(Options{Mouse: true}, 80, 24, true)
	if m.View().MouseMode == tea.MouseModeNone || started(Options{}, 80, 24, true).View().MouseMode != tea.MouseModeNone {
		t.Error("the terminal is asked for clicks without --mouse, or not with it")
	}
	click := func(x, y int) {
		m.Update(tea.MouseClickMsg{X: x, Y: y, Button: tea.MouseLeft})
		fits(t, m)
	}
	tabs := strings.Split(m.Text(), "\n")[tabsLine]
	for _, name := range viewNames {
		click(strings.Index(tabs, name), tabsLine)
		m.shows(t, true, " "+name+"]")
	}
	click(strings.Index(tabs, "? help"), tabsLine)
	m.shows(t, true, "8 load]")
	click(1, tabsLine)
	m.shows(t, true, "[1 hosts]", "> n1")
	click(5, bodyLine+3)
	m.shows(t, true, "> n3")
	click(5, bodyLine+3)
	m.shows(t, true, "ADDR6")
	m.shows(t, false, "> n3")
	click(5, 10)
	m.shows(t, true, "> n3")
	for _, y := range []int{-1, 0, 1, bodyLine, bodyLine + 4, 22, 23, 99} {
		click(5, y)
		m.shows(t, true, "> n3")
	}
	m.Update(tea.MouseWheelMsg{Button: tea.MouseWheelUp})
	m.shows(t, true, "> n1")
	m.Update(tea.MouseWheelMsg{Button: tea.MouseWheelDown})
	m.shows(t, true, "> n3")
	m.Update(tea.MouseWheelMsg{Button: tea.MouseWheelLeft})
	press(m, ":", "step-down", "enter")
	click(5, bodyLine+1)
	click(10, tabsLine)
	m.shows(t, true, "type n1 to do it", "> n3")
	press(m, "esc", "6")
	click(5, bodyLine) // a line above the table
	m.shows(t, true, "> n1")
	m.Update(Lost{errors.New("gone")})
	m = started(Options{Mouse: true}, 20, 5, true)
	click(1, 2)
	m.shows(t, true, "20x5 is too small")
}
