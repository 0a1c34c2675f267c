package web

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
)

// policy lets the page load what came with it, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// maxBody bounds what the page sends.
const maxBody = 16 << 10

// Options is what a handler needs.
type Options struct {
	// API carries requests to a daemon, whatever host their URLs name.
	API http.RoundTripper
	// Names are those under which this page may be asked for, without ports.
	Names []string
	// Naming is what says the names, for those who ask under another; empty: --host.
	Naming string
	// Gate says who may read; nil: whoever reaches it.
	Gate *Gate
	// Plain serves nothing but the plain pages, below the secret of the gate.
	Plain bool
	// ReadOnly refuses every action.
	ReadOnly bool
	// Base is the path below which the page asks the API, where /v1 itself is the
	// daemon's own.
	Base string
}

type handler struct {
	o     Options
	files map[string]asset
	style string // path of the style sheet
	pages []plainPage
	mux   *http.ServeMux
}

// reads are what the page asks; actions all that it can change.
var (
	reads = []string{
		"/v1/watch", "/v1/events", "/v1/whoami", "/v1/status", "/v1/members", "/v1/version", "/v1/lease/history",
		"/v1/events/{node}/{inc}/{seq}", "/v1/replay", "/v1/log/density", "/v1/jobs/{id}", "/v1/jobs/{id}/map", "/v1/jobs/{id}/series", "/v1/jobs/{id}/history", "/v1/workflows/{id}", "/v1/schedules", "/v1/load", "/v1/load/{id}", "/v1/load/{id}/live", "/v1/zones",
	}
	actions = []string{
		"/v1/lease/step-down", "/v1/worker/drain", "/v1/onion/drain", "/v1/jobs/{id}/stop", "/v1/jobs/{id}/release",
		"/v1/workflows/{id}/stop", "/v1/workflows/{id}/retry", "/v1/schedules/{id}/pause", "/v1/schedules/{id}/resume", "/v1/schedules/{id}/run", "/v1/load/{id}/stop",
	}
)

// New returns a handler of the page.
func New(o Options) (http.Handler, error) {
	files, err := assets(dist, "dist")
	if err != nil {
		return nil, err
	}
	h := &handler{o: o, files: files, pages: plainPages(), mux: http.NewServeMux()}
	for name := range files {
		if strings.HasSuffix(name, ".css") {
			h.style = name
		}
	}
	h.mux.HandleFunc("GET /assets/{file}", h.asset)
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { refuse(w, notFound(r)) })
	switch {
	case o.Plain:
		h.mux.HandleFunc("GET /{secret}/p/{page}", h.secret)
		return h, nil
	case o.Gate != nil:
		h.mux.HandleFunc("GET /{$}", files["/index.html"].serve)
		h.mux.HandleFunc("POST /ui/session", h.trade)
	default:
		h.mux.HandleFunc("GET /{$}", h.open)
		h.mux.HandleFunc("GET /p/{page}", h.plain)
	}
	h.mux.HandleFunc("GET "+o.Base+"/topics", h.guarded(h.topics))
	h.mux.HandleFunc("GET "+o.Base+"/topics/{name}", h.guarded(h.topic))
	for _, path := range reads {
		h.mux.HandleFunc("GET "+o.Base+path, h.guarded(h.relay))
	}
	for _, path := range actions {
		h.mux.HandleFunc("POST "+o.Base+path, h.guarded(h.act))
	}
	return h, nil
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
	if p := h.stranger(r); p != nil {
		refuse(w, p)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// stranger is why a request is not one of this page: a name that another page may
// have pointed at this address, or another page's origin.
func (h *handler) stranger(r *http.Request) *api.Problem {
	if !slices.Contains(h.o.Names, hostname(r.Host)) {
		return api.Errorf(api.CodeForbidden, "this page is not served as host %.100q", r.Host).
			WithHint("ask for %s%s", strings.Join(h.o.Names, " or "), h.naming(hostname(r.Host)))
	}
	if from := r.Header.Get("Origin"); from != "" {
		if u, err := url.Parse(from); err != nil || u.Host != r.Host {
			return api.Errorf(api.CodeForbidden, "a page of %.100q asks, this one is served as %.100q", from, r.Host).
				WithHint("open the page itself%s", h.naming("NAME"))
		}
	}
	return nil
}

// naming says how the page gets another name.
func (h *handler) naming(name string) string {
	if h.o.Naming != "" {
		return ": it has the names of " + h.o.Naming
	}
	return ", or start it with --host " + clean(name, 100)
}

// hostname is a host without its port, in lower case.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// sameSite is why a request came from another page, as the browser says; programs
// that are no browsers say nothing.
func (h *handler) sameSite(r *http.Request) *api.Problem {
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "same-origin", "none":
		return nil
	default:
		return api.Errorf(api.CodeForbidden, "a request of another page (%.20q) to host %.100q", site, r.Host).
			WithHint("open the page itself%s", h.naming("NAME"))
	}
}

