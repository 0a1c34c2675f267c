package status

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// acceptedEvent is an event of n1 that accepts a chunk of jobA.
func acceptedEvent(seq uint64, b event.ChunkAccepted) event.Event {
	e := testEvent(seq, event.KindChunkAccepted, time.Date(2026, 1, 2, 3, 0, int(seq), 0, time.UTC))
	e.Term = 1
	body, err := json.Marshal(b)
	if err != nil {
		panic(err)
	}
	e.Body = body
	return e
}

func acceptOf(j job.ID, chunk int, iterations uint64) event.ChunkAccepted {
	return event.ChunkAccepted{Job: j, Chunk: chunk, Attempt: 1, Worker: "w1", Seconds: 2, Result: job.ChunkResult{
		Iterations: iterations, Metrics: map[string]job.Metric{"x": {N: iterations, Mean: 1, Min: 1, Max: 1}},
	}}
}

// withChunks has a job of 25 iterations in three chunks, and what must not be
// taken for a result of it.
func withChunks() *fake {
	f := newFake()
	f.job.Spec = job.Spec{Key: "k", Artefact: cluster.Hash{1}, Iterations: 25, Chunk: 10}.WithDefaults()
	void := acceptedEvent(2, acceptOf(jobA, 0, 10))
	void.Term = 666
	f.log = []event.Event{
		testEvent(1, event.KindHostStarted, time.Unix(0, 0)), void,
		acceptedEvent(3, acceptOf(jobA, 1, 10)),
		acceptedEvent(4, acceptOf("jother", 0, 10)),
		acceptedEvent(5, acceptOf(jobA, 2, 10)),  // it has 5 iterations
		acceptedEvent(6, acceptOf(jobA, 3, 10)),  // there is none
		acceptedEvent(7, acceptOf(jobA, -1, 10)), // there is none
		acceptedEvent(8, acceptOf(jobA, 0, 10)),
		acceptedEvent(9, acceptOf(jobA, 1, 10)), // a second time
	}
	return f
}

// TestReadsOfOneJob: what is about a job is asked of the log by that job, so that a log
// of any length is not read for it.
func TestReadsOfOneJob(t *testing.T) {
	for _, path := range []string{"/chunks", "/history"} {
		f := withChunks()
		r := start(t, f, nil)
		if code, _, text := r.ask(t, http.MethodGet, "/v1/jobs/"+string(jobA)+path, ""); code != http.StatusOK {
			t.Fatalf("%s: %d %s", path, code, text)
		}
		f.mu.Lock()
		about := slices.Clone(f.about)
		f.mu.Unlock()
		if len(about) == 0 || slices.ContainsFunc(about, func(s event.Subject) bool { return s != event.Subject{Job: string(jobA)} }) {
			t.Errorf("%s asks the log about %+v", path, about)
		}
	}
}

func TestChunks(t *testing.T) {
	f := withChunks()
	r := start(t, f, nil)
	code, _, text := r.ask(t, http.MethodGet, "/v1/jobs/jaaa/chunks", "")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if code != http.StatusOK || len(lines) != 3 {
		t.Fatalf("%d\n%s", code, text)
	}
	var first, second api.ChunkResult
	if err := errors.Join(json.Unmarshal([]byte(lines[0]), &first), json.Unmarshal([]byte(lines[1]), &second)); err != nil {
		t.Fatal(err)
	}
	if first.Chunk != 1 || first.Offset != 10 || first.Iterations != 10 || first.Cursor != "n1/1:3" || first.Metrics["x"].N != 10 ||
		first.Hash != acceptOf(jobA, 1, 10).Result.Hash() || second.Chunk != 0 || second.Cursor != "n1/1:8" {
		t.Errorf("%+v\n%+v", first, second)
	}
	if lines[2] != `{"cursor":"n1/1:9","end":false}` {
		t.Errorf("the last line is %s", lines[2])
	}
	for _, bad := range []string{"after=n1", "follow=perhaps", "limit=3"} {
		if code, _, text := r.ask(t, http.MethodGet, "/v1/jobs/jaaa/chunks?"+bad, ""); code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, code, text)
		}
	}
	if code, _, _ := r.ask(t, http.MethodGet, "/v1/jobs/jzzz/chunks", ""); code != http.StatusNotFound {
		t.Errorf("a job that is not: %d", code)
	}
}

