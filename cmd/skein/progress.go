package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/skein-project/skein/api"
)

// progress shows a job on stderr: one line that is rewritten on a terminal, a
// plain line for every twentieth of the job elsewhere.
type progress struct {
	a       *app
	metric  string
	live    bool
	columns int
	drawn   bool
	step    int // last plain line, in twentieths; -1: none
	state   string
	holder  string
	gone    bool
}

func (a *app) newProgress(metric string) *progress {
	return &progress{a: a, metric: metric, live: a.errWidth > 0 && a.getenv("TERM") != "dumb", columns: a.errWidth, step: -1}
}

func (p *progress) update(j api.Job) {
	if p.a.quiet {
		return
	}
	if p.gone {
		p.say("reconnected to " + string(j.Node))
		p.gone = false
	}
	if h := string(j.Holder); h != p.holder {
		if p.holder != "" && h != "" {
			p.say("holder is now " + h)
		}
		if h != "" {
			p.holder = h
		}
	}
	if p.live {
		p.draw(barLine(j, p.metric, p.columns))
		return
	}
	step := 0
	if j.Iterations.Total > 0 {
		step = int(20 * (float64(j.Iterations.Accepted) / float64(j.Iterations.Total)))
	}
	if step != p.step || string(j.State) != p.state {
		p.step, p.state = step, string(j.State)
		fmt.Fprintln(p.a.err, plainLine(j, p.metric))
	}
}

// lost says once that the daemon went away.
func (p *progress) lost(cause error) {
	if p.a.quiet || p.gone {
		return
	}
	p.gone = true
	p.say(fmt.Sprintf("waiting for the daemon: %s", cause))
}

// say writes a line of its own above the bar.
func (p *progress) say(text string) {
	p.clear()
	fmt.Fprintln(p.a.err, "skein: "+text)
}

func (p *progress) draw(line string) {
	fmt.Fprint(p.a.err, "\r"+line+"\x1b[K")
	p.drawn = true
}

func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.a.err, "\r\x1b[K")
		p.drawn = false
	}
}

// end leaves the last state of the bar on the screen.
func (p *progress) end() {
	if p.drawn {
		fmt.Fprintln(p.a.err)
		p.drawn = false
	}
}

// barLine is the line on a terminal, at most columns wide.
func barLine(j api.Job, metric string, columns int) string {
	tail := fmt.Sprintf(" %4s  %s", percent(j), facts(j, metric))
	room := columns - 1 - utf8.RuneCountInString(tail) - 2
	size := min(30, room)
	if size < 5 {
		return cut(strings.TrimSpace(tail), max(0, columns-1))
	}
	share := 0.0
	if j.Iterations.Total > 0 {
		share = float64(j.Iterations.Accepted) / float64(j.Iterations.Total)
	}
	full := min(size, int(share*float64(size)))
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", size-full) + "]" + tail
}

func plainLine(j api.Job, metric string) string {
	return fmt.Sprintf("%s %s %s  %s", short(j.ID), j.State, percent(j), facts(j, metric))
}

// facts is rate, time left, and the current mean with its error.
func facts(j api.Job, metric string) string {
	parts := []string{fmt.Sprintf("%s/%s it", count(float64(j.Iterations.Accepted)), count(float64(j.Iterations.Total)))}
	if j.State.Final() {
		parts = append(parts, string(j.State)+" in "+age(j.ElapsedSeconds))
	} else {
		parts = append(parts, rate(j), "eta "+ageOf(j.ETASeconds))
	}
	if metric == "" {
		if names := metricNames(j); len(names) > 0 {
			metric = names[0]
		}
	}
	if m, ok := j.Aggregates[metric]; ok {
		parts = append(parts, metric+" "+meanError(m.Mean, m.SE))
	}
	if j.Attempts.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", j.Attempts.Failed))
	}
	return strings.Join(parts, "  ")
}
