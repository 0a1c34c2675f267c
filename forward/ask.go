package forward

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/breaker"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/overload"
)

// Times of asking.
const (
	// dialTime bounds the opening of a stream, beside as many round trips as it takes.
	dialTime  = 2 * time.Second
	dialTrips = 3
	// holderPause lies between tries while the holder changes, anything from half of it to
	// one and a half: who waited for the same holder does not come back at once together.
	holderPause = 100 * time.Millisecond
)

// again is when something is tried again that the holder did not do.
func again() time.Duration { return holderPause/2 + rand.N(holderPause) }

// AskHolder asks whoever holds the lease, here or elsewhere, and tries again
// while the lease moves, until ctx ends. An operation may thus be performed
// twice and must be idempotent: a submit has a key, a stop and a set of voters
// describe the result, a step-down names its term. The error is a *api.Problem.
func AskHolder[Req, Resp any](ctx context.Context, r *Router, op *Op[Req, Resp], actor string, req Req) (Resp, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	r.tries.Call(time.Now())
	for {
		asked := r.o.Lease().Holder
		resp, err := AskHolderOnce(ctx, r, op, actor, req)
		if err == nil {
			return resp, nil
		}
		p := r.problem(err)
		if p.Code != api.CodeNoHolder && p.Code != api.CodeNotReady || forged(actor) {
			return resp, p // a user's request goes to the holder with its proof
		}
		// Where no other host was asked nothing was tried. Else a budget is spent: those who
		// wait for a holder that is away must not keep it away.
		for pause := again(); ; pause = again() {
			if wait.For(ctx, pause) != nil {
				return resp, p
			}
			if asked == "" || asked == r.o.Self || r.o.Lease().Holder != asked || r.tries.Take(time.Now()) {
				break
			}
		}
	}
}

// AskHolderOnce asks the current holder, once. The error is a *api.Problem, with
// code no_holder if no holder is known or it was not reached.
func AskHolderOnce[Req, Resp any](ctx context.Context, r *Router, op *Op[Req, Resp], actor string, req Req) (Resp, error) {
	var none Resp
	switch holder := r.o.Lease().Holder; holder {
	case "":
		return none, noHolder()
	case r.o.Self:
		resp, err := here(ctx, r, op, actor, req)
		if err != nil {
			return none, r.problem(err)
		}
		return resp, nil
	default:
		if forged(actor) {
			return none, api.Errorf(api.CodeNoHolder, "the lease has gone to %s", holder)
		}
		resp, f, err := ask(ctx, r, op, holder, actor, req)
		if err != nil {
			return none, api.Errorf(api.CodeNoHolder, "holder not reached: %v", err)
		}
		if f.Problem != nil {
			return none, f.Problem
		}
		return resp, nil
	}
}

// AskSponsor asks a host that may certify others: this one if it may, then the
// others that are alive, in turn. A sponsor that refuses may lack the root key
// that the next one has; of several refusals the most informative is returned.
// The error is a *api.Problem, or *api.Elsewhere where a user asks.
func AskSponsor[Req, Resp any](ctx context.Context, r *Router, op *Op[Req, Resp], actor string, req Req) (Resp, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var why refusals
	if r.o.Sponsoring() {
		resp, err := here(ctx, r, op, actor, req)
		if err == nil {
			return resp, nil
		}
		f := failureOf(err, r.o.Problem)
		if forged(actor) && !f.Lacks {
			var none Resp
			return none, f.Problem
		}
		why.add(f)
	}
	if forged(actor) {
		var none Resp
		return none, &api.Elsewhere{Hosts: r.o.Sponsors(), Problem: why.worst()}
	}
	for _, to := range r.o.Sponsors() {
		resp, f, err := ask(ctx, r, op, to, actor, req)
		switch {
		case err != nil:
			why.unreached(err)
		case f.Problem == nil:
			return resp, nil
		default:
			why.add(f)
		}
	}
	var none Resp
	return none, why.worst()
}

// AskHost asks one member, which may be this host. The error is a *api.Problem, or
// *api.Elsewhere where a user asks.
func AskHost[Req, Resp any](ctx context.Context, r *Router, op *Op[Req, Resp], to cluster.NodeID, actor string, req Req) (Resp, error) {
	var none Resp
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if to == r.o.Self {
		resp, err := here(ctx, r, op, actor, req)
		if err != nil {
			return none, r.problem(err)
		}
		return resp, nil
	}
	if forged(actor) {
		return none, &api.Elsewhere{
			Hosts: []cluster.NodeID{to}, Problem: api.Errorf(api.CodeConflict, "only %s itself can do that for a user", to),
		}
	}
	resp, f, err := ask(ctx, r, op, to, actor, req)
	switch {
	case err != nil:
		return none, unreached(to, err)
	case f.Problem != nil:
		return none, f.Problem
	}
	return resp, nil
}

