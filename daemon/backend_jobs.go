package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/worker"
)

// Bounds of what a submit waits for.
const (
	awaitHolderTime = 10 * time.Second
	awaitJobTime    = 5 * time.Second
	spreadTime      = 15 * time.Second
	// compileTime is what a submit waits for the proof that a module compiles;
	// it leaves the rest of the request's time to the submit itself.
	compileTime = 10 * time.Second
)

// Jobs implements status.JobControl, newest first.
func (b backend) Jobs(context.Context) (api.Jobs, error) {
	var jobs []state.Job
	b.events.View(func(s *state.State) { jobs = s.Jobs() })
	out := api.Jobs{Jobs: make([]api.Job, 0, len(jobs))}
	for _, j := range slices.Backward(jobs) {
		out.Jobs = append(out.Jobs, b.jobOf(j))
	}
	return out, nil
}

// Job implements status.JobControl.
func (b backend) Job(_ context.Context, id cluster.JobID) (api.Job, error) {
	var (
		job  state.Job
		open []state.OpenChunk
		ok   bool
	)
	b.events.View(func(s *state.State) {
		job, ok = s.Job(id)
		open = s.Open(id)
	})
	if !ok {
		return api.Job{}, api.Errorf(api.CodeNotFound, "no job %s", id).WithHint("skein job ls")
	}
	out := b.jobOf(job)
	tellAll(&out, job, open)
	return out, nil
}

// tellAll adds what the list of jobs leaves out.
func tellAll(out *api.Job, job state.Job, open []state.OpenChunk) {
	out.Skipped, out.Anomalies = job.Skipped, job.Anomalies
	for _, a := range job.Aggregates {
		out.Aggregates[a.Name] = api.Summarise(a.Metric)
	}
	for _, f := range slices.Backward(job.LastFailures) {
		out.Failures = append(out.Failures, api.Failure{
			Chunk: f.Chunk, Attempt: f.Attempt, Worker: f.Worker, At: f.At.Time(), Reason: f.Reason, Final: f.Final,
		})
	}
	parts := map[cluster.NodeID]*api.JobWorker{}
	part := func(n cluster.NodeID) *api.JobWorker {
		if parts[n] == nil {
			parts[n] = &api.JobWorker{Node: n}
		}
		return parts[n]
	}
	for _, w := range job.Workers {
		part(w.Worker).Accepted = w.Chunks
	}
	for _, c := range open {
		for _, t := range c.Open {
			part(t.Worker).Assigned++
		}
	}
	for _, n := range sortedKeys(parts) {
		out.Workers = append(out.Workers, *parts[n])
	}
}

// jobOf converts what the list of jobs shows.
func (b backend) jobOf(j state.Job) api.Job {
	v := b.coord.View()
	now := time.Now()
	out := apiJob(j, b.rates.rate(j, now), now)
	out.Holder, out.Term = v.Lease.Holder, v.Lease.Term
	return out
}

// apiJob converts a job that does rate iterations per second, 0 for unknown.
func apiJob(j state.Job, rate float64, now time.Time) api.Job {
	out := api.Job{
		ID: j.ID, Name: j.Spec.Name, State: j.State, Reason: j.Reason, Owner: j.Owner, Spec: j.Spec,
		SubmittedAt: j.Submitted.Time(),
		Chunks: api.ChunkCounts{
			Total: j.Chunks, Pending: j.Counts.Pending, Assigned: j.Counts.Assigned,
			Accepted: j.Counts.Accepted, Failed: j.Counts.Failed, Parked: j.Counts.Parked,
		},
		Waits: j.Queued, StoppedBy: j.StoppedBy, StopReason: j.StopReason,
		Iterations: api.IterationCounts{Total: j.Spec.Iterations, Accepted: j.Iterations},
		Attempts:   api.AttemptCounts{Assigned: uint64(j.Attempts), Failed: uint64(j.Failures), Reclaimed: uint64(j.Reclaims)},
		Workers:    []api.JobWorker{}, Aggregates: map[string]api.Summary{}, Failures: []api.Failure{},
	}
	if c := j.Counts; !j.State.Final() && j.Spec.Partial() == cluster.PartialWait && c.Failed > 0 && c.Pending+c.Assigned == 0 {
		out.Waits = fmt.Sprintf("for an operator, %d chunks were given up: retry it, or stop it", c.Failed)
	}
	end := now
	if j.Finished != 0 {
		end = j.Finished.Time()
		out.FinishedAt = &end
	}
	out.ElapsedSeconds = max(0, end.Sub(j.Submitted.Time()).Seconds())
	if rate > 0 {
		out.RatePerSecond = &rate
		if !j.State.Final() {
			out.ETASeconds = new(float64(j.Spec.Iterations-j.Iterations) / rate)
		}
	}
	return out
}

