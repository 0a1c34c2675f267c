package status

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/skein-project/skein/api"
)

// route is one method of one path.
type route struct {
	method, path string
	// local routes are not served over TCP, change routes need an
	// administrator on the socket.
	local, change bool
	// timeout bounds the handler; 0: it sets its own.
	timeout time.Duration
	// answer makes a body; stream writes the answer itself.
	answer func(w http.ResponseWriter, r *http.Request) (any, error)
	stream func(w http.ResponseWriter, r *http.Request) error
}

func (s *Server) table() []route {
	b := s.o.Backend
	list := []route{
		read("/v1/status", b.Status),
		{method: http.MethodGet, path: "/v1/members", timeout: readTimeout, answer: s.members},
		read("/v1/mesh", b.Mesh),
		read("/v1/lease", b.Lease),
		read("/v1/lease/history", b.LeaseHistory),
		read("/v1/lease/voters", b.Voters),
		read("/v1/jobs", b.Jobs),
		read("/v1/workers", b.Workers),
		{method: http.MethodGet, path: "/v1/jobs/{id}", timeout: readTimeout, answer: s.job},
		{method: http.MethodGet, path: "/v1/jobs/{id}/watch", stream: s.watchJob},
		{method: http.MethodGet, path: "/v1/jobs/{id}/chunks", stream: s.chunks},
		{method: http.MethodGet, path: "/v1/jobs/{id}/history", timeout: changeTimeout, answer: s.history},
		local(read("/v1/groups", b.Groups)),
		change(http.MethodPut, "/v1/groups/{name}", s.setGroup),
		{method: http.MethodGet, path: "/v1/events", stream: s.events},
		local(route{method: http.MethodGet, path: "/v1/events/verify", timeout: readTimeout, answer: s.checkLog}),
		read("/v1/log/snapshots", b.Snapshots),
		change(http.MethodPost, "/v1/log/snapshots", s.takeSnapshot),
		{method: http.MethodGet, path: "/v1/version", timeout: readTimeout, answer: s.version},
		{method: http.MethodGet, path: "/healthz", timeout: readTimeout, stream: s.probe(b.Healthy)},
		{method: http.MethodGet, path: "/readyz", timeout: readTimeout, stream: s.probe(b.Ready)},
		local(read("/v1/config", b.Config)),
		local(route{method: http.MethodGet, path: "/v1/doctor", timeout: readTimeout, answer: s.doctor}),
		local(read("/v1/tokens", b.Tokens)),
		change(http.MethodPost, "/v1/tokens", s.createToken),
		change(http.MethodDelete, "/v1/tokens/{id}", s.revokeToken),
		change(http.MethodPost, "/v1/lease/step-down", s.stepDown),
		change(http.MethodPost, "/v1/lease/voters", s.setVoters),
		change(http.MethodPost, "/v1/leave", s.leave),
		change(http.MethodPost, "/v1/members/{node}/remove", s.remove),
		change(http.MethodPost, "/v1/mesh/rotate", s.rotate),
		change(http.MethodPost, "/v1/jobs", s.submit),
		change(http.MethodPost, "/v1/jobs/{id}/stop", s.stopJob),
		change(http.MethodPost, "/v1/jobs/{id}/release", s.releaseJob),
		change(http.MethodPost, "/v1/worker/drain", s.drain),
		upload(change(http.MethodPut, "/v1/artefacts", s.putArtefact)),
	}
	list = append(list, s.onionRoutes()...)
	if s.o.Gatherer != nil {
		show := promhttp.HandlerFor(s.o.Gatherer, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: readTimeout})
		list = append(list, route{
			method: http.MethodGet, path: "/metrics", timeout: readTimeout,
			stream: func(w http.ResponseWriter, r *http.Request) error {
				show.ServeHTTP(w, r)
				return nil
			},
		})
	}
	return list
}

func read[T any](path string, f func(context.Context) (T, error)) route {
	return route{
		method: http.MethodGet, path: path, timeout: readTimeout,
		answer: func(_ http.ResponseWriter, r *http.Request) (any, error) { return f(r.Context()) },
	}
}

func local(r route) route {
	r.local = true
	return r
}

func change(method, path string, f func(http.ResponseWriter, *http.Request) (any, error)) route {
	return route{method: method, path: path, local: true, change: true, timeout: changeTimeout, answer: f}
}