// Sponsors lists the other sponsors that are alive, the best first.
func (r *Router) Sponsors() []cluster.NodeID { return r.o.Sponsors() }

func noHolder() *api.Problem {
	return api.Errorf(api.CodeNoHolder, "no holder is known").
		WithHint("`skein doctor` says why; `skein wait --for holder` waits for one")
}

// problem turns a handler's error into what callers get.
func (r *Router) problem(err error) *api.Problem { return failureOf(err, r.o.Problem).Problem }

// ask sends req to another host and waits for its answer, and if it is asked as
// the holder, only while it holds the lease. An error means that no answer came.
func ask[Req, Resp any](
	ctx context.Context, r *Router, op *Op[Req, Resp], to cluster.NodeID, actor string, req Req,
) (Resp, failure, error) {
	var none Resp
	c, err := r.send(ctx, op.info(), to, actor, req)
	if err != nil {
		return none, failure{}, err
	}
	defer c.release()
	resp, f, err := readAnswer[Resp](c.conn, op.Key)
	if err != nil {
		return none, failure{}, fmt.Errorf("ask %s: %w", to, c.why(err))
	}
	return resp, r.knownTo(to, op.info(), f), nil
}

// knownTo recognises the answer of a host that does not know the operation.
// Hosts from before this package take it for an empty request to the holder.
func (r *Router) knownTo(to cluster.NodeID, op Info, f failure) failure {
	switch p := f.Problem; {
	case p == nil:
	case f.Unknown,
		p.Code == api.CodeInvalidRequest && p.Detail == "empty request",
		p.Code == api.CodeNoHolder && op.At != Holder && p.Detail == string(to)+" does not hold the lease":
		return failure{Problem: tooOld(to, r.o.Version(to), op.Name), Unknown: true}
	}
	return f
}

// call is a request sent to another host.
type call struct {
	conn net.Conn
	// ctx ends with the caller's, or when the host that was asked as the holder
	// loses the lease. Reads and writes on conn fail from then on.
	ctx     context.Context
	release func() // closes conn
}

// errMoved ends the wait for a host that no longer holds the lease.
var errMoved = errors.New("it no longer holds the lease")

// why returns the cause of err, where that is the end of ctx or a deadline.
func (c *call) why(err error) error {
	if cause := context.Cause(c.ctx); cause != nil {
		return cause
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errSilent
	}
	return err
}

// wait sets the deadline of the next line.
func (c *call) wait() error {
	_ = c.conn.SetReadDeadline(time.Now().Add(silence)) // a stream always has deadlines
	return c.ctx.Err()                                  // checked last: the end of ctx sets a deadline in the past
}

// sendKey finds in a context what OnSend was given.
type sendKey struct{}

// OnSend has f called when a request that is asked within the context is about to be written to
// another host, which is reached then. One that is carried out here is not written.
func OnSend(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, sendKey{}, f)
}

// send opens a stream to another host and writes a request. The stream breaks
// when ctx ends and, if op is performed by the holder, when to loses the lease:
// a holder that was killed never answers.
func (r *Router) send(ctx context.Context, op Info, to cluster.NodeID, actor string, body any) (*call, error) {
	text, err := encodeRequest(op.Name, actor, body)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", to, err)
	}
	dialCtx, cancelDial := context.WithTimeout(ctx, dialTime+dialTrips*r.o.RTT(to))
	conn, err := r.o.Dial(asking(dialCtx, op), to)
	cancelDial()
	if err != nil {
		return nil, err
	}
	asked, done := context.WithCancelCause(ctx)
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(silence) // of the first line; see wait
	}
	_ = conn.SetDeadline(deadline) // a stream always has deadlines
	stop := context.AfterFunc(asked, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	if op.At == Holder {
		go func() {
			r.whileHolder(asked, to)
			done(errMoved)
		}()
	}
	if f, ok := ctx.Value(sendKey{}).(func()); ok {
		f()
	}
	c := &call{conn: conn, ctx: asked, release: func() {
		stop()
		done(nil)
		_ = conn.Close() // the answer is here, or no longer wanted
	}}
	if _, err := conn.Write(text); err != nil {
		err = c.why(err)
		c.release()
		return nil, fmt.Errorf("ask %s: %w", to, err)
	}
	return c, nil
}

// asking says what a stream is for: what ends an overload, or shows it, is always tried,
// though the host did not answer lately.
func asking(ctx context.Context, op Info) context.Context {
	kind, always := breaker.Forward, false
	if op.Streams {
		kind = breaker.Watch
	}
	switch op.Lane {
	case overload.Vital, overload.Control, overload.Carried: // what is carried may be a stop
		always = true
	}
	return breaker.Asking(ctx, kind, always)
}

// whileHolder returns when to no longer holds the lease, or when ctx ends.
func (r *Router) whileHolder(ctx context.Context, to cluster.NodeID) {
	tick := time.NewTicker(holderPause)
	defer tick.Stop()
	for r.o.Lease().Holder == to {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
