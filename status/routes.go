package status

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/overload"
	"github.com/skein-project/skein/status/debug"
	"github.com/skein-project/skein/status/door"
	"github.com/skein-project/skein/status/joblogs"
	"github.com/skein-project/skein/status/joboutputs"
	"github.com/skein-project/skein/status/lanes"
	"github.com/skein-project/skein/status/loads"
	"github.com/skein-project/skein/status/once"
	"github.com/skein-project/skein/status/openapi"
	"github.com/skein-project/skein/status/outside"
	"github.com/skein-project/skein/status/past"
	"github.com/skein-project/skein/status/proof"
	"github.com/skein-project/skein/status/query"
	"github.com/skein-project/skein/status/reserves"
	"github.com/skein-project/skein/status/workflows"
)

// route is one method of one path.
type route struct {
	method, path string
	needs        access.Right // see door.Rule
	open, change bool
	long         bool
	pace         door.Pace
	// holder routes are the holder's to carry out: users' requests go there, with the
	// proof.
	holder bool
	// named routes say by themselves what is to be done at which host: any host may
	// bring the request there, again with the proof.
	named bool
	// once: asked for again under the same Idempotency-Key, it is not done again.
	once bool
	// timeout bounds the handler; 0: it sets its own.
	timeout time.Duration
	// shape has the parameters that the route takes, all others are refused, and
	// what its handler takes and gives.
	shape openapi.Shape
	// answer makes a body; stream writes the answer itself.
	answer func(w http.ResponseWriter, r *http.Request) (any, error)
	stream func(w http.ResponseWriter, r *http.Request) error
}