// A batch of results is one event: a reader that is cut off within gets it again.
func TestChunksOfOneEvent(t *testing.T) {
	f := withChunks()
	batch := testEvent(1, event.KindChunksAccepted, time.Unix(1, 0))
	batch.Term = 1
	list := event.ChunksAccepted{Job: jobA}
	for i, n := range []uint64{10, 10, 5, 10} {
		list.Accepts = append(list.Accepts, event.Accept{Chunk: i, Attempt: 1, Worker: "w1", Result: acceptOf(jobA, i, n).Result})
	}
	var err error
	if batch.Body, err = json.Marshal(list); err != nil {
		t.Fatal(err)
	}
	f.log = []event.Event{batch}
	r := start(t, f, nil)
	_, _, text := r.ask(t, http.MethodGet, "/v1/jobs/jaaa/chunks", "")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 4 || !strings.Contains(lines[1], `"cursor":"n1/1:0"`) || !strings.Contains(lines[2], `"cursor":"n1/1:1"`) {
		t.Errorf("%s", text)
	}
}

// A reader that is cut off after any line and goes on from its cursor sees every
// chunk once.
func TestChunksGoOnFromAnyCursor(t *testing.T) {
	f := withChunks()
	f.job.State = job.Completed
	f.log = f.log[:8]
	r := start(t, f, nil)
	c, err := api.Dial(r.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	errCut := errors.New("cut")
	for cut := range 3 {
		var seen []int
		var last string
		read := func(after string, most int) error {
			at, err := event.ParseCursor(after)
			if err != nil {
				return err
			}
			n := 0
			_, err = c.Chunks(t.Context(), "jaaa", api.ChunkQuery{After: at, Follow: true}, api.FollowOptions{}, func(r api.ChunkResult) error {
				if n++; n > most {
					return errCut
				}
				seen, last = append(seen, r.Chunk), r.Cursor
				return nil
			})
			return err
		}
		if err := read("", cut); cut < 2 && !errors.Is(err, errCut) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if err := read(last, 9); err != nil || len(seen) != 2 || seen[0] != 1 || seen[1] != 0 {
			t.Errorf("cut at %d: chunks %v, %v", cut, seen, err)
		}
	}
}

// TestChunkMap asks for the map of a job, and of one that is not there; a watch of the job
// has it too.
func TestChunkMap(t *testing.T) {
	f := newFake()
	f.runs = api.ChunkRuns{Chunks: 400, Step: 1, Runs: []api.ChunkRun{{State: "accepted", Count: 120}, {State: "assigned", Count: 3}, {State: "pending", Count: 277}}}
	r := start(t, f, nil)
	m, err := r.client.ChunkMap(t.Context(), string(jobA[:6]))
	if err != nil || m.Job != jobA || !reflect.DeepEqual(m.ChunkRuns, f.runs) {
		t.Errorf("%+v, %v", m, err)
	}
	var p *api.Problem
	if _, err := r.client.ChunkMap(t.Context(), "j"+strings.Repeat("z", 26)); !errors.As(err, &p) || p.Code != api.CodeNotFound {
		t.Errorf("of no job: %v", err)
	}
	var row struct {
		Topic string
		Rows  []struct{ Map api.ChunkRuns }
	}
	q := api.WatchQuery{Topics: []string{"lease"}, Jobs: []string{string(jobA)}}
	err = r.client.Watch(t.Context(), q, api.FollowOptions{Retry: func(err error) error { return err }}, func(m api.WatchMessage) error {
		switch m.Event {
		case "synced":
			return api.ErrStop
		case "snapshot":
			return json.Unmarshal(m.Data, &row)
		}
		return nil
	})
	if err != nil || row.Topic != "job/"+string(jobA) || len(row.Rows) != 1 || !reflect.DeepEqual(row.Rows[0].Map, f.runs) {
		t.Errorf("a watch: %+v, %v", row, err)
	}
}
