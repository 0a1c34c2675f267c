//go:build linux

package netns_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// judge reads the replicated logs of all hosts and says what must not be in
// them. It decides by itself which events are void, in the plainest way.
type judge struct {
	chains map[event.SourceID][]api.Event
	read   map[string]api.Cursor // by host: what of its copy was compared
	clash  []string              // copies that differ
}

func newJudge() *judge {
	return &judge{chains: map[event.SourceID][]api.Event{}, read: map[string]api.Cursor{}}
}

// look reads what a host has that was not read from it before.
func (j *judge) look(ctx context.Context, d *daemon) error {
	if j.read[d.Name()] == nil {
		j.read[d.Name()] = api.Cursor{}
	}
	at := j.read[d.Name()]
	err := d.api.Events(ctx, api.EventQuery{After: at}, api.FollowOptions{}, func(e api.Event) error {
		j.take(d.Name(), e)
		at.Advance(e.Source, e.Seq)
		return nil
	})
	if err != nil {
		return fmt.Errorf("events of %s: %w", d.Name(), err)
	}
	return nil
}

// take compares one host's copy of an event with what others have.
func (j *judge) take(host string, e api.Event) {
	chain := j.chains[e.Source]
	switch have := uint64(len(chain)); {
	case e.Seq == have+1:
		j.chains[e.Source] = append(chain, e)
	case e.Seq == 0 || e.Seq > have:
		j.clash = append(j.clash, fmt.Sprintf("%s has event %d of %s and not the one before", host, e.Seq, e.Source))
	case chain[e.Seq-1].Hash != e.Hash:
		j.clash = append(j.clash, fmt.Sprintf("%s has another event %d of %s", host, e.Seq, e.Source))
	}
}

// opening is a term_start.
type opening struct {
	at   api.Event
	cuts map[event.SourceID]uint64
}

// void reports whether a later term of live has fenced e off.
func void(live []opening, e api.Event) bool {
	for _, o := range live {
		if o.at.Term > e.Term && e.Seq > o.cuts[e.Source] {
			return true
		}
	}
	return false
}

// openings returns the term_starts that count, the highest term first, and
// how many there are.
func (j *judge) openings() (live []opening, all []api.Event) {
	for _, chain := range j.chains {
		for _, e := range chain {
			if e.Kind == event.KindTermStart {
				all = append(all, e)
			}
		}
	}
	slices.SortFunc(all, func(a, b api.Event) int {
		switch {
		case a.Term > b.Term, a.Term == b.Term && a.HLC < b.HLC:
			return -1
		}
		return 1
	})
	for _, e := range all {
		var body event.TermStart
		if json.Unmarshal(e.Body, &body) != nil || void(live, e) {
			continue
		}
		o := opening{at: e, cuts: map[event.SourceID]uint64{}}
		for _, m := range body.Cut {
			o.cuts[m.Source] = m.Seq
		}
		live = append(live, o)
	}
	return live, all
}

// stall is how long a process may hang between its look at the lease and the
// event that it then writes, which is void; beyond it a host acted without.
const stall = 300 * time.Millisecond

// verdict is what the logs say.
type verdict struct {
	wrong  []string
	terms  int
	void   int // authority events that do not count
	jobs   map[job.ID]*jobTally
	opened map[cluster.Term]api.Event
}

type jobTally struct {
	chunks   int
	accepted map[int]int
	ends     []job.State
}

