package forward

import (
	"context"
	"encoding/json"
	"net"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/overload"
)

// answerTime bounds one operation, on both sides.
const answerTime = 30 * time.Second

// Serve answers one request of member from. The caller closes conn.
func (r *Router) Serve(ctx context.Context, from cluster.NodeID, conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(answerTime)) // a stream always has deadlines
	e, a, body, err := r.read(from, conn)
	if err == nil {
		leave, refused := r.o.Enter(ctx, e.info.Lane, e.stream == nil)
		if refused != nil {
			err = shed(refused)
		} else {
			defer leave()
		}
	}
	if err == nil && e.stream != nil {
		r.serveStream(ctx, e, a, body, conn)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var text []byte
	if err == nil {
		text, err = e.serve(ctx, a, body)
	}
	if err != nil {
		if text, err = encodeAnswer("", failureOf(err, r.o.Problem)); err != nil {
			panic("forward: encode problem: " + err.Error()) // strings and numbers always encode
		}
	}
	if _, err := conn.Write(text); err != nil {
		r.o.Logger.Debug().Err(err).Str("peer", string(from)).Msg("request of another host not answered")
	}
}

// shed is what is answered to who is not let in.
func shed(refused *overload.Refused) *api.Problem {
	p := api.Errorf(api.CodeOverloaded, "%v", refused)
	p.RetryAfterSeconds = new(refused.After.Seconds())
	return p
}

// read reads one request: which operation it is for, who asks, and its body.
func (r *Router) read(from cluster.NodeID, conn net.Conn) (*entry, Asker, json.RawMessage, error) {
	req, err := readRequest(conn, func(name string) bool { return r.ops[name] != nil })
	switch {
	case err != nil:
		return nil, Asker{}, nil, api.Errorf(api.CodeInvalidRequest, "request of %s: %v", from, err)
	case req.name == "" && req.other != "":
		return nil, Asker{}, nil, r.unknown(req.other)
	case req.name == "":
		return nil, Asker{}, nil, api.Errorf(api.CodeInvalidRequest, "empty request")
	}
	if forged(req.actor) {
		return nil, Asker{}, nil, api.Errorf(api.CodeForbidden, "%s may not speak for %.64q: a user proves each request", from, req.actor).
			WithHint("ask %s itself", r.o.Self)
	}
	e := r.ops[req.name]
	return e, r.asker(from, actorOf(from, req.actor, e.owner), e), req.body, nil
}