func (h *handler) asset(w http.ResponseWriter, r *http.Request) {
	a, ok := h.files[r.URL.Path]
	if !ok {
		refuse(w, notFound(r))
		return
	}
	a.serve(w, r)
}

func notFound(r *http.Request) *api.Problem {
	return api.Errorf(api.CodeNotFound, "the page has no %s %.100q", r.Method, r.URL.Path).
		WithHint("the whole API is at the daemon's socket, and every change a command of skein")
}

// locked is the one answer to every wrong code and bearer.
func locked() *api.Problem {
	return api.Errorf(api.CodeUnauthorized, "this link was used, is too old or is not right").WithHint("run `skein ui` again")
}

// secret serves the plain pages to who knows where.
func (h *handler) secret(w http.ResponseWriter, r *http.Request) {
	if !h.o.Gate.Knows(r.PathValue("secret")) {
		refuse(w, locked())
		return
	}
	h.plain(w, r)
}

// trade answers the bearer for a code.
func (h *handler) trade(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Code string `json:"code"`
	}
	body, p := h.bodyOf(w, r)
	switch {
	case p != nil:
	case h.o.Gate == nil:
		p = notFound(r)
	case json.Unmarshal(body, &req) != nil:
		p = api.Errorf(api.CodeInvalidRequest, "the body is not JSON with a code")
	}
	if p != nil {
		refuse(w, p)
		return
	}
	bearer, ok := h.o.Gate.Trade(req.Code)
	if !ok {
		refuse(w, locked())
		return
	}
	answer(w, http.StatusOK, "application/json", struct {
		Bearer string `json:"bearer"`
	}{bearer})
}

// guarded lets in who has the bearer, from this page.
func (h *handler) guarded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if p := h.sameSite(r); p != nil {
			refuse(w, p)
			return
		}
		if h.o.Gate != nil {
			bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if !ok || !h.o.Gate.Admits(bearer) {
				refuse(w, locked())
				return
			}
		}
		next(w, r)
	}
}

// act carries out an action of the list.
func (h *handler) act(w http.ResponseWriter, r *http.Request) {
	if h.o.ReadOnly {
		refuse(w, api.Errorf(api.CodeForbidden, "this page only shows").WithHint("start `skein ui` on a host of the cluster, without --read-only"))
		return
	}
	body, p := h.bodyOf(w, r)
	if p != nil {
		refuse(w, p)
		return
	}
	h.forward(w, r, body)
}

// bodyOf reads a small body of JSON. No form of another page sends this type.
func (h *handler) bodyOf(w http.ResponseWriter, r *http.Request) ([]byte, *api.Problem) {
	if p := h.sameSite(r); p != nil {
		return nil, p
	}
	if kind := r.Header.Get("Content-Type"); kind != "application/json" {
		return nil, api.Errorf(api.CodeInvalidRequest, "the body is %.50q, want application/json", kind)
	}
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(patience)) //nolint:errcheck // without it the server's own holds
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return nil, api.Errorf(api.CodeTooLarge, "the body has more than %d bytes", maxBody)
	}
	if err != nil {
		return nil, api.Errorf(api.CodeInvalidRequest, "read the body: %s", err)
	}
	return body, nil
}

func refuse(w http.ResponseWriter, p *api.Problem) {
	p.APIVersion, p.ObservedAt = api.APIVersion, time.Now().UTC()
	answer(w, p.Status, "application/problem+json", p)
}

func answer(w http.ResponseWriter, status int, kind string, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		status, text = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // who reads no more has gone
}
