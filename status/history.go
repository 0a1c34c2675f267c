package status

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// history tells every change of state of a job, read from its events.
func (s *Server) history(_ http.ResponseWriter, r *http.Request) (any, error) {
	h := replay{
		jobEdges: cluster.JobEdges(), chunkEdges: cluster.ChunkEdges(),
		chunkStates: make(map[int]cluster.ChunkState), open: make(map[int]map[int]bool),
	}
	for name, values := range r.URL.Query() {
		if name != "chunks" {
			return nil, api.Errorf(api.CodeInvalidRequest, "unknown parameter %.64q", name)
		}
		var err error
		if h.chunks, err = parseFlag(values[0]); err != nil {
			return nil, api.Errorf(api.CodeInvalidRequest, "%s: %s", name, err)
		}
	}
	id, err := s.jobID(r)
	if err != nil {
		return nil, err
	}
	job, err := s.o.Backend.Job(r.Context(), id)
	if err != nil {
		return nil, err
	}
	h.total = job.Chunks.Total
	h.out = api.JobHistory{Job: id, Transitions: []api.Transition{}}
	at := s.o.Backend.Oldest().Clone()
	h.out.Compacted = len(at) > 0
	quoted := []byte(`"` + id + `"`)
	for e, err := range s.o.Backend.Events(r.Context(), at, job.SubmittedAt.Add(-time.Second)) {
		if err != nil {
			return nil, err
		}
		if e.Kind.Authority() && bytes.Contains(e.Body, quoted) && !s.o.Backend.Void(e) {
			h.event(id, e)
		}
	}
	h.trim()
	return h.out, r.Context().Err()
}

// replay follows a job through its events, by the tables of its states: an event
// for which they have no edge changes nothing.
type replay struct {
	jobEdges    []cluster.JobEdge
	chunkEdges  []cluster.ChunkEdge
	out         api.JobHistory
	chunks      bool
	state       cluster.JobState
	chunkStates map[int]cluster.ChunkState
	open        map[int]map[int]bool // attempts that may run, by chunk
	total       int                  // chunks
}

// anyBody has the fields of all events about jobs.
type anyBody struct {
	Job         cluster.JobID        `json:"job"`
	Actor       string               `json:"actor"`
	Owner       string               `json:"owner"`
	Reason      string               `json:"reason"`
	Cause       cluster.StopCause    `json:"cause"`
	State       cluster.JobState     `json:"state"`
	Chunk       int                  `json:"chunk"`
	Attempt     int                  `json:"attempt"`
	Worker      cluster.NodeID       `json:"worker"`
	Final       bool                 `json:"final"`
	Parked      bool                 `json:"parked"`
	Assignments []cluster.Assignment `json:"assignments"`
	Accepts     []cluster.Assignment `json:"accepts"` // the fields that are read
}

func (h *replay) event(id cluster.JobID, e cluster.Event) {
	var b anyBody
	if json.Unmarshal(e.Body, &b) != nil || b.Job != id {
		return
	}
	t := api.Transition{At: e.HLC.Time(), Node: e.Source.Node, Seq: e.Seq, Term: e.Term, Kind: e.Kind, Actor: b.Actor, Reason: b.Reason}
	switch e.Kind {
	case cluster.KindJobSubmitted:
		t.Actor = b.Owner
		h.job(t, cluster.JobPending)
	case cluster.KindJobQueued:
		h.job(t, cluster.JobQueued)
	case cluster.KindJobStopped:
		if t.Reason == "" {
			t.Reason = string(b.Cause)
		}
		h.job(t, cluster.JobCancelling)
	case cluster.KindJobDone:
		h.job(t, b.State)
	case cluster.KindChunksAssigned:
		h.job(t, cluster.JobRunning)
		for _, a := range b.Assignments {
			h.tries(a.Chunk)[a.Attempt] = true
			h.chunk(t, a, cluster.ChunkAssigned)
		}
	case cluster.KindChunkFailed, cluster.KindChunkReclaimed:
		tries := h.tries(b.Chunk)
		delete(tries, b.Attempt)
		to := cluster.ChunkPending
		switch {
		case b.Final && b.Parked:
			to = cluster.ChunkParked
		case b.Final:
			to = cluster.ChunkFail
		case len(tries) > 0:
			to = cluster.ChunkAssigned // by another attempt
		}
		h.chunk(t, cluster.Assignment{Chunk: b.Chunk, Attempt: b.Attempt, Worker: b.Worker}, to)
	case cluster.KindChunksReleased:
		var r cluster.ChunksReleased
		if json.Unmarshal(e.Body, &r) != nil {
			return
		}
		for _, s := range r.Chunks {
			for i := max(0, s.First); i <= s.Last && i < h.total; i++ {
				h.chunk(t, cluster.Assignment{Chunk: i, Attempt: b.Attempt}, cluster.ChunkPending)
			}
		}
	case cluster.KindChunkAccepted:
		h.chunk(t, cluster.Assignment{Chunk: b.Chunk, Attempt: b.Attempt, Worker: b.Worker}, cluster.ChunkAccept)
	case cluster.KindChunksAccepted:
		for _, a := range b.Accepts {
			h.chunk(t, a, cluster.ChunkAccept)
		}
	}
}

func (h *replay) tries(chunk int) map[int]bool {
	if h.open[chunk] == nil {
		h.open[chunk] = make(map[int]bool)
	}
	return h.open[chunk]
}

func (h *replay) job(t api.Transition, to cluster.JobState) {
	if !slices.Contains(h.jobEdges, cluster.JobEdge{From: h.state, To: to, By: t.Kind}) {
		return
	}
	t.From, t.To = string(h.state), string(to)
	h.state = to
	h.add(t)
}

func (h *replay) chunk(t api.Transition, a cluster.Assignment, to cluster.ChunkState) {
	from, ok := h.chunkStates[a.Chunk]
	if !ok {
		from = cluster.ChunkPending
	}
	if !slices.Contains(h.chunkEdges, cluster.ChunkEdge{From: from, To: to, By: t.Kind}) {
		return
	}
	h.chunkStates[a.Chunk] = to
	if !h.chunks {
		return
	}
	t.Chunk, t.Attempt, t.Worker, t.From, t.To = &a.Chunk, a.Attempt, a.Worker, string(from), string(to)
	h.add(t)
}

// add keeps the latest changes.
func (h *replay) add(t api.Transition) {
	if len(h.out.Transitions) >= 2*api.MaxTransitions {
		h.trim()
	}
	h.out.Transitions = append(h.out.Transitions, t)
}

func (h *replay) trim() {
	if n := len(h.out.Transitions) - api.MaxTransitions; n > 0 {
		h.out.Omitted += n
		h.out.Transitions = slices.Delete(h.out.Transitions, 0, n)
	}
}

// maxGroupBody is room for the longest group.
const maxGroupBody = cluster.MaxGroupMembers*(cluster.MaxPrincipal+8) + maxBody

// setGroup says who belongs to a group.
func (s *Server) setGroup(w http.ResponseWriter, r *http.Request) (any, error) {
	var req api.GroupRequest
	if err := decodeUpTo(w, r, &req, maxGroupBody); err != nil {
		return nil, err
	}
	set := cluster.GroupSet{Group: r.PathValue("name"), Members: slices.Compact(slices.Sorted(slices.Values(req.Members)))}
	if err := set.Check(); err != nil {
		return nil, api.Errorf(api.CodeInvalidRequest, "%v", err)
	}
	return s.o.Backend.SetGroup(r.Context(), peerOf(r.Context()).actor(), set)
}