func (hs *handlers) table() []route {
	b := hs.backend
	known := func(owner string) error { return ownerIsThere(b.Directory(), owner) }
	list := []route{
		read("/v1/status", b.Status),
		read("/v1/overload", b.Overload),
		get(access.Look, "/v1/members", hs.members, openapi.Param{Name: "all", Type: false, About: "also who is gone"}),
		read("/v1/mesh", b.Mesh),
		read("/v1/lease", b.Lease),
		get(access.Look, "/v1/lease/history", past.Terms(b.LeaseHistory), past.TermsParams...),
		read("/v1/lease/voters", b.Voters),
		read("/v1/workers", b.Workers),
		read("/v1/zones", b.Zones),
		read("/v1/log/snapshots", b.Snapshots),
		get(access.Read, "/v1/jobs", hs.jobs, pageParams...),
		get(access.Read, "/v1/jobs/{id}", ofJob(hs, b.Job)),
		get(access.Read, "/v1/jobs/{id}/explain", ofJob(hs, b.Explain)),
		get(access.Read, "/v1/jobs/{id}/map", ofJob(hs, hs.chunkMap)),
		slow(get(access.Read, "/v1/jobs/{id}/series", past.Series(b, hs.jobID), past.SeriesParams...)),
		slow(get(access.Read, "/v1/jobs/{id}/history", hs.history, openapi.Param{Name: "chunks", Type: false, About: "also those of its chunks"})),
		slow(get(access.Read, "/v1/replay", ofPast(b, past.Replay), past.ReplayParams...)),
		get(access.Look, "/v1/log/density", ofPast(b, past.Density), past.DensityParams...),
		get(access.Read, "/v1/workflows", workflows.List(b)),
		get(access.Read, "/v1/workflows/{id}", workflows.One(b)),
		get(access.Read, "/v1/load", loads.List(b)),
		get(access.Read, "/v1/load/{id}", loads.One(b)),
		slow(get(access.Read, "/v1/load/{id}/report", loads.Report(b))),
		slow(get(access.Read, "/v1/load/{id}/live", loads.Live(b), loads.LiveParams...)),
		streamed("/v1/load/{id}/follow", loads.Follow(b, b.Header, hs.followers, hs.places), loads.FollowParams, api.LoadLive{}),
		get(access.Read, "/v1/schedules", workflows.Schedules(b)),
		get(access.Read, "/v1/schedules/{id}", workflows.Schedule(b)),
		streamed("/v1/jobs/{id}/watch", hs.watchJob, nil, api.Job{}),
		streamed("/v1/jobs/{id}/chunks", hs.chunks, chunkParams, api.ChunkResult{}, api.StreamPosition{}, api.ChunkEnd{}),
		streamed("/v1/jobs/{id}/logs", joblogs.Serve(b, hs.jobID, hs.followers, hs.places), joblogs.Params, api.JobLog{}),
		get(access.Read, "/v1/jobs/{id}/outputs", ofJob(hs, b.JobOutputs)),
		bytesOf("/v1/jobs/{id}/outputs/{chunk}/{name}", joboutputs.Serve(b, hs.jobID, hs.places)),
		get(access.Read, "/v1/events/{node}/{inc}/{seq}", proof.Of(b, func(who string) func(event.Event) bool { return ownEvents(b, who) })),
		streamed("/v1/events", hs.events, slices.Concat(query.Params, query.FollowParams), api.Event{}, api.StreamPosition{}),
		streamed("/v1/watch", hs.watch, slices.Concat(watchParams, query.Params), api.WatchMessage{}),
		open("/v1/version", hs.version),
		get(access.Look, "/v1/whoami", hs.answers.door.Whoami),
		document("/v1/openapi.json", json.RawMessage{}, func(w http.ResponseWriter, _ *http.Request) error { return openapi.Write(w, told(hs.table())) }),
		document("/healthz", api.Health{}, hs.probe(b.Healthy)),
		document("/readyz", api.Health{}, hs.probe(b.Ready)),

		paced(door.Submit, toHolder(keyed(use(http.MethodPost, "/v1/jobs", hs.submit)))),
		toHolder(use(http.MethodPost, "/v1/jobs/{id}/stop", hs.stopJob)),
		toHolder(use(http.MethodPost, "/v1/jobs/{id}/release", hs.releaseJob)),
		paced(door.Submit, toHolder(keyed(useUpTo(http.MethodPost, "/v1/workflows", workflows.MaxBody, workflows.Submit(b))))),
		toHolder(use(http.MethodPost, "/v1/workflows/{id}/stop", workflows.Stop(b))),
		toHolder(use(http.MethodPost, "/v1/workflows/{id}/retry", workflows.Retry(b))),
		paced(door.Submit, toHolder(useUpTo(http.MethodPut, "/v1/schedules/{id}", workflows.MaxBody, workflows.SetSchedule(b)))),
		toHolder(use(http.MethodDelete, "/v1/schedules/{id}", workflows.RemoveSchedule[nothing](b))),
		paced(door.Submit, toHolder(use(http.MethodPost, "/v1/schedules/{id}/pause", workflows.ChangeSchedule(b, "pause")))), // the log has the definition again
		paced(door.Submit, toHolder(use(http.MethodPost, "/v1/schedules/{id}/resume", workflows.ChangeSchedule(b, "resume")))),
		paced(door.Submit, toHolder(keyed(use(http.MethodPost, "/v1/schedules/{id}/run", workflows.RunSchedule(b))))),
		paced(door.Submit, toHolder(keyed(use(http.MethodPost, "/v1/load", loads.Submit(b))))),
		toHolder(use(http.MethodPost, "/v1/load/{id}/stop", loads.Stop(b))),
		upload("/v1/artefacts", hs.putArtefact),

		get(access.Operate, "/v1/users", outside.Users(b.Users), outside.NamesParams...),
		toHolder(change(http.MethodPut, "/v1/users/{name}", hs.setUser)),
		toHolder(change(http.MethodPut, "/v1/members/{node}/owner", hs.setOwner)),
		get(access.Operate, "/v1/gateway", of(b.Gateways)),
		get(access.Operate, "/v1/gateway/workers", outside.Workers(b), outside.PageParams...),
		toHolder(change(http.MethodPost, "/v1/gateway/workers", outside.Enrol(b, known))),
		toHolder(change(http.MethodDelete, "/v1/gateway/workers/{worker}", outside.Revoke[nothing](b))),
		get(access.Operate, "/v1/gateway/tokens", of(b.AccessTokens)),
		toHolder(changeUpTo(http.MethodPost, "/v1/gateway/tokens", maxBody, outside.UsualAccess, outside.CreateAccess(b, known))),
		toHolder(change(http.MethodDelete, "/v1/gateway/tokens/{id}", outside.RevokeAccess[nothing](b))),
		get(access.Operate, "/v1/groups", outside.Groups(b.Groups), outside.NamesParams...),
		toHolder(changeUpTo(http.MethodPut, "/v1/groups/{name}", maxGroupBody, api.GroupRequest{}, hs.setGroup)),
		get(access.Operate, "/v1/reservations", of(b.Reservations)),
		toHolder(change(http.MethodPut, "/v1/reservations/{name}", reserves.Set(b, known))),
		toHolder(change(http.MethodDelete, "/v1/reservations/{name}", reserves.Remove[nothing](b))),
		get(access.Operate, "/v1/events/verify", hs.checkLog, checkParams...),
		get(access.Operate, "/v1/config", of(b.Config)),
		get(access.Operate, "/v1/doctor", hs.doctor),
		named(slow(get(access.Debug, "/v1/debug", func(r *http.Request) (api.DebugFiles, error) { return debug.Files(b, r) }, debug.Params...))),
		get(access.Operate, "/v1/tokens", of(b.Tokens)),
		toHolder(change(http.MethodPost, "/v1/log/snapshots", hs.takeSnapshot)),
		paced(door.Invite, changeUpTo(http.MethodPost, "/v1/tokens", maxBody, api.TokenRequest{TTLSeconds: 3600, Uses: 1}, hs.createToken)),
		named(change(http.MethodDelete, "/v1/tokens/{id}", hs.revokeToken)),
		toHolder(change(http.MethodPost, "/v1/lease/step-down", hs.stepDown)),
		toHolder(change(http.MethodPost, "/v1/lease/voters", hs.setVoters)),
		change(http.MethodPost, "/v1/leave", hs.leave),
		named(change(http.MethodPost, "/v1/members/{node}/remove", hs.remove)),
		change(http.MethodPost, "/v1/mesh/rotate", hs.rotate),
		named(change(http.MethodPost, "/v1/worker/drain", hs.drain)),
	}
	list = append(list, hs.onionRoutes()...)
	if hs.o.Gatherer != nil {
		show := promhttp.HandlerFor(hs.o.Gatherer, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: readTimeout})
		metrics := document("/metrics", openapi.Text{}, func(w http.ResponseWriter, r *http.Request) error {
			show.ServeHTTP(w, r)
			return nil
		})
		metrics.open, metrics.needs = false, access.Look
		list = append(list, metrics)
	}
	for i, rt := range list {
		if rt.method == http.MethodGet && strings.HasPrefix(rt.path, "/v1/") {
			list[i].shape.Params = slices.Concat(rt.shape.Params, freshParams)
		}
	}
	return list
}

