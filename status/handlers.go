package status

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/realtime"
	"github.com/skein-project/skein/status/door"
	"github.com/skein-project/skein/status/stream"
)

// handlers are what the routes do: they check a request's form and ask the
// Backend.
type handlers struct {
	o         Options
	backend   Backend
	answers   *responder
	followers *stream.Pool
	places    *door.Places // of streams but watches
	watches   *door.Places
	hub       *realtime.Hub
	uploads   *door.Places
	// examining holds one token per exchange in progress; when full, further ones are
	// refused with overloaded.
	examining chan struct{}
}

// jobID resolves the id in the path: whole, or a unique prefix.
func (hs *handlers) jobID(r *http.Request) (job.ID, error) {
	text := r.PathValue("id")
	if id, err := job.ParseID(text); err == nil {
		return id, nil // whose it is was asked before
	}
	if text == "" || len(text) > 64 {
		return "", api.Errorf(api.CodeNotFound, "no job %.64q", text)
	}
	return hs.backend.FindJob(r.Context(), text, door.Of(r.Context()).Only)
}

// ofJob makes an answer of what needs no more than a job.
func ofJob[T any](hs *handlers, f func(context.Context, job.ID) (T, error)) func(*http.Request) (T, error) {
	return func(r *http.Request) (T, error) {
		id, err := hs.jobID(r)
		if err != nil {
			return *new(T), err
		}
		return f(r.Context(), id)
	}
}

// chunkMap tells where in a job its chunks are how far.
func (hs *handlers) chunkMap(_ context.Context, id job.ID) (api.ChunkMap, error) {
	runs, err := hs.backend.ChunkMap(id, api.MaxChunkRuns)
	return api.ChunkMap{Job: id, ChunkRuns: runs}, err
}

func (hs *handlers) version(*http.Request) (api.Version, error) {
	return api.Version{Version: hs.o.Version, Cluster: hs.o.ClusterID, GoVersion: runtime.Version()}, nil
}

// probe answers 200 or 503.
func (hs *handlers) probe(check func() error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		code, body := http.StatusOK, api.Health{OK: true}
		if err := check(); err != nil {
			code, body = http.StatusServiceUnavailable, api.Health{Reason: err.Error()}
		}
		hs.answers.write(w, r.URL.Path, code, body)
		return nil
	}
}

func (hs *handlers) submit(r *http.Request, req api.SubmitRequest) (api.SubmitResponse, error) {
	if key := r.Header.Get(idempotencyKey); key != "" {
		if req.Spec.Key != "" && req.Spec.Key != key {
			return api.SubmitResponse{}, api.Errorf(api.CodeInvalidRequest, "the header Idempotency-Key and spec.key differ")
		}
		req.Spec.Key = key
	}
	switch req.Wait {
	case "":
		req.Wait = api.WaitStable
	case api.WaitLocal, api.WaitStable:
	default:
		return api.SubmitResponse{}, api.Errorf(api.CodeInvalidRequest, "wait is %q, want local or stable", req.Wait)
	}
	if req.Spec.Key == "" {
		return api.SubmitResponse{}, api.Errorf(api.CodeInvalidJob, "the idempotency key is missing").
			WithHint("set spec.key or the header Idempotency-Key to a text of your own; the same text again is the same job")
	}
	if err := findAfter(hs.backend, r, req.Spec.After); err != nil {
		return api.SubmitResponse{}, err
	}
	req.Spec = req.Spec.WithDefaults()
	if err := req.Spec.Validate(); err != nil {
		return api.SubmitResponse{}, err
	}
	return hs.backend.Submit(r.Context(), door.Of(r.Context()).Actor(), req)
}

// findAfter makes the whole id of each job that another is to wait for, which must be one
// that whoever asks may see.
func findAfter(b Backend, r *http.Request, after []string) error {
	if len(after) > job.MaxAfter {
		return nil // which the spec is refused for
	}
	for i, text := range after {
		id, how, said := strings.Cut(text, ":")
		if id == "" || len(id) > 64 {
			continue
		}
		found, err := b.FindJob(r.Context(), id, door.Of(r.Context()).Only)
		if err != nil {
			if p, ok := errors.AsType[*api.Problem](err); ok {
				p.Detail = "after: " + p.Detail
			}
			return err
		}
		after[i] = string(found)
		if said {
			after[i] += ":" + how
		}
	}
	return nil
}

// maxReason bounds reasons that users give, in bytes.
const maxReason = 256

func checkReason(reason string) error {
	if len(reason) > maxReason {
		return api.Errorf(api.CodeInvalidRequest, "the reason has %d bytes, at most %d are allowed", len(reason), maxReason)
	}
	return nil
}

