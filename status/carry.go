package status

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/status/door"
)

// carriedHeaders are those of a request that go with it to the host that acts.
var carriedHeaders = []string{
	access.HeaderKey, access.HeaderTime, access.HeaderNonce, access.HeaderSignature, "Authorization", "Content-Type", idempotencyKey,
	api.HeaderTimeout,
}

// elsewhere marks the answer of a host that cannot do what was brought to it, so that
// another one is asked.
const elsewhere = "Skein-Elsewhere"

// keep reads the body of a user's request, which may have to go to another host.
func keep(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxGroupBody))
	if err != nil {
		return nil, bodyError(err, maxGroupBody)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, nil
}

// carry has another host carry out the request of a user, which proves itself there
// again: the first that can.
func (re *responder) carry(w http.ResponseWriter, r *http.Request, rt route, p door.Peer, body []byte, away *api.Elsewhere) {
	if p.Carried || len(away.Hosts) == 0 {
		w.Header().Set(elsewhere, "yes")
		re.problem(w, r, rt.path, asProblem(away))
		return
	}
	req := api.Carried{Method: r.Method, Host: r.Host, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Header: map[string]string{}, Body: body}
	for _, name := range carriedHeaders {
		if v := r.Header.Get(name); v != "" {
			req.Header[name] = v
		}
	}
	if until, bounded := r.Context().Deadline(); bounded {
		req.Header[api.HeaderTimeout] = strconv.FormatInt(max(1, time.Until(until).Milliseconds()), 10)
	}
	var out api.Answered
	var failed error
	for _, to := range away.Hosts {
		answer, err := re.users.Carry(r.Context(), to, req)
		if err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		if out = answer; out.Header[elsewhere] == "" {
			break
		}
	}
	if out.Status == 0 {
		re.problem(w, r, rt.path, asProblem(failed))
		return
	}
	delete(out.Header, elsewhere)
	for name, v := range out.Header {
		w.Header().Set(name, v)
	}
	re.caughtUp(r.Context(), out)
	re.send(w, rt.path, out.Status, bytes.TrimSuffix(out.Body, []byte("\n")))
}

// caughtUp waits until this host's log has what the host that acted had logged, so
// that whoever asked finds it here.
func (re *responder) caughtUp(ctx context.Context, out api.Answered) {
	var did api.Header
	if out.Status >= http.StatusMultipleChoices || json.Unmarshal(out.Body, &did) != nil {
		return
	}
	at, err := event.ParseCursor(did.Cursor)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, caughtUpTime)
	defer cancel()
	for {
		changed := re.fresh.changed()
		if re.fresh.positions.Has(at) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// caughtUpTime bounds the wait for what another host has done.
const caughtUpTime = 5 * time.Second

// Carried carries out the request of a user that host from brings: its proof is
// checked here, whatever that host says, and what is refused counts against it.
func (s *Server) Carried(ctx context.Context, from cluster.NodeID, c api.Carried) api.Answered {
	out := door.NewRecorder()
	url := "http://" + "carried" + c.Path
	if c.Query != "" {
		url += "?" + c.Query
	}
	r, err := http.NewRequestWithContext(door.With(ctx, door.Peer{TCP: true, Users: true, Carried: true, Addr: "node:" + string(from)}), c.Method, url, bytes.NewReader(c.Body))
	if err != nil || !strings.HasPrefix(c.Path, "/") {
		p := api.Errorf(api.CodeInvalidRequest, "request of another host cannot be read")
		return api.Answered{Status: p.Status, Body: []byte(`{"code":"invalid_request"}`)}
	}
	r.Host, r.RemoteAddr = c.Host, "node:"+string(from)
	for _, name := range carriedHeaders {
		if v := c.Header[name]; v != "" {
			r.Header.Set(name, v)
		}
	}
	s.mux.ServeHTTP(out, r)
	a := api.Answered{Status: max(out.Status, http.StatusOK), Body: out.Body.Bytes(), Header: map[string]string{}}
	for _, name := range []string{"Content-Type", "Retry-After", elsewhere} {
		if v := out.Header().Get(name); v != "" {
			a.Header[name] = v
		}
	}
	return a
}
