package status

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// TestPast asks for the past in every way, and in ways that are none.
func TestPast(t *testing.T) {
	s, _ := usersServer(t, nil)
	for query, want := range map[string]int{
		"/v1/replay": http.StatusOK,
		"/v1/replay?at=2026-01-02T03:04:05Z&hindsight=1": http.StatusOK,
		"/v1/replay?at=10m":                            http.StatusOK,
		"/v1/replay?at=n1/1:5":                         http.StatusBadRequest, // the fake has none
		"/v1/replay?at=yesterday":                      http.StatusBadRequest,
		"/v1/replay?hindsight=maybe":                   http.StatusBadRequest,
		"/v1/lease/history?limit=1&after=9":            http.StatusOK,
		"/v1/lease/history?limit=1001":                 http.StatusBadRequest,
		"/v1/lease/history?after=n1":                   http.StatusBadRequest,
		"/v1/log/density":                              http.StatusOK,
		"/v1/log/density?since=2h&until=1h&spans=1000": http.StatusOK,
		"/v1/log/density?spans=0":                      http.StatusBadRequest,
		"/v1/log/density?spans=1001":                   http.StatusBadRequest,
		"/v1/log/density?since=n1/1:5":                 http.StatusBadRequest,
		"/v1/log/density?until=never":                  http.StatusBadRequest,
	} {
		if got, body := asAdmin(t, s, http.MethodGet, query, ""); got != want {
			t.Errorf("%s: %d, want %d: %s", query, got, want, body)
		}
	}
}

// TestSeries: how a job went is told of its own events that count, and in as many
// spans as are asked for.
func TestSeries(t *testing.T) {
	s, f := usersServer(t, nil)
	f.job.Spec, f.job.SubmittedAt, f.job.ElapsedSeconds = job.Spec{Iterations: 20, Chunk: 10}, time.Unix(1_800_000_000, 0).UTC(), 10
	accept := func(id job.ID, chunk int, term cluster.Term, second int64) {
		logged(f, event.KindChunkAccepted, fmt.Sprintf(`{"job":%q,"chunk":%d,"attempt":1,"worker":"n2","result":{"iterations":10,"metrics":{}},"seconds":1}`, id, chunk))
		e := &f.log[len(f.log)-1]
		e.Term, e.HLC = term, cluster.NewHLC(f.job.SubmittedAt.Add(time.Duration(second)*time.Second), 0)
	}
	accept(jobA, 0, 1, 3)
	accept(jobA, 1, 666, 4) // void
	accept(jobB, 1, 1, 5)
	for query, want := range map[string]int{
		"?points=5": http.StatusOK, "": http.StatusOK, "?points=500": http.StatusOK, "?points=501": http.StatusBadRequest, "?points=0": http.StatusBadRequest, "?points=x": http.StatusBadRequest,
	} {
		if got, body := asAdmin(t, s, http.MethodGet, "/v1/jobs/"+string(jobA)+"/series"+query, ""); got != want {
			t.Errorf("%q: %d, want %d: %s", query, got, want, body)
		}
	}
	_, body := asAdmin(t, s, http.MethodGet, "/v1/jobs/"+string(jobA)+"/series?points=5", "")
	for _, want := range []string{`"iterations":[0,10,10,10,10],"rate_per_second":[0,5,0,0,0]`, `"workers":[{"node":"n2","iterations":[0,10,10,10,10]}]`, `"failures":[]`, `"step_seconds":2,"total":20`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
	if got, _ := asAdmin(t, s, http.MethodGet, "/v1/jobs/nothing/series", ""); got != http.StatusNotFound {
		t.Errorf("of no job: %d", got)
	}
}
