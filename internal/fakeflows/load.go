package fakeflows

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// Load is the load test that there is.
const Load = event.LoadID("laaaaaaaaaaaaaaaaaaaaaaaaaa")

func oneLoad() api.LoadRun {
	return api.LoadRun{
		ID: Load, Name: "shop", Owner: Owner, State: event.LoadEnded, SubmittedAt: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC), Verdict: "incomplete", Why: "n3 was lost\x1b[2J",
		Hosts: []api.LoadHost{{Host: "n2", Share: 0.5}, {Host: "n3", Share: 0.5, Lost: "not heard for 15 s"}}, Report: &cluster.Hash{7},
	}
}

// SubmitLoad implements loads.Control.
func (Control) SubmitLoad(_ context.Context, _ string, req api.LoadRequest) (api.LoadSubmitted, error) {
	if req.Bundle.IsZero() {
		return api.LoadSubmitted{}, api.Errorf(api.CodeInvalidRequest, "bundle is missing")
	}
	return api.LoadSubmitted{Run: Load, Created: true}, nil
}

// StopLoad implements loads.Control.
func (Control) StopLoad(_ context.Context, _ string, _ event.LoadID, req api.LoadStopRequest) (api.LoadRun, error) {
	r := oneLoad()
	r.State, r.Verdict, r.Why, r.Report, r.StopReason = event.LoadStarted, "", "", nil, req.Reason
	return r, nil
}

// LoadRuns implements loads.Control.
func (Control) LoadRuns(context.Context) (api.LoadRuns, error) {
	return api.LoadRuns{Runs: []api.LoadRun{oneLoad()}}, nil
}

// LoadRun implements loads.Control.
func (Control) LoadRun(context.Context, event.LoadID) (api.LoadRun, error) { return oneLoad(), nil }

// LoadReport implements loads.Control.
func (Control) LoadReport(context.Context, event.LoadID) (api.LoadReport, error) {
	return api.LoadReport{Report: json.RawMessage(`{"version":1,"name":"shop","verdict":"incomplete","why":["n3 was lost: not heard for 15 s"],"requests":5,"hosts":[{"host":"n2","share":0.5}]}`)}, nil
}

// LoadLive implements loads.Control.
func (Control) LoadLive(context.Context, event.LoadID, string, time.Duration) (api.LoadLive, error) {
	return api.LoadLive{
		State: event.LoadEnded, Verdict: "incomplete", Next: "5.7", At: 5, Of: 5, Seconds: 1, Latency: api.LoadTimes{P50: 0.001, P95: 0.002, P99: 0.003, Max: 0.004},
		Steps: []api.LoadStep{{Name: "get", Requests: 5, Failed: 1, Classes: map[string]uint64{"ok": 4, "timeout": 1}}},
		Hosts: []api.LoadHostLive{{Host: "n2", Stage: "done", At: 5, Requests: 5}, {Host: "n3", Stage: "running", Lost: "not heard for 15 s"}},
	}, nil
}

// FindLoad implements loads.Control.
func (Control) FindLoad(text, owner string) (event.LoadID, error) {
	if owner != "" && owner != Owner || text != "shop" && (text == "" || !strings.HasPrefix(string(Load), text)) {
		return "", api.Errorf(api.CodeNotFound, "no load test is called or begins with %.64q", text).WithHint("see `skein load ls`")
	}
	return Load, nil
}