func upload(r route) route {
	r.timeout = uploadTimeout
	return r
}

// routes builds the mux: one handler per path, which then picks the method,
// so that every refusal is a problem body.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	byPath := map[string][]route{}
	var paths []string
	for _, r := range s.table() {
		if byPath[r.path] == nil {
			paths = append(paths, r.path)
		}
		byPath[r.path] = append(byPath[r.path], r)
	}
	for _, path := range paths {
		list := byPath[path]
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { s.dispatch(w, r, list) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.problem(w, r, "none", api.Errorf(api.CodeNotFound, "nothing at %s", r.URL.Path).
			WithHint("paths begin with /v1/, or are /healthz, /readyz and /metrics"))
	})
	return mux
}

func (s *Server) dispatch(w http.ResponseWriter, r *http.Request, list []route) {
	var methods []string
	for _, rt := range list {
		if rt.method == r.Method || rt.method == http.MethodGet && r.Method == http.MethodHead && rt.answer != nil {
			s.handle(w, r, rt)
			return
		}
		methods = append(methods, rt.method)
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	s.problem(w, r, list[0].path, api.Errorf(api.CodeMethod, "%s is not possible at %s", r.Method, r.URL.Path))
}

func (s *Server) handle(w http.ResponseWriter, r *http.Request, rt route) {
	p := peerOf(r.Context())
	switch {
	case rt.local && p.tcp:
		s.problem(w, r, rt.path, api.Errorf(api.CodeForbidden, "%s is served on the unix socket only", rt.path))
		return
	case rt.change && !p.admin:
		prob := api.Errorf(api.CodeForbidden, "uid %d may read, not change", p.uid)
		if s.o.Group != "" {
			prob = prob.WithHint("become root, or a member of group %s", s.o.Group)
		} else {
			prob = prob.WithHint("become root")
		}
		s.problem(w, r, rt.path, prob)
		return
	}
	if rt.timeout > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), rt.timeout)
		defer cancel()
		r = r.WithContext(ctx)
		// The connection outlives the handler's deadline, to carry its answer.
		deadline := time.Now().Add(rt.timeout + stallTimeout)
		rc := http.NewResponseController(w)
		_ = rc.SetReadDeadline(deadline) // not possible on a test recorder
		_ = rc.SetWriteDeadline(deadline)
	}
	if rt.change {
		s.log.Debug().Str("peer", p.actor()).Str("request", rt.method+" "+rt.path).Msg("change requested")
	}
	if rt.stream != nil {
		if err := rt.stream(w, r); err != nil {
			s.problem(w, r, rt.path, asProblem(err))
			return
		}
		s.count(rt.path, http.StatusOK)
		return
	}
	body, err := rt.answer(w, r)
	if err != nil {
		s.problem(w, r, rt.path, asProblem(err))
		return
	}
	s.write(w, rt.path, http.StatusOK, body)
}

func (s *Server) write(w http.ResponseWriter, path string, code int, body any) {
	text, err := json.Marshal(complete(body, s.o.Backend.Header()))
	if err != nil {
		s.log.Error().Err(err).Str("request", path).Msg("answer cannot be encoded")
		code, text = http.StatusInternalServerError, []byte(`{"api_version":"1","code":"internal","detail":"answer cannot be encoded","status":500}`)
	}
	w.Header().Set("Content-Type", "application/json")
	s.send(w, path, code, text)
}

func (s *Server) problem(w http.ResponseWriter, r *http.Request, path string, p *api.Problem) {
	if p.Code == api.CodeInternal {
		s.log.Warn().Str("request", r.Method+" "+path).Str("err", p.Detail).Msg("request failed")
	}
	p.Header = s.o.Backend.Header()
	text, err := json.Marshal(p)
	if err != nil { // strings and numbers always encode
		panic("status: encode problem: " + err.Error())
	}
	if p.RetryAfterSeconds != nil {
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(*p.RetryAfterSeconds)))))
	}
	w.Header().Set("Content-Type", "application/problem+json")
	s.send(w, path, p.Status, text)
}

func (s *Server) send(w http.ResponseWriter, path string, code int, text []byte) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	w.Write(append(text, '\n'))
	s.count(path, code)
}

func (s *Server) count(path string, code int) {
	if path == "" {
		path = "none"
	}
	s.metrics.requests.WithLabelValues(path, strconv.Itoa(code/100)+"xx").Inc()
}
