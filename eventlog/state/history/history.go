package history

import (
	"encoding/json"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// Change is one change of state of a job, or of one of its chunks.
type Change struct {
	At      cluster.HLC
	Node    cluster.NodeID // who wrote the event
	Seq     uint64
	Term    cluster.Term
	Kind    event.Kind
	Actor   string
	Reason  string
	Chunk   *int // nil: of the job
	Attempt int
	Worker  cluster.NodeID
	From    string
	To      string
}

// Fold follows one job through its events. It keeps the latest changes.
type Fold struct {
	jobEdges    []event.JobEdge
	chunkEdges  []event.ChunkEdge
	id          job.ID
	limit       int // of changes
	changes     []Change
	omitted     int
	chunks      bool
	state       job.State
	chunkStates map[int]job.ChunkState
	open        map[int]map[int]bool // attempts that may run, by chunk
	total       int                  // chunks
}

// New follows a job of so many chunks, and with each also every chunk of it. It
// keeps at most limit changes.
func New(id job.ID, total int, each bool, limit int) *Fold {
	return &Fold{
		id: id, total: total, chunks: each, limit: limit, jobEdges: event.JobEdges(), chunkEdges: event.ChunkEdges(),
		chunkStates: make(map[int]job.ChunkState), open: make(map[int]map[int]bool),
	}
}

// anyBody has the fields of all events about jobs.
type anyBody struct {
	Job         job.ID         `json:"job"`
	Actor       string         `json:"actor"`
	Owner       string         `json:"owner"`
	Reason      string         `json:"reason"`
	Cause       job.StopCause  `json:"cause"`
	State       job.State      `json:"state"`
	Chunk       int            `json:"chunk"`
	Attempt     int            `json:"attempt"`
	Worker      cluster.NodeID `json:"worker"`
	Final       bool           `json:"final"`
	Parked      bool           `json:"parked"`
	Assignments []job.Attempt  `json:"assignments"`
	Accepts     []job.Attempt  `json:"accepts"` // the fields that are read
}

// Apply takes in the next event; those about other jobs change nothing.
func (h *Fold) Apply(e event.Event) {
	var b anyBody
	if json.Unmarshal(e.Body, &b) != nil || b.Job != h.id {
		return
	}
	t := Change{At: e.HLC, Node: e.Source.Node, Seq: e.Seq, Term: e.Term, Kind: e.Kind, Actor: b.Actor, Reason: b.Reason}
	switch e.Kind {
	case event.KindJobSubmitted:
		t.Actor = b.Owner
		h.job(t, job.Pending)
	case event.KindJobQueued:
		h.job(t, job.Queued)
	case event.KindJobStopped:
		if t.Reason == "" {
			t.Reason = string(b.Cause)
		}
		h.job(t, job.Cancelling)
	case event.KindJobDone:
		h.job(t, b.State)
	case event.KindChunksAssigned:
		h.job(t, job.Running)
		for _, a := range b.Assignments {
			tries := h.tries(a.Chunk)
			if tries[a.Number] {
				continue // the next holder took it over
			}
			c := t
			if len(tries) > 0 {
				c.Reason = "a copy: another attempt goes on"
			}
			tries[a.Number] = true
			h.chunk(c, a, job.ChunkAssigned)
		}
	case event.KindChunkFailed, event.KindChunkReclaimed:
		tries := h.tries(b.Chunk)
		delete(tries, b.Attempt)
		to := job.ChunkPending
		switch {
		case b.Final && b.Parked:
			to = job.ChunkParked
		case b.Final:
			to = job.ChunkFail
		case h.chunkStates[b.Chunk] == job.ChunkAccept:
			to = job.ChunkAccept // of another attempt
		case len(tries) > 0:
			to = job.ChunkAssigned // by another attempt
		}
		h.chunk(t, job.Attempt{Chunk: b.Chunk, Number: b.Attempt, Worker: b.Worker}, to)
	case event.KindChunksReleased:
		var r event.ChunksReleased
		if json.Unmarshal(e.Body, &r) != nil {
			return
		}
		for _, s := range r.Chunks {
			for i := max(0, s.First); i <= s.Last && i < h.total; i++ {
				h.chunk(t, job.Attempt{Chunk: i, Number: b.Attempt}, job.ChunkPending)
			}
		}
	case event.KindChunkAccepted:
		h.chunk(t, job.Attempt{Chunk: b.Chunk, Number: b.Attempt, Worker: b.Worker}, job.ChunkAccept)
	case event.KindChunksAccepted:
		for _, a := range b.Accepts {
			h.chunk(t, a, job.ChunkAccept)
		}
	}
}

func (h *Fold) tries(chunk int) map[int]bool {
	if h.open[chunk] == nil {
		h.open[chunk] = make(map[int]bool)
	}
	return h.open[chunk]
}

func (h *Fold) job(t Change, to job.State) {
	if !slices.Contains(h.jobEdges, event.JobEdge{From: h.state, To: to, By: t.Kind}) {
		return
	}
	t.From, t.To = string(h.state), string(to)
	h.state = to
	h.add(t)
}

func (h *Fold) chunk(t Change, a job.Attempt, to job.ChunkState) {
	from, ok := h.chunkStates[a.Chunk]
	if !ok {
		from = job.ChunkPending
	}
	if !slices.Contains(h.chunkEdges, event.ChunkEdge{From: from, To: to, By: t.Kind}) {
		return
	}
	h.chunkStates[a.Chunk] = to
	if !h.chunks {
		return
	}
	t.Chunk, t.Attempt, t.Worker, t.From, t.To = &a.Chunk, a.Number, a.Worker, string(from), string(to)
	h.add(t)
}

// add keeps the latest changes.
func (h *Fold) add(c Change) {
	if len(h.changes) >= 2*h.limit {
		h.trim()
	}
	h.changes = append(h.changes, c)
}

func (h *Fold) trim() {
	if n := len(h.changes) - h.limit; n > 0 {
		h.omitted += n
		h.changes = slices.Delete(h.changes, 0, n)
	}
}

// Changes returns the latest changes, the oldest first, and how many came before
// them.
func (h *Fold) Changes() (latest []Change, omitted int) {
	h.trim()
	return h.changes, h.omitted
}