// checkLanes says which route has no lane.
func checkLanes(table []route) error {
	var list []string
	for _, rt := range table {
		list = append(list, rt.method+" "+rt.path)
	}
	return lanes.Check(list)
}

// told is what the description of the API tells of routes.
func told(table []route) []openapi.Route {
	var list []openapi.Route
	for _, rt := range table {
		list = append(list, openapi.Route{Method: rt.method, Path: rt.path, Needs: rt.needs, Open: rt.open, Shape: rt.shape})
	}
	return list
}

// unknown refuses what a route does not take. A handler never sees a parameter that
// is not described.
func (rt route) unknown(r *http.Request) error {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return api.Errorf(api.CodeInvalidRequest, "query: %s", err)
	}
	for name, values := range q {
		i := slices.IndexFunc(rt.shape.Params, func(p openapi.Param) bool { return p.Name == name && !p.Header })
		switch {
		case i < 0:
			return api.Errorf(api.CodeInvalidRequest, "unknown parameter %.64q", name)
		case len(values) > 1 && !rt.shape.Params[i].Many():
			return api.Errorf(api.CodeInvalidRequest, "%s stands there %d times", name, len(values))
		}
	}
	return nil
}

// of makes an answer of what needs no more than a context.
func of[T any](f func(context.Context) (T, error)) func(*http.Request) (T, error) {
	return func(r *http.Request) (T, error) { return f(r.Context()) }
}

// ofPast makes an answer of what reads the log's past.
func ofPast[T any](log past.Log, f func(past.Log, *http.Request) (T, error)) func(*http.Request) (T, error) {
	return func(r *http.Request) (T, error) { return f(log, r) }
}

func get[T any](needs access.Right, path string, f func(*http.Request) (T, error), params ...openapi.Param) route {
	return route{
		method: http.MethodGet, path: path, needs: needs, timeout: readTimeout, shape: openapi.Shape{Params: params, Gives: []any{*new(T)}},
		answer: func(_ http.ResponseWriter, r *http.Request) (any, error) { return f(r) },
	}
}

// slow routes read much of the log, or ask others.
func slow(r route) route {
	r.timeout = changeTimeout
	return r
}

func read[T any](path string, f func(context.Context) (T, error)) route {
	return get(access.Look, path, of(f))
}