// FindJob implements status.JobControl.
func (b backend) FindJob(_ context.Context, prefix string) (cluster.JobID, error) {
	var found []cluster.JobID
	b.events.View(func(s *state.State) {
		for _, j := range s.Jobs() {
			if string(j.ID) == prefix {
				found = []cluster.JobID{j.ID}
				return
			}
			if strings.HasPrefix(string(j.ID), prefix) {
				found = append(found, j.ID)
			}
		}
	})
	switch len(found) {
	case 0:
		return "", api.Errorf(api.CodeNotFound, "no job begins with %q", prefix).WithHint("skein job ls")
	case 1:
		return found[0], nil
	}
	return "", api.Errorf(api.CodeConflict, "%d jobs begin with %q", len(found), prefix).WithHint("give more of the id")
}

// Submit implements status.JobControl: the artefacts go to the voters, so that
// this host may die right after, then the job goes to the holder.
func (b backend) Submit(ctx context.Context, actor string, req api.SubmitRequest) (api.SubmitResponse, error) {
	if err := b.checkModule(ctx, req.Spec); err != nil {
		return api.SubmitResponse{}, err
	}
	compiling, cancel := context.WithTimeout(ctx, compileTime)
	defer cancel()
	if req.Spec.Executor != cluster.ExecutorWASM {
		// Only the workers know which programs they allow.
	} else if err := b.wasm.Compile(compiling, req.Spec.Artefact, req.Spec.MemoryBytes); errors.Is(err, worker.ErrModule) {
		return api.SubmitResponse{}, api.Errorf(api.CodeInvalidJob, "artefact %s: %v", req.Spec.Artefact, err)
	} else if err != nil {
		// This host cannot tell; the workers will.
		b.log.Warn().Err(err).Msg("module not compiled at submit")
	}
	if err := b.awaitHolder(ctx); err != nil {
		return api.SubmitResponse{}, err
	}
	if err := b.spread(ctx, req); err != nil {
		return api.SubmitResponse{}, err
	}
	reply, err := b.toHolder(ctx, remoteRequest{Submit: &req, Actor: actor})
	if err != nil {
		return api.SubmitResponse{}, err
	}
	b.awaitJob(ctx, reply.Submit.Job)
	return *reply.Submit, nil
}

// checkModule refuses what cannot run before anything is logged.
func (n *node) checkModule(ctx context.Context, spec cluster.JobSpec) error {
	for _, h := range spec.Hashes() {
		if _, ok := n.artefacts.Has(h); ok {
			continue
		}
		if err := n.artefacts.Fetch(ctx, h, nil); err != nil {
			return api.Errorf(api.CodeInvalidJob, "artefact %s is not in the cluster: %v", h, err).
				WithHint("upload it first: PUT /v1/artefacts, or skein job run --wasm FILE")
		}
	}
	if spec.Executor == cluster.ExecutorWASM {
		module, err := n.artefacts.Read(spec.Artefact, cluster.MaxModuleBytes)
		if err != nil {
			return api.Errorf(api.CodeInvalidJob, "artefact %s: %v", spec.Artefact, err)
		}
		if err := worker.CheckModule(module); err != nil {
			return api.Errorf(api.CodeInvalidJob, "artefact %s: %v", spec.Artefact, err).
				WithHint("compile a WASI command, e.g. GOOS=wasip1 GOARCH=wasm go build")
		}
	}
	if !spec.Config.IsZero() {
		if _, err := n.artefacts.Read(spec.Config, cluster.MaxConfigBytes); err != nil {
			return api.Errorf(api.CodeInvalidJob, "config %s: %v", spec.Config, err)
		}
	}
	return nil
}

// awaitHolder waits for a moment until a holder is known.
func (n *node) awaitHolder(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, awaitHolderTime)
	defer cancel()
	for n.coord.View().Lease.Holder == "" {
		timer := time.NewTimer(holderPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return api.Errorf(api.CodeNoHolder, "no holder is known: nobody may schedule without a majority of the voters").
				WithHint("skein lease; skein wait --for holder")
		case <-timer.C:
		}
	}
	return nil
}

