package loadview

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// second is what is told of second n of a run on two hosts, at 300/s.
func second(n int) api.LoadLive {
	ms := func(p50, p95, p99, most float64) api.LoadTimes {
		return api.LoadTimes{P50: p50 / 1e3, P95: p95 / 1e3, P99: p99 / 1e3, Max: most / 1e3}
	}
	wave := float64(n%10) * 10
	return api.LoadLive{
		State: event.LoadStarted, Doing: "running", At: float64(n), Of: 750, Seconds: 1, Users: 212, Queue: 3, Planned: 300,
		Steps: []api.LoadStep{
			{Name: "token", Warm: 1},
			{Name: "login", Requests: 100, Failed: 1, Classes: map[string]uint64{"ok": 99, "http5xx": 1}, Latency: ms(21, 66, 110, 402)},
			{Name: "pay", Requests: 200, Failed: 3, Dropped: 1, Classes: map[string]uint64{"ok": 198, "timeout": 2, "dropped": 1}, Checks: api.LoadChecks{Passed: 199, Failed: 1}, Latency: ms(24, 70, 121+wave, 300)},
		},
		Phases: []api.LoadPhase{
			{Name: "service", Count: 300, Times: ms(22, 66, 112, 350)},
			{Name: "late", Count: 100, Times: ms(0.03, 0.2, 1.5, 52)},
			{Name: "first_byte", Count: 300, Times: ms(21, 64, 109, 340)},
			{Name: "receive", Count: 300, Times: ms(0.4, 1.9, 4.1, 9)},
		},
		Hosts: []api.LoadHostLive{
			{Host: "n1", Stage: "running", At: float64(n), Requests: 200, CPU: 0.31, Clock: 0.0004, Share: 2.0 / 3, LateP99: 0.0002},
			{Host: "n2", Stage: "running", At: float64(n), Requests: 100, CPU: 0.91, Clock: 0.0008, Share: 1.0 / 3, LateP99: 0.0041},
		},
		Thresholds: []api.LoadThreshold{
			{Text: "p(95)<500", OK: true, Value: 0.066, Unit: "s", Samples: true}, {Text: "pay: p(99)<100ms", Value: 0.121, Unit: "s", Samples: true}, {Text: "login: rate(checks)>0.99"},
		},
	}
}

func started(o Options, width, height, seconds int) *Model {
	m := New(o)
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	for n := 1; n <= seconds; n++ {
		m.Update(Heard{noon.Add(time.Duration(n) * time.Second), []api.LoadLive{second(n)}})
	}
	return m
}

func press(m *Model, keys ...string) (last tea.Cmd) {
	codes := map[string]rune{"tab": tea.KeyTab, "esc": tea.KeyEscape}
	for _, k := range keys {
		if code, named := codes[k]; named {
			_, last = m.Update(tea.KeyPressMsg{Code: code})
			continue
		}
		_, last = m.Update(tea.KeyPressMsg{Code: []rune(k)[0], Text: k})
	}
	return last
}

// TestScreens: what the picture looks like, as testdata has it.
func TestScreens(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {60, 12}} {
		var got strings.Builder
		for _, c := range []struct {
			name string
			do   func(m *Model)
		}{
			{"running", func(*Model) {}},
			{"phases", func(m *Model) { press(m, "p") }},
			{"hosts", func(m *Model) { press(m, "h") }},
			{"errors", func(m *Model) { press(m, "e") }},
			{"thresholds", func(m *Model) { press(m, "t") }},
			{"s", func(m *Model) { press(m, "s") }},
			{"a host is lost", func(m *Model) {
				x := second(71)
				x.Hosts[1].Lost, x.Hosts[1].Requests, x.Doing = "not heard for 15s", 0, "ending: n2 was lost"
				m.Update(Heard{noon.Add(71 * time.Second), []api.LoadLive{x}})
			}},
			{"nobody answers", func(m *Model) {
				m.Update(Lost{errors.New("daemon unreachable at /run/skein/skein.sock")})
				m.Update(Tick{noon.Add(78 * time.Second)})
			}},
			{"nothing yet", func(m *Model) {
				*m = *New(Options{Name: "shop"})
				m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
				m.Update(Heard{noon, []api.LoadLive{{State: event.LoadQueued, Doing: "n3 waits for 2 chunks that run"}}})
			}},
			{"ASCII", func(m *Model) { m.o.ASCII = true }},
		} {
			m := started(Options{Name: "shop", ID: "l4f6k2aaaaaaaaaaaaaaaaaaaa"}, size[0], size[1], 70)
			c.do(m)
			fmt.Fprintf(&got, "== %s\n%s\n", c.name, m.Text())
			fits(t, m)
		}
		file := fmt.Sprintf("testdata/screens-%dx%d.txt", size[0], size[1])
		if os.Getenv("SKEIN_UPDATE") == "1" {
			if err := os.WriteFile(file, []byte(got.String()), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(file); err != nil || got.String() != string(want) {
			t.Errorf("%s differs (%v; SKEIN_UPDATE=1 writes it anew):\n%s", file, err, got.String())
		}
	}
}

// fits fails if a screen is larger than its terminal, or holds what one might obey.
func fits(t *testing.T, m *Model) {
	t.Helper()
	text := strings.NewReplacer("\x1b[31m", "", "\x1b[0m", "").Replace(m.Text())
	lines := strings.Split(text, "\n")
	if len(lines) > m.height {
		t.Errorf("%d lines on a screen of %d:\n%s", len(lines), m.height, text)
	}
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > m.width {
			t.Errorf("%d columns on a screen of %d: %q", n, m.width, line)
		}
		for _, r := range line {
			if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x202a && r <= 0x202e || m.o.ASCII && r > '~' {
				t.Errorf("%U on the screen: %q", r, line)
			}
		}
	}
}

