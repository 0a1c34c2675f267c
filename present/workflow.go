package present

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/skein-project/skein/api"
	workflow "github.com/skein-project/skein/cluster/flow"
)

// ShortRun is the beginning of the id of a run, as tables show it.
func ShortRun(id workflow.RunID) string { return string(id)[:min(len(id), 9)] }

// Workflows shows the runs of workflows.
func Workflows(list api.Workflows) Table {
	type W = api.Workflow
	observed := list.ObservedAt
	return tableOf(list.Workflows,
		col("ID", Text, 0, func(w W) Cell { return Cell{Text: ShortRun(w.ID), Exact: string(w.ID)} }),
		col("NAME", Text, 0, func(w W) Cell { return word(w.Name) }),
		col("STATE", State, 0, func(w W) Cell { return word(w.State) }),
		col("RETRIES", Number, 3, func(w W) Cell { return whole(w.Round) }),
		col("TIME", Time, 2, func(w W) Cell { return span(&w.ElapsedSeconds) }),
		col("SUBMITTED", Time, 4, func(w W) Cell { return at(w.SubmittedAt, observed) }),
		col("OWNER", Text, 1, func(w W) Cell { return word(w.Owner) }),
		col("REASON", Text, 5, func(w W) Cell { return word(cmp.Or(w.Reason, PlaceOf(w))) }),
	)
}

// PlaceOf says for what a queued run waits; "" it does not.
func PlaceOf(w api.Workflow) string {
	if w.Place == 0 {
		return ""
	}
	return fmt.Sprintf("number %d of those that wait for a place in %s", w.Place, w.Group)
}

// WorkflowSteps shows the steps of a run.
func WorkflowSteps(w api.Workflow) Table {
	type S = api.WorkflowStep
	return tableOf(w.Steps,
		col("STEP", Text, 0, func(s S) Cell { return word(s.Name) }),
		col("STATE", State, 0, func(s S) Cell { return word(s.State) }),
		col("DONE", Text, 1, func(s S) Cell { return word(stepDone(s)) }),
		col("AFTER", Text, 3, func(s S) Cell { return names(before(s)) }),
		col("ROLE", Text, 4, func(s S) Cell { return word(s.Role) }),
		col("REASON", Text, 2, func(s S) Cell { return word(s.Reason) }),
	)
}

// stepDone says how many instances of a step have ended, of how many.
func stepDone(s api.WorkflowStep) string {
	if s.Total == 0 {
		return ""
	}
	done := 0
	for state, n := range s.Counts {
		if state.Final() {
			done += n
		}
	}
	return fmt.Sprintf("%d/%d", done, s.Total)
}

// before are the steps that one names as those before it.
func before(s api.WorkflowStep) []string { return slices.Concat(s.After, s.AfterFailed, s.AfterDone) }

// StepText says how a step is getting on: "price[2] [running 1/2]".
func StepText(s api.WorkflowStep) string {
	name := s.Name
	if s.Many && s.Total > 0 {
		name += fmt.Sprintf("[%d]", s.Total)
	}
	state := string(s.State)
	if done := stepDone(s); s.Many && done != "" && !s.State.Final() {
		state += " " + done
	}
	if s.Reason != "" {
		state += ": " + s.Reason
	}
	name += " [" + state + "]"
	if s.OnFailure == workflow.FailureIgnore && s.State.Ended() && s.State != workflow.Completed {
		name += " (ignored)"
	}
	return Plain(name)
}

// Graph draws the steps of a run as a tree: each below the last of those that it waits
// for, which names the others.
func Graph(w api.Workflow) string {
	at := make(map[string]int, len(w.Steps))
	for i, s := range w.Steps {
		at[s.Name] = i
	}
	depth := make([]int, len(w.Steps))
	// The graph has no cycles: as many rounds as there are steps reach the deepest.
	for range w.Steps {
		changed := false
		for i, s := range w.Steps {
			for _, b := range before(s) {
				if k, ok := at[b]; ok && depth[i] < depth[k]+1 {
					depth[i], changed = depth[k]+1, true
				}
			}
		}
		if !changed {
			break
		}
	}
	below := make(map[int][]int)
	for i, s := range w.Steps {
		parent := -1
		for _, b := range before(s) {
			if k, ok := at[b]; ok && (parent < 0 || depth[k] > depth[parent]) {
				parent = k
			}
		}
		below[parent] = append(below[parent], i)
	}
	var out strings.Builder
	var draw func(i int, lead, branch string)
	draw = func(i int, lead, branch string) {
		s := w.Steps[i]
		fmt.Fprintf(&out, "%s%s%s", lead, branch, StepText(s))
		if all := before(s); len(all) > 1 {
			fmt.Fprintf(&out, "  <- %s", strings.Join(all, ", "))
		}
		out.WriteByte('\n')
		switch branch {
		case "+-> ":
			lead += "|   "
		case "`-> ":
			lead += "    "
		}
		for n, k := range below[i] {
			next := "+-> "
			if n == len(below[i])-1 {
				next = "`-> "
			}
			draw(k, lead, next)
		}
	}
	for _, i := range below[-1] {
		draw(i, "", "")
	}
	return out.String()
}

// Mermaid is the graph of a run in the language of mermaid.js.
func Mermaid(w api.Workflow) string {
	var out strings.Builder
	out.WriteString("flowchart LR\n")
	for _, s := range w.Steps {
		fmt.Fprintf(&out, "  %s[\"%s\"]:::%s\n", s.Name, strings.ReplaceAll(StepText(s), `"`, "#quot;"), s.State)
	}
	for _, s := range w.Steps {
		for _, b := range s.After {
			fmt.Fprintf(&out, "  %s --> %s\n", b, s.Name)
		}
		for _, b := range s.AfterFailed {
			fmt.Fprintf(&out, "  %s -. failed .-> %s\n", b, s.Name)
		}
		for _, b := range s.AfterDone {
			fmt.Fprintf(&out, "  %s -. done .-> %s\n", b, s.Name)
		}
	}
	for _, class := range []struct{ state, style string }{
		{"completed", "fill:#d3f9d8"}, {"running", "fill:#d0ebff"}, {"failed", "fill:#ffe3e3"}, {"timeout", "fill:#ffe3e3"}, {"partial", "fill:#fff3bf"},
	} {
		fmt.Fprintf(&out, "  classDef %s %s\n", class.state, class.style)
	}
	return out.String()
}

// WorkflowOutputs shows what came out of the steps of a run.
func WorkflowOutputs(w api.Workflow) Table {
	t := NewTable("STEP", "INDEX", "OUTPUT", "VALUE")
	for _, s := range w.Steps {
		for _, in := range s.Instances {
			for _, name := range slices.Sorted(maps.Keys(in.Outputs)) {
				t.Add(s.Name, fmt.Sprint(in.Index), name, Plain(string(in.Outputs[name])))
			}
		}
	}
	return t
}