// open routes tell nothing of the cluster.
func open[T any](path string, f func(*http.Request) (T, error)) route {
	rt := get(access.Look, path, f)
	rt.open = true
	return rt
}

// document is an open route that writes its answer itself.
func document(path string, gives any, f func(http.ResponseWriter, *http.Request) error) route {
	return route{method: http.MethodGet, path: path, open: true, timeout: readTimeout, shape: openapi.Shape{Gives: []any{gives}}, stream: f}
}

// streamed is one about jobs, each line of which is one of those.
func streamed(path string, f func(http.ResponseWriter, *http.Request) error, params []openapi.Param, of ...any) route {
	return route{method: http.MethodGet, path: path, needs: access.Read, pace: door.Stream, shape: openapi.Shape{Params: params, Gives: of, Lines: true}, stream: f}
}

// bytesOf is one about jobs that answers with a file.
func bytesOf(path string, f func(http.ResponseWriter, *http.Request) error) route {
	return route{method: http.MethodGet, path: path, needs: access.Read, pace: door.Stream, shape: openapi.Shape{Gives: []any{openapi.Bytes{}}}, stream: f}
}

func change[Q, T any](method, path string, f func(*http.Request, Q) (T, error)) route {
	return changeUpTo(method, path, maxBody, *new(Q), f)
}

// changeUpTo is a change asked for in a body of at most so many bytes; what that
// leaves out is as in usual.
func changeUpTo[Q, T any](method, path string, limit int64, usual Q, f func(*http.Request, Q) (T, error)) route {
	rt := route{
		method: method, path: path, needs: access.Operate, change: true, once: true, timeout: changeTimeout,
		shape: openapi.Shape{Params: onceParams, Gives: []any{*new(T)}},
		answer: func(w http.ResponseWriter, r *http.Request) (any, error) {
			req := usual
			if err := decode(w, r, &req, limit); err != nil {
				return nil, err
			}
			return f(r, req)
		},
	}
	if any(usual) != any(nothing{}) {
		rt.shape.Takes = usual
	}
	return rt
}

// nothing is what a body says that has nothing to say.
type nothing struct{}

// use is a change of what users own.
func use[Q, T any](method, path string, f func(*http.Request, Q) (T, error)) route {
	return useUpTo(method, path, maxBody, f)
}

func useUpTo[Q, T any](method, path string, limit int64, f func(*http.Request, Q) (T, error)) route {
	rt := changeUpTo(method, path, limit, *new(Q), f)
	rt.needs = access.Use
	return rt
}

var onceParams = []openapi.Param{{Name: idempotencyKey, Header: true, Type: "", About: "the same key again within 10 minutes is answered as before, and nothing is done"}}

// keyed is a change whose key is part of what it makes.
func keyed(r route) route {
	r.once = false
	r.shape.Params = []openapi.Param{{Name: idempotencyKey, Header: true, Type: "", About: "instead of the key in the body: the same key again is the same job, or the same run of a workflow"}}
	return r
}

func toHolder(r route) route {
	r.holder = true
	return r
}

func upload[T any](path string, f func(http.ResponseWriter, *http.Request) (T, error)) route {
	return route{
		method: http.MethodPut, path: path, needs: access.Use, change: true, timeout: uploadTimeout, long: true,
		shape: openapi.Shape{
			Params: []openapi.Param{{Name: access.HeaderBody, Header: true, Type: "", About: "SHA-256 of the body in hex, which a signature needs"}},
			Takes:  openapi.Bytes{}, Gives: []any{*new(T)},
		},
		answer: func(w http.ResponseWriter, r *http.Request) (any, error) { return f(w, r) },
	}
}

func named(r route) route {
	r.named = true
	return r
}

func paced(p door.Pace, r route) route {
	r.pace = p
	return r
}

// responder picks the route of a request, checks what its peer may do, and
// writes its answer or the problem with it.
type responder struct {
	header   func() api.Header
	users    UserControl
	door     *door.Door
	enter    func(context.Context, overload.Lane, bool) (func(), *overload.Refused)
	log      zerolog.Logger
	requests *prometheus.CounterVec
	fresh    freshness
	once     *once.Keeper
}

