package jobs

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

// progress shows a job on stderr: one line that is rewritten on a terminal, a
// plain line for every twentieth of the job elsewhere.
type progress struct {
	a       *cli.App
	metric  string
	live    bool
	columns int
	drawn   bool
	step    int // last plain line, in twentieths; -1: none
	state   string
	holder  string
	waits   string // why it waits, as was said last
	warned  string // of what, last
	id      job.ID
	gone    bool
	since   time.Time     // when the daemon was lost
	next    time.Duration // after since it is said again
}

func newProgress(a *cli.App, metric string) *progress {
	return &progress{a: a, metric: metric, live: a.ErrWidth > 0 && a.Getenv("TERM") != "dumb", columns: a.ErrWidth, step: -1}
}

func (p *progress) update(j api.Job) {
	if p.a.Quiet {
		return
	}
	p.id = j.ID
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
	p.sayWaits(j)
	if j.Warning != p.warned {
		if p.warned = j.Warning; j.Warning != "" {
			p.say("warning: " + present.Short(j.ID) + ": " + j.Warning)
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
		fmt.Fprintln(p.a.Err, present.Plain(plainLine(j, p.metric)))
	}
}

// sayWaits says why the job waits, when it begins to and when that changes.
func (p *progress) sayWaits(j api.Job) {
	var lines []string
	if why := waits(j); why != "" {
		lines = append(lines, present.Short(j.ID)+" waits: "+why)
		if w := j.Waiting; w != nil {
			for _, r := range named(w) {
				lines = append(lines, r.Reason+": "+present.WaitReason(r))
			}
			if w.Hint != "" {
				lines = append(lines, "hint: "+w.Hint)
			}
		}
	}
	why := strings.Join(lines, "\n")
	if why == p.waits {
		return
	}
	// Who follows another host now may hear of it again a moment later.
	for _, line := range lines {
		p.say(line)
	}
	if why != "" || j.Chunks.Assigned > 0 {
		p.waits = why
	}
}

// sayLost is when it is said again that the daemon is away; after that whenever the
// wait has doubled.
const sayLost = 10 * time.Second

// lost says that the daemon went away, and again as the wait grows: the job may
// long have ended elsewhere.
func (p *progress) lost(cause error, now time.Time) {
	if p.a.Quiet {
		return
	}
	if !p.gone {
		p.gone, p.since, p.next = true, now, sayLost
		p.say(fmt.Sprintf("waiting for the daemon: %s", cause))
		return
	}
	away := now.Sub(p.since)
	if away < p.next {
		return
	}
	for p.next <= away {
		p.next *= 2
	}
	p.say(fmt.Sprintf("waiting for the daemon for %s; the job goes on without it: at another host, `skein job status --follow %s`",
		away.Round(time.Second), p.id))
}

// say writes a line of its own above the bar.
func (p *progress) say(text string) {
	p.clear()
	fmt.Fprintln(p.a.Err, "skein: "+present.Plain(text))
}

func (p *progress) draw(line string) {
	fmt.Fprint(p.a.Err, "\r"+present.Plain(line)+"\x1b[K")
	p.drawn = true
}

func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.a.Err, "\r\x1b[K")
		p.drawn = false
	}
}

// end leaves the last state of the bar on the screen.
func (p *progress) end() {
	if p.drawn {
		fmt.Fprintln(p.a.Err)
		p.drawn = false
	}
}

// barLine is the line on a terminal, at most columns wide.
func barLine(j api.Job, metric string, columns int) string {
	tail := fmt.Sprintf(" %4s  %s", present.Percent(j), facts(j, metric))
	room := columns - 1 - utf8.RuneCountInString(tail) - 2
	size := min(30, room)
	if size < 5 {
		return present.Cut(strings.TrimSpace(tail), max(0, columns-1))
	}
	share := 0.0
	if j.Iterations.Total > 0 {
		share = float64(j.Iterations.Accepted) / float64(j.Iterations.Total)
	}
	full := min(size, int(share*float64(size)))
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", size-full) + "]" + tail
}

func plainLine(j api.Job, metric string) string {
	return fmt.Sprintf("%s %s %s  %s", present.Short(j.ID), j.State, present.Percent(j), facts(j, metric))
}

// facts is rate, time left, and the current mean with its error.
func facts(j api.Job, metric string) string {
	parts := []string{fmt.Sprintf("%s/%s it", present.Count(float64(j.Iterations.Accepted)), present.Count(float64(j.Iterations.Total)))}
	if j.State.Final() {
		parts = append(parts, string(j.State)+" in "+present.Age(j.ElapsedSeconds))
	} else {
		parts = append(parts, present.Rate(j.RatePerSecond), "eta "+present.AgeOf(j.ETASeconds))
	}
	if metric == "" {
		if names := present.MetricNames(j); len(names) > 0 {
			metric = names[0]
		}
	}
	if m, ok := j.Aggregates[metric]; ok {
		parts = append(parts, metric+" "+present.MeanError(m.Mean, m.SE))
	}
	if j.Attempts.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", j.Attempts.Failed))
	}
	return strings.Join(parts, "  ")
}