func (v *verdict) say(format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

// decide judges all that was read. Where oneClock, all hosts have the clock of
// this machine, and what does not count must not have been written late either.
func (j *judge) decide(oneClock bool) *verdict {
	live, all := j.openings()
	v := &verdict{wrong: slices.Clone(j.clash), jobs: map[job.ID]*jobTally{}, opened: map[cluster.Term]api.Event{}}
	for _, e := range all {
		if first, ok := v.opened[e.Term]; ok {
			v.say("term %d was opened by %s and by %s", e.Term, first.Source, e.Source)
			continue
		}
		v.opened[e.Term] = e
	}
	v.terms = len(v.opened)
	writers := map[cluster.Term]event.SourceID{}
	last := map[cluster.Term]cluster.HLC{} // of what counts
	for _, src := range slices.SortedFunc(maps.Keys(j.chains), event.SourceID.Compare) {
		var highest cluster.Term
		for _, e := range j.chains[src] {
			if !e.Kind.Authority() {
				continue
			}
			if other, ok := writers[e.Term]; ok && other != src {
				v.say("%s and %s both acted in term %d", other, src, e.Term)
			}
			writers[e.Term] = src
			if e.Term < highest {
				v.say("%s went back from term %d to %d at event %d", src, highest, e.Term, e.Seq)
			}
			highest = max(highest, e.Term)
			if o, ok := v.opened[e.Term]; !ok || o.Source == src && o.Seq > e.Seq {
				v.say("%s wrote %s at event %d before it opened term %d", src, e.Kind, e.Seq, e.Term)
			}
			if void(live, e) {
				v.void++
				v.late(oneClock, e)
				continue
			}
			last[e.Term] = max(last[e.Term], e.HLC)
			v.count(e)
		}
	}
	for t, end := range last {
		for u, o := range v.opened {
			if u > t && end >= o.HLC && !void(live, o) {
				v.say("term %d acted at %s, after term %d had begun at %s", t, end, u, o.HLC)
			}
		}
	}
	v.tally()
	return v
}

// late notes a void event that was written long after a later term began.
func (v *verdict) late(oneClock bool, e api.Event) {
	for u, o := range v.opened {
		if over := e.HLC.Time().Sub(o.HLC.Time()); oneClock && u > e.Term && over > stall {
			v.say("%s wrote %s for term %d %s after %s opened term %d", e.Source, e.Kind, e.Term, over, o.Source, u)
			return
		}
	}
}

// count adds an event that counts to its job.
func (v *verdict) count(e api.Event) {
	var body struct {
		Job    job.ID    `json:"job"`
		Chunk  int       `json:"chunk"`
		Chunks int       `json:"chunks"`
		State  job.State `json:"state"`

		Accepts []event.Accept `json:"accepts"`
	}
	switch e.Kind {
	case event.KindJobSubmitted, event.KindChunkAccepted, event.KindChunksAccepted, event.KindJobDone:
	default:
		return
	}
	if err := json.Unmarshal(e.Body, &body); err != nil {
		v.say("event %d of %s: %v", e.Seq, e.Source, err)
		return
	}
	t := v.jobs[body.Job]
	if t == nil {
		t = &jobTally{accepted: map[int]int{}}
		v.jobs[body.Job] = t
	}
	switch e.Kind {
	case event.KindJobSubmitted:
		t.chunks = body.Chunks
	case event.KindChunkAccepted:
		t.accepted[body.Chunk]++
	case event.KindChunksAccepted:
		for _, a := range body.Accepts {
			t.accepted[a.Chunk]++
		}
	case event.KindJobDone:
		t.ends = append(t.ends, body.State)
	}
}

// tally checks that each chunk counts once and that an end is one.
func (v *verdict) tally() {
	for id, t := range v.jobs {
		for c, n := range t.accepted {
			if n > 1 {
				v.say("chunk %d of %s was accepted %d times", c, id, n)
			}
		}
		switch {
		case len(t.ends) > 1:
			v.say("job %s ended %d times: %v", id, len(t.ends), t.ends)
		case len(t.ends) == 1 && t.ends[0] == job.Completed && len(t.accepted) != t.chunks:
			v.say("job %s is done with %d of %d chunks", id, len(t.accepted), t.chunks)
		}
	}
}

// kept checks that what was acknowledged is there, and done.
func (v *verdict) kept(acked []job.ID) {
	for _, id := range acked {
		switch t := v.jobs[id]; {
		case t == nil || t.chunks == 0:
			v.say("job %s was acknowledged and is lost", id)
		case len(t.ends) != 1 || t.ends[0] != job.Completed:
			v.say("job %s was acknowledged and ended %v", id, t.ends)
		}
	}
}

// after is the moment at which a host comes back.
type after struct {
	time time.Time                 // for hosts with the clock of this machine
	read map[event.SourceID]uint64 // else how far their own logs were
}

func (a after) includes(e api.Event) bool {
	if a.read != nil {
		return e.Seq > a.read[e.Source]
	}
	return e.HLC.Time().After(a.time)
}

// lengths is how far all chains were read.
func (j *judge) lengths() map[event.SourceID]uint64 {
	out := map[event.SourceID]uint64{}
	for src, chain := range j.chains {
		out[src] = uint64(len(chain))
	}
	return out
}

// idle checks that a host wrote nothing under term or a lower one after it
// came back.
func (j *judge) idle(v *verdict, node string, term cluster.Term, back after) {
	for src, chain := range j.chains {
		if src.Node != cluster.NodeID(node) {
			continue
		}
		for _, e := range chain {
			if e.Kind.Authority() && e.Term <= term && back.includes(e) {
				v.say("%s came back and wrote %s for its old term %d", node, e.Kind, e.Term)
			}
		}
	}
}

// firstAssigned is when a term above the given one first assigned a chunk.
func (j *judge) firstAssigned(above cluster.Term) (time.Time, bool) {
	var first cluster.HLC
	for _, chain := range j.chains {
		for _, e := range chain {
			if e.Kind == event.KindChunksAssigned && e.Term > above && (first == 0 || e.HLC < first) {
				first = e.HLC
			}
		}
	}
	return first.Time(), first != 0
}

// history writes chains for the judge's own tests.
type history struct {
	j    *judge
	tick int
}

func (h *history) add(node cluster.NodeID, term cluster.Term, kind event.Kind, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	src := event.SourceID{Node: node, Inc: 1}
	h.tick++
	seq := uint64(len(h.j.chains[src]) + 1)
	h.j.take(string(node), api.Event{
		Source: src, Seq: seq, HLC: cluster.NewHLC(time.UnixMilli(int64(1000*h.tick)), 0), Term: term, Kind: kind, Body: text,
		Hash: cluster.Hash{byte(h.tick)},
	})
}

// open opens a term, with a cut at what is there now but for the last skip
// events of node.
func (h *history) open(by cluster.NodeID, term cluster.Term, node cluster.NodeID, skip uint64) {
	var cut event.Cut
	for src, chain := range h.j.chains {
		m := event.SourceMark{Source: src}
		if m.Seq = uint64(len(chain)); src.Node == node {
			m.Seq -= skip
		}
		cut = append(cut, m)
	}
	h.add(by, term, event.KindTermStart, event.TermStart{Term: term, Cut: cut})
}

// TestJudge shows that the judge of the other tests sees what it is there for.
func TestJudge(t *testing.T) {
	t.Parallel()
	good := func() *history {
		h := &history{j: newJudge()}
		h.open("a", 1, "", 0)
		h.add("a", 1, event.KindJobSubmitted, event.JobSubmitted{Job: "j", Chunks: 2})
		h.add("a", 1, event.KindChunkAccepted, event.ChunkAccepted{Job: "j", Chunk: 0})
		h.add("a", 1, event.KindChunkAccepted, event.ChunkAccepted{Job: "j", Chunk: 1})
		h.open("b", 2, "a", 1) // a's last event is void
		h.add("b", 2, event.KindChunkAccepted, event.ChunkAccepted{Job: "j", Chunk: 1})
		h.add("b", 2, event.KindJobDone, event.JobDone{Job: "j", State: job.Completed})
		return h
	}
	judged := func(h *history) *verdict {
		v := h.j.decide(true)
		v.kept([]job.ID{"j"})
		h.j.idle(v, "a", 1, after{time: time.UnixMilli(5000)})
		return v
	}
	if v := judged(good()); len(v.wrong) > 0 || v.void != 1 || v.terms != 2 {
		t.Fatalf("a good history: %d void, %d terms, %q", v.void, v.terms, v.wrong)
	}
	for name, spoil := range map[string]func(*history){
		"two writers in a term":  func(h *history) { h.add("a", 2, event.KindConfigChanged, struct{}{}) },
		"two openings of a term": func(h *history) { h.open("c", 2, "", 0) },
		"a term without opening": func(h *history) { h.add("c", 3, event.KindConfigChanged, struct{}{}) },
		"late under an old term": func(h *history) { h.add("a", 1, event.KindConfigChanged, struct{}{}) },
		"a chunk twice":          func(h *history) { h.add("b", 2, event.KindChunkAccepted, event.ChunkAccepted{Job: "j"}) },
		"an end twice":           func(h *history) { h.add("b", 2, event.KindJobDone, event.JobDone{Job: "j"}) },
		"an acknowledged job lost": func(h *history) {
			h.open("c", 3, "a", 4)
		},
		"another copy": func(h *history) {
			e := h.j.chains[event.SourceID{Node: "a", Inc: 1}][0]
			e.Hash = cluster.Hash{99}
			h.j.take("c", e)
		},
		"a gap": func(h *history) {
			h.j.take("c", api.Event{Source: event.SourceID{Node: "a", Inc: 1}, Seq: 99})
		},
		"overlap that counts": func(h *history) {
			src := event.SourceID{Node: "a", Inc: 1}
			h.j.chains[src][2].HLC = cluster.NewHLC(time.UnixMilli(100_000), 0)
		},
	} {
		h := good()
		spoil(h)
		if v := judged(h); len(v.wrong) == 0 {
			t.Errorf("%s: not noticed", name)
		}
	}
}