// routes builds the mux: one handler per path, which then picks the method,
// so that every refusal is a problem body.
func (re *responder) routes(table []route) *http.ServeMux {
	mux := http.NewServeMux()
	byPath := map[string][]route{}
	var paths []string
	for _, r := range table {
		if byPath[r.path] == nil {
			paths = append(paths, r.path)
		}
		byPath[r.path] = append(byPath[r.path], r)
	}
	for _, path := range paths {
		list := byPath[path]
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { re.dispatch(w, r, list) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		re.problem(w, r, "none", api.NoPath(r.URL.Path))
	})
	return mux
}

func (re *responder) dispatch(w http.ResponseWriter, r *http.Request, list []route) {
	var methods []string
	for _, rt := range list {
		if rt.method == r.Method || rt.method == http.MethodGet && r.Method == http.MethodHead && rt.answer != nil {
			re.handle(w, r, rt)
			return
		}
		methods = append(methods, rt.method)
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	re.problem(w, r, list[0].path, api.Errorf(api.CodeMethod, "%s is not possible at %s", r.Method, r.URL.Path))
}

// handle answers a request of a route.
func (re *responder) handle(w http.ResponseWriter, r *http.Request, rt route) {
	if err := re.serve(w, r, rt); err != nil {
		re.problem(w, r, rt.path, asProblem(err))
	}
}

// serve finds out who asks, and has the route's handler answer, or another host. It
// returns why nothing was answered.
func (re *responder) serve(w http.ResponseWriter, r *http.Request, rt route) error {
	if door.Of(r.Context()).Carried && !rt.holder && !rt.named {
		// A proof of what one host is to do, or to tell, is worth nothing at another.
		return api.Errorf(api.CodeForbidden, "%s %s is no request that hosts carry to each other", rt.method, rt.path)
	}
	lane, _ := lanes.Of(rt.method, rt.path) // all have one: see New
	if _, refused := re.enter(r.Context(), lane, false); refused != nil {
		return shed(refused)
	}
	// A proof may be over a body, which must come.
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(stallTimeout)) // not possible on a test recorder
	p, r, prob := re.door.Admit(r, door.Rule{
		Method: rt.method, Path: rt.path, Needs: rt.needs, Open: rt.open, Change: rt.change, Long: rt.long, Pace: rt.pace,
	})
	if prob != nil {
		return prob
	}
	_ = rc.SetReadDeadline(time.Time{})
	if err := rt.unknown(r); err != nil {
		return err
	}
	timeout, err := patience(r, rt.timeout)
	if err != nil {
		return err
	}
	if timeout > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		r = r.WithContext(ctx)
	}
	if rt.method == http.MethodGet && !rt.open {
		if r, err = re.fresh.await(r); err != nil {
			return err
		}
	}
	if rt.timeout > 0 {
		// The connection outlives the handler's deadline, to carry its answer.
		deadline := time.Now().Add(rt.timeout + stallTimeout)
		_ = rc.SetReadDeadline(deadline)
		_ = rc.SetWriteDeadline(deadline)
	}
	var body []byte // kept where it may have to go elsewhere
	if rt.change && !rt.long && p.User != "" {
		if body, err = keep(w, r); err != nil {
			return err
		}
		if away := re.holderOf(rt); away != nil {
			re.carry(w, r, rt, p, body, away)
			return nil
		}
	}
	// Only now: this host may have learned of the job meanwhile. Part of an id, or a
	// name, is looked for among the peer's own.
	if id, err := job.ParseID(r.PathValue("id")); err == nil {
		if prob := re.door.Own(p, id); prob != nil {
			return prob
		}
	}
	if rt.change {
		re.log.Debug().Str("peer", p.Actor()).Str("request", rt.method+" "+rt.path).Msg("change requested")
	}
	if rt.stream != nil {
		return re.follow(w, r, rt, p)
	}
	return re.answer(w, r, rt, p, body, lane)
}

// follow has the handler of a stream answer, for as long as who asks may.
func (re *responder) follow(w http.ResponseWriter, r *http.Request, rt route, p door.Peer) error {
	ctx, cancel := re.door.While(r.Context(), p)
	defer cancel()
	if err := rt.stream(w, r.WithContext(ctx)); err != nil {
		return err
	}
	re.count(rt.path, http.StatusOK)
	return nil
}