// TestFitsAnything: names of others, of any length and with any characters, on terminals of
// any size.
func TestFitsAnything(t *testing.T) {
	for _, ascii := range []bool{false, true} {
		for width := 1; width < 120; width += 7 {
			for _, height := range []int{1, 5, 12, 24, 60} {
				m := started(Options{Name: "a\x1b[2Jb\u202e" + strings.Repeat("x", width), Color: true, ASCII: ascii}, width, height, 3)
				x := second(4)
				for i := range 70 {
					x.Steps = append(x.Steps, api.LoadStep{Name: fmt.Sprintf("\x1b]0;%d\a%s", i, strings.Repeat("y", i)), Requests: 1, Failed: 1, Classes: map[string]uint64{"re\nset": 1}})
					x.Hosts = append(x.Hosts, api.LoadHostLive{Host: "h\r", Lost: "\x1b[31m" + strings.Repeat("z", i)})
					x.Thresholds = append(x.Thresholds, api.LoadThreshold{Text: "\x00" + strings.Repeat("t", i)})
				}
				x.Doing, x.Verdict = "d\x1b[0m", "v\n"
				m.Update(Heard{noon.Add(4 * time.Second), []api.LoadLive{x}})
				for range 5 {
					fits(t, m)
					press(m, "tab", "j", "j")
				}
			}
		}
	}
}

// TestSums: totals add up, and what is told again is not counted twice.
func TestSums(t *testing.T) {
	m := started(Options{}, 80, 24, 20)
	if m.sums.requests != 20*300 || m.sums.failed != 20*4 || m.sums.dropped != 20 || m.sums.rate() != 300 {
		t.Errorf("%+v, %g/s", m.sums, m.sums.rate())
	}
	x := second(21)
	x.Again = true
	x.Steps = []api.LoadStep{{Name: "pay", Requests: 7000, Classes: map[string]uint64{"ok": 7000}}}
	m.Update(Heard{noon.Add(21 * time.Second), []api.LoadLive{x}})
	if m.sums.requests != 7000 || m.sums.failed != 0 || len(m.sums.failures()) != 0 {
		t.Errorf("told again: %+v", m.sums)
	}
	m.Update(Tick{noon.Add(40 * time.Second)})
	if l := m.sums.latency(m.sums.steps...); l.P50 != 0 {
		t.Errorf("latencies of long ago: %+v", l)
	}
}

// TestInterrupted: Ctrl-C ends a test that was begun here, and leaves it when it is pressed again; of
// one that is only looked at the first leaves it.
func TestInterrupted(t *testing.T) {
	stops := 0
	o := Options{Stop: func() error { stops++; return nil }, Mine: true}
	m := started(o, 80, 24, 2)
	cmd := press(m, "ctrl+c")
	if cmd == nil {
		t.Fatal("Ctrl-C does nothing")
	}
	if _, quits := cmd().(tea.QuitMsg); quits || stops != 1 {
		t.Errorf("the first Ctrl-C: %d stops, leaves %t", stops, quits)
	}
	if _, quits := press(m, "ctrl+c")().(tea.QuitMsg); !quits || stops != 1 {
		t.Errorf("the second Ctrl-C: %d stops, leaves %t", stops, quits)
	}
	o.Mine = false
	if _, quits := press(started(o, 80, 24, 2), "ctrl+c")().(tea.QuitMsg); !quits || stops != 1 {
		t.Errorf("Ctrl-C of who looks: %d stops, leaves %t", stops, quits)
	}
}

// TestKeys: s asks twice, another key takes it back; the end of a test ends the picture.
func TestKeys(t *testing.T) {
	stops := 0
	m := started(Options{Stop: func() error { stops++; return errors.New("no") }}, 80, 24, 2)
	if cmd := press(m, "s", "x", "s"); cmd != nil {
		t.Error("one s ends the test")
	}
	cmd := press(m, "s")
	if cmd == nil {
		t.Fatal("a second s does nothing")
	}
	m.Update(cmd())
	if stops != 1 || !strings.Contains(m.Text(), "not ended: no") {
		t.Errorf("%d stops:\n%s", stops, m.Text())
	}
	if press(m, "q") == nil {
		t.Error("q does not leave")
	}
	x := second(3)
	x.State = event.LoadEnded
	if _, cmd := m.Update(Heard{noon, []api.LoadLive{x}}); cmd == nil || !m.Ended() {
		t.Error("it goes on when the test has ended")
	}
}