func (hs *handlers) stopJob(r *http.Request, req api.StopRequest) (api.Job, error) {
	if err := checkReason(req.Reason); err != nil {
		return api.Job{}, err
	}
	id, err := hs.jobID(r)
	if err != nil {
		return api.Job{}, err
	}
	return hs.backend.Stop(r.Context(), door.Of(r.Context()).Actor(), id, req.Reason)
}

func (hs *handlers) releaseJob(r *http.Request, _ nothing) (api.Released, error) {
	id, err := hs.jobID(r)
	if err != nil {
		return api.Released{}, err
	}
	return hs.backend.Release(r.Context(), door.Of(r.Context()).Actor(), id)
}

// Limits of invites at the API; the keeper of invites has its own.
const (
	maxTTLSeconds = 30 * 24 * 3600
	maxUses       = 128
)

func (hs *handlers) createToken(r *http.Request, req api.TokenRequest) (api.TokenCreated, error) {
	if !(req.TTLSeconds >= 1) || req.TTLSeconds > maxTTLSeconds {
		return api.TokenCreated{}, api.Errorf(api.CodeInvalidRequest, "ttl_seconds is %g, want 1 to %d", req.TTLSeconds, maxTTLSeconds)
	}
	if req.Uses < 1 || req.Uses > maxUses {
		return api.TokenCreated{}, api.Errorf(api.CodeInvalidRequest, "uses is %d, want 1 to %d", req.Uses, maxUses)
	}
	if !req.Via.Valid() {
		return api.TokenCreated{}, api.Errorf(api.CodeInvalidRequest, "via %q is neither %s nor %s", req.Via, api.ViaOnion, api.ViaMaster)
	}
	if err := ownerIsThere(hs.backend.Directory(), req.Owner); err != nil {
		return api.TokenCreated{}, err
	}
	return hs.backend.CreateToken(r.Context(), door.Of(r.Context()).Actor(), req)
}

func (hs *handlers) revokeToken(r *http.Request, _ nothing) (api.Header, error) {
	id := r.PathValue("id")
	if len(id) > 64 || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return api.Header{}, api.Errorf(api.CodeNotFound, "no invite %.64q", id)
	}
	if err := hs.backend.RevokeToken(r.Context(), door.Of(r.Context()).Actor(), id); err != nil {
		return api.Header{}, err
	}
	return api.Header{}, nil
}

// putArtefact streams the body to the store. Each read has its own deadline: a
// slow upload is fine, a stalled one is cut.
func (hs *handlers) putArtefact(w http.ResponseWriter, r *http.Request) (api.Artefact, error) {
	leave, prob := hs.uploads.Enter(door.Of(r.Context()))
	if prob != nil {
		return api.Artefact{}, prob
	}
	defer leave()
	limit := hs.o.MaxArtefactBytes
	if r.ContentLength > limit {
		return api.Artefact{}, api.Errorf(api.CodeTooLarge, "body of %d bytes, at most %d are allowed", r.ContentLength, limit)
	}
	rc := http.NewResponseController(w)
	body := &stallReader{r: http.MaxBytesReader(w, r.Body, limit), rc: rc, end: time.Now().Add(uploadTimeout)}
	hash, size, err := hs.backend.PutArtefact(r.Context(), body)
	// What the client sent wrong is the cause of what the store says.
	if body.err != nil {
		return api.Artefact{}, bodyError(body.err, limit)
	}
	if err != nil {
		return api.Artefact{}, err
	}
	if told := r.Header.Get(access.HeaderBody); told != "" && told != hash.String() {
		return api.Artefact{}, api.Errorf(api.CodeInvalidRequest, "the body is another than the one that %s tells", access.HeaderBody)
	}
	_ = rc.SetWriteDeadline(time.Now().Add(stallTimeout)) // not possible on a test recorder
	return api.Artefact{Hash: hash, SizeBytes: size}, nil
}

type stallReader struct {
	r   io.Reader
	rc  *http.ResponseController
	end time.Time
	err error // first error other than io.EOF
}

func (s *stallReader) Read(p []byte) (int, error) {
	deadline := time.Now().Add(stallTimeout)
	if deadline.After(s.end) {
		deadline = s.end
	}
	_ = s.rc.SetReadDeadline(deadline) // not possible on a test recorder
	n, err := s.r.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		_ = s.rc.SetReadDeadline(time.Time{}) // nothing more is awaited
	case err != nil && s.err == nil:
		s.err = err
	}
	return n, err
}