// answer has the handler answer at once, or the host that it names.
func (re *responder) answer(w http.ResponseWriter, r *http.Request, rt route, p door.Peer, body []byte, lane overload.Lane) error {
	if !rt.long { // only now: who waits for something, or is carried elsewhere, takes no place
		leave, refused := re.enter(r.Context(), lane, true)
		if refused != nil {
			return shed(refused)
		}
		defer leave()
	}
	out, err := re.act(w, r, rt, p)
	if away, ok := errors.AsType[*api.Elsewhere](err); ok && p.User != "" {
		re.carry(w, r, rt, p, body, away)
		return nil
	}
	if err != nil {
		return err
	}
	h := re.header()
	if rt.change {
		h.Cursor = re.fresh.after(r.Context())
	}
	re.writeUnder(h, w, rt.path, http.StatusOK, out)
	return nil
}

// shed is what is answered to who is not let in.
func shed(refused *overload.Refused) *api.Problem {
	p := api.Errorf(api.CodeOverloaded, "%v", refused)
	p.RetryAfterSeconds = new(refused.After.Seconds())
	return p.WithHint("`skein status` says why; another host may have room")
}

const idempotencyKey = "Idempotency-Key"

// act has the handler answer.
func (re *responder) act(w http.ResponseWriter, r *http.Request, rt route, p door.Peer) (any, error) {
	key := r.Header.Get(idempotencyKey)
	if key == "" || !rt.once {
		return rt.answer(w, r)
	}
	if prob := once.CheckKey(key); prob != nil {
		return nil, prob
	}
	body, err := keep(w, r)
	if err != nil {
		return nil, err
	}
	req := once.Request{Who: p.Actor(), What: rt.method + " " + r.URL.Path, Key: key, Body: body}
	return re.once.Do(r.Context(), req, func() (any, error) { return rt.answer(w, r) })
}

// holderOf says who carries out a request that is the holder's; nil: this host.
func (re *responder) holderOf(rt route) *api.Elsewhere {
	self, to := re.header().Node, re.users.Holder()
	switch {
	case !rt.holder || to == self:
		return nil
	case to == "":
		return &api.Elsewhere{Problem: api.Errorf(api.CodeNoHolder, "%s does not hold the lease", self)}
	}
	return &api.Elsewhere{Hosts: []cluster.NodeID{to}, Problem: api.Errorf(api.CodeNoHolder, "%s does not hold the lease", self)}
}

// patience is how long a request may take: most, 0 for no bound, or as long as whoever
// asks waits. The context carries it to the hosts that are asked.
func patience(r *http.Request, most time.Duration) (time.Duration, error) {
	text := r.Header.Get(api.HeaderTimeout)
	if text == "" {
		return most, nil
	}
	ms, err := strconv.ParseUint(text, 10, 32)
	if err != nil || ms == 0 {
		return 0, api.Errorf(api.CodeInvalidRequest, "header %s is %.32q, want milliseconds above 0", api.HeaderTimeout, text)
	}
	told := time.Duration(ms) * time.Millisecond
	if most > 0 {
		told = min(told, most)
	}
	return told, nil
}

func (re *responder) write(w http.ResponseWriter, path string, code int, body any) {
	re.writeUnder(re.header(), w, path, code, body)
}

// writeUnder is write with a header.
func (re *responder) writeUnder(h api.Header, w http.ResponseWriter, path string, code int, body any) {
	text, err := json.Marshal(api.Complete(body, h))
	if err != nil {
		re.log.Error().Err(err).Str("request", path).Msg("answer cannot be encoded")
		code, text = http.StatusInternalServerError, []byte(`{"api_version":"1","code":"internal","detail":"answer cannot be encoded","status":500}`)
	}
	w.Header().Set("Content-Type", "application/json")
	re.send(w, path, code, text)
}

func (re *responder) problem(w http.ResponseWriter, r *http.Request, path string, p *api.Problem) {
	if p.Code == api.CodeInternal {
		re.log.Warn().Str("request", r.Method+" "+path).Str("err", p.Detail).Msg("request failed")
	}
	p.Header = re.header()
	text, err := json.Marshal(p)
	if err != nil { // strings and numbers always encode
		panic("status: encode problem: " + err.Error())
	}
	if p.RetryAfterSeconds != nil {
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(*p.RetryAfterSeconds)))))
	}
	w.Header().Set("Content-Type", "application/problem+json")
	re.send(w, path, p.Status, text)
}

func (re *responder) send(w http.ResponseWriter, path string, code int, text []byte) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	w.Write(append(text, '\n'))
	re.count(path, code)
}

func (re *responder) count(path string, code int) {
	if path == "" {
		path = "none"
	}
	re.requests.WithLabelValues(path, strconv.Itoa(code/100)+"xx").Inc()
}
