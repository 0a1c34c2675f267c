package trace

import (
	"fmt"
	"time"
)

// chromeEvent is one event of the Trace Event Format; times are microseconds.
type chromeEvent struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Phase    string         `json:"ph"`
	At       int64          `json:"ts"`
	Duration *int64         `json:"dur,omitempty"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	Scope    string         `json:"s,omitempty"`
	Args     map[string]any `json:"args,omitempty"`
}

// Phases of the format.
const (
	phaseMeta     = "M"
	phaseComplete = "X"
	phaseInstant  = "i"
)

// Chrome writes the trace in the Trace Event Format, which chrome://tracing and
// ui.perfetto.dev open. Times count from the submission. The job is the first process,
// each worker one more, with a thread for each attempt that it has at once.
func (t *Trace) Chrome() ([]byte, error) {
	const ofJob = 1
	events := []chromeEvent{
		meta("process_name", ofJob, 0, t.title()), meta("thread_name", ofJob, 0, "job"),
		t.complete(t.title(), "job", ofJob, 0, t.Start, t.End, map[string]any{
			"id": t.Job, "owner": t.Owner, "state": t.State, "reason": t.Reason, "chunks": t.Chunks, "omitted_changes": t.Omitted, "log_compacted": t.Compacted,
		}),
	}
	if t.Waited.After(t.Start) {
		events = append(events, t.complete("wait for a worker", "wait", ofJob, 0, t.Start, t.Waited, nil))
	}
	for _, m := range t.Moments {
		events = append(events, chromeEvent{
			Name: m.Name, Category: "job", Phase: phaseInstant, At: t.since(m.At), Process: ofJob, Scope: "p",
			Args: map[string]any{"state": m.State, "actor": m.Actor, "reason": m.Reason, "term": m.Term, "by": m.Node},
		})
	}
	process := map[string]int{}
	named := map[[2]int]bool{}
	for i, w := range t.workers() {
		process[string(w)] = ofJob + 1 + i
		events = append(events, meta("process_name", ofJob+1+i, 0, "worker "+string(w)))
	}
	for _, a := range t.Attempts {
		pid := process[string(a.Worker)]
		if on := [2]int{pid, a.lane}; !named[on] {
			named[on] = true
			events = append(events, meta("thread_name", pid, a.lane, fmt.Sprintf("slot %d", a.lane+1)))
		}
		events = append(events, t.complete(fmt.Sprintf("chunk %d", a.Chunk), string(a.Outcome), pid, a.lane, a.Start, a.End, map[string]any{
			"chunk": a.Chunk, "attempt": a.Number, "term": a.Term, "outcome": a.Outcome, "reason": a.Reason,
		}))
	}
	return encode(struct {
		Events []chromeEvent     `json:"traceEvents"`
		Unit   string            `json:"displayTimeUnit"`
		Other  map[string]string `json:"otherData"`
	}{events, "ms", map[string]string{"job": string(t.Job), "submitted_at": t.Start.UTC().Format(time.RFC3339Nano)}})
}

// since is how many microseconds after the submission at is, at least 0: another holder's
// clock may be behind.
func (t *Trace) since(at time.Time) int64 { return max(0, at.Sub(t.Start).Microseconds()) }

func (t *Trace) complete(name, category string, process, thread int, start, end time.Time, args map[string]any) chromeEvent {
	at := t.since(start)
	return chromeEvent{
		Name: name, Category: category, Phase: phaseComplete, At: at, Duration: new(t.since(end) - at), Process: process, Thread: thread, Args: args,
	}
}

func meta(what string, process, thread int, name string) chromeEvent {
	return chromeEvent{Name: what, Phase: phaseMeta, Process: process, Thread: thread, Args: map[string]any{"name": name}}
}