// awaitJob waits until a job that the holder acknowledged has reached this
// host's log, so that the submitter can look at it here.
func (n *node) awaitJob(ctx context.Context, id cluster.JobID) {
	ctx, cancel := context.WithTimeout(ctx, awaitJobTime)
	defer cancel()
	for {
		changed := n.events.Changed()
		known := false
		n.events.View(func(s *state.State) { _, known = s.Job(id) })
		if known {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// spread copies a job's artefacts to other voters, until a majority has them,
// in available mode all that are up: the rest fetch what they need. A job that
// is only to be on the holder's disk waits for nobody.
func (n *node) spread(ctx context.Context, req api.SubmitRequest) error {
	if req.Wait == api.WaitLocal {
		return nil
	}
	view := n.coord.View()
	cfg := view.Lease.Config
	voters, need := cfg.Voters, cfg.Majority()
	if cfg.Mode == cluster.ModeAvailable {
		voters = notDown(view, voters)
		need = len(voters)
	}
	ctx, cancel := context.WithTimeout(ctx, spreadTime)
	defer cancel()
	for _, h := range req.Spec.Hashes() {
		have := n.spreadOne(ctx, voters, need, h)
		if cfg.Mode == cluster.ModeQuorum && have < need {
			return api.Errorf(api.CodeNotStable, "artefact %s is on %d of %d voters, want %d", h, have, len(voters), need).
				WithHint("retry with the same key, or submit with --wait=local")
		}
	}
	return nil
}

// notDown leaves out who is believed to be down.
func notDown(view *coord.View, list []cluster.NodeID) []cluster.NodeID {
	return slices.DeleteFunc(slices.Clone(list), func(id cluster.NodeID) bool {
		m, ok := view.Member(id)
		return ok && (m.Health == cluster.Suspect || m.Health == cluster.Dead || m.Health == cluster.Left)
	})
}

// spreadOne asks all other voters at once and returns how many have h as soon
// as need of them do.
func (n *node) spreadOne(ctx context.Context, voters []cluster.NodeID, need int, h cluster.Hash) int {
	ctx, cancel := context.WithCancel(ctx)
	answers := make(chan int, len(voters)) // one slot each: never full
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	have := 0
	for _, v := range voters {
		if v == n.id.Node {
			have++
			answers <- 0
			continue
		}
		asking.Go(func() { answers <- len(n.artefacts.Spread(ctx, h, []cluster.NodeID{v})) })
	}
	for range voters {
		if have >= need {
			break
		}
		have += <-answers
	}
	return have
}

// Stop implements status.JobControl.
func (b backend) Stop(ctx context.Context, actor string, id cluster.JobID, reason string) (api.Job, error) {
	if _, err := b.toHolder(ctx, remoteRequest{Stop: &stopJob{Job: id, Reason: reason}, Actor: b.at(actor)}); err != nil {
		return api.Job{}, err
	}
	// The holder has logged it; show it once it is here as well.
	for {
		changed := b.events.Changed()
		job, err := b.Job(ctx, id)
		if err != nil || job.State.Final() {
			return job, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return job, nil
		}
	}
}

// Release implements status.JobControl.
func (b backend) Release(ctx context.Context, actor string, id cluster.JobID) (api.Released, error) {
	reply, err := b.toHolder(ctx, remoteRequest{Release: &releaseJob{Job: id}, Actor: b.at(actor)})
	if err != nil {
		return api.Released{}, err
	}
	return api.Released{Job: id, Chunks: reply.Released}, nil
}

func (n *node) putArtefact(_ context.Context, r io.Reader) (cluster.Hash, int64, error) {
	h, err := n.artefacts.Put(r, cluster.MaxModuleBytes)
	var quota *worker.QuotaError
	switch {
	case errors.Is(err, worker.ErrTooLarge):
		return h, 0, api.Errorf(api.CodeTooLarge, "artefact is above %d bytes", cluster.MaxModuleBytes)
	case errors.As(err, &quota):
		return h, 0, api.Errorf(api.CodeOverloaded, "%v", err).WithHint("raise jobs.artefact_bytes on %s", n.id.Node)
	case err != nil:
		return h, 0, fmt.Errorf("put artefact: %w", err)
	}
	size, _ := n.artefacts.Has(h)
	return h, size, nil
}

// rateTracker measures how fast jobs go, from what callers look at.
type rateTracker struct {
	mu   sync.Mutex
	jobs map[cluster.JobID]*samples
}

// samples is a short history of one job, oldest first.
type samples struct {
	at   []time.Time
	done []uint64
}

const (
	rateWindow  = 10 * time.Second
	maxRateJobs = 1024
)

// rate returns iterations per second: over the last rateWindow while the job
// runs and somebody watches, else over its life. 0 means not known.
func (r *rateTracker) rate(j state.Job, now time.Time) float64 {
	if j.Started == 0 || j.Iterations == 0 {
		return 0
	}
	whole := j.Progress.Time().Sub(j.Started.Time()).Seconds()
	life := 0.0
	if whole > 0 {
		life = float64(j.Iterations) / whole
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if j.State.Final() {
		delete(r.jobs, j.ID)
		return life
	}
	if r.jobs == nil || len(r.jobs) > maxRateJobs {
		r.jobs = map[cluster.JobID]*samples{}
	}
	s := r.jobs[j.ID]
	if s == nil {
		s = &samples{}
		r.jobs[j.ID] = s
	}
	for len(s.at) > 1 && now.Sub(s.at[0]) > rateWindow {
		s.at, s.done = s.at[1:], s.done[1:]
	}
	if n := len(s.at); n == 0 || now.Sub(s.at[n-1]) > rateWindow/50 {
		s.at, s.done = append(s.at, now), append(s.done, j.Iterations)
	}
	span := now.Sub(s.at[0])
	if span < rateWindow/4 || j.Iterations < s.done[0] {
		return life
	}
	return float64(j.Iterations-s.done[0]) / span.Seconds()
}
