package forward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/budget"
	"github.com/skein-project/skein/overload"
)

// Lease is what a Router must know of the lease.
type Lease struct {
	Holder cluster.NodeID // empty: none is known
	// Holding says that this host holds it, and may act for it.
	Holding bool
}

// Options of a Router. Self and Lease are required, Dial, IsSponsor, Sponsors
// and Sponsoring only if other hosts take part.
type Options struct {
	Self cluster.NodeID
	// Dial opens a stream of protocol Proto to another member.
	Dial  func(ctx context.Context, to cluster.NodeID) (net.Conn, error)
	Lease func() Lease
	// IsSponsor reports whether a member may certify others.
	IsSponsor func(cluster.NodeID) bool
	// Sponsors lists the other sponsors that are alive, the best first.
	Sponsors func() []cluster.NodeID
	// Sponsoring reports whether this host certifies others itself.
	Sponsoring func() bool
	// Version is that of a member's program; empty: not known. nil: never known.
	Version func(cluster.NodeID) string
	// RTT is the round trip to a member, which a stream to it is waited for several times; 0:
	// not known. nil: never known.
	RTT func(cluster.NodeID) time.Duration
	// Now is the clock for quotas; nil: time since New.
	Now func() time.Duration
	// Enter lets a request of another host in, or says that this one has too much to do;
	// what it returns is called at the end. nil: all are let in.
	Enter func(ctx context.Context, lane overload.Lane, brief bool) (leave func(), refused *overload.Refused)
	// Problem turns a handler's error into what the asker gets; nil: whatever
	// is not an *api.Problem is internal.
	Problem    func(error) *api.Problem
	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil: metrics are not shown
}

// Router sends operations to other hosts, and performs those that are asked of
// this one. It is safe for concurrent use, except that all handlers must be
// registered before the first request.
type Router struct {
	o      Options
	ops    map[string]*entry
	limits limits
	tries  budget.Budget // beyond the first, of what holders are asked
	open   openStreams
	m      *metrics
}

// entry is a registered operation.
type entry struct {
	info  Info
	owner bool
	// do is the handler as it was registered, behind the checks of admit.
	do any
	// serve is the same for a body and an answer as they are on the wire, and
	// stream for a body and frames; one of them is nil.
	serve  func(context.Context, Asker, json.RawMessage) ([]byte, error)
	stream func(ctx context.Context, a Asker, body json.RawMessage, send func(any) error) error
}

// New returns a Router without operations.
func New(o Options) (*Router, error) {
	if o.Self == "" || o.Lease == nil {
		return nil, errors.New("forward: Self and Lease are needed")
	}
	if o.Now == nil {
		began := time.Now()
		o.Now = func() time.Duration { return time.Since(began) }
	}
	if o.Problem == nil {
		o.Problem = internal
	}
	if o.Enter == nil {
		o.Enter = func(context.Context, overload.Lane, bool) (func(), *overload.Refused) { return func() {}, nil }
	}
	if o.Version == nil {
		o.Version = func(cluster.NodeID) string { return "" }
	}
	if o.RTT == nil {
		o.RTT = func(cluster.NodeID) time.Duration { return 0 }
	}
	if o.Sponsoring == nil {
		o.Sponsoring = func() bool { return false }
	}
	if o.Sponsors == nil {
		o.Sponsors = func() []cluster.NodeID { return nil }
	}
	if o.Dial == nil {
		o.Dial = func(_ context.Context, to cluster.NodeID) (net.Conn, error) {
			return nil, fmt.Errorf("no way to %s", to)
		}
	}
	o.Logger = o.Logger.With().Str("component", "forward").Logger()
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, fmt.Errorf("forward: %w", err)
	}
	return &Router{o: o, ops: map[string]*entry{}, limits: limits{now: o.Now}, m: m}, nil
}

func internal(err error) *api.Problem {
	if p, ok := errors.AsType[*api.Problem](err); ok {
		return p
	}
	return api.Errorf(api.CodeInternal, "%v", err)
}

// Handle registers the handler of op on this host. It panics if op is not one
// of Operations, or has a handler already.
func Handle[Req, Resp any](r *Router, op *Op[Req, Resp], fn func(context.Context, Asker, Req) (Resp, error)) {
	do := func(ctx context.Context, a Asker, req Req) (Resp, error) {
		if err := admit(r, op, a, req); err != nil {
			var none Resp
			return none, err
		}
		return fn(ctx, a, req)
	}
	r.register(&entry{
		info: op.info(), owner: op.Owner, do: do,
		serve: func(ctx context.Context, a Asker, body json.RawMessage) ([]byte, error) {
			req, err := unmarshal[Req](body)
			if err != nil {
				return nil, api.Errorf(api.CodeInvalidRequest, "request of %s: %v", a.From, err)
			}
			resp, err := do(ctx, a, req)
			if err != nil {
				return nil, err
			}
			return encodeAnswer(op.Key, resp)
		},
	})
}

// HandleStream registers the handler of s on this host. Fn returns at the end
// of the stream or when ctx ends, because the asker may go away at any time.
// Send blocks while the asker does not read; after an error it must not be
// called again. HandleStream panics like Handle.
func HandleStream[Req, Frame any](
	r *Router, s *Stream[Req, Frame], fn func(ctx context.Context, a Asker, req Req, send func(Frame) error) error,
) {
	op := (*Op[Req, Frame])(s)
	do := func(ctx context.Context, a Asker, req Req, send func(Frame) error) error {
		if err := admit(r, op, a, req); err != nil {
			return err
		}
		return fn(ctx, a, req, send)
	}
	r.register(&entry{
		info: s.info(), owner: op.Owner, do: do,
		stream: func(ctx context.Context, a Asker, body json.RawMessage, send func(any) error) error {
			req, err := unmarshal[Req](body)
			if err != nil {
				return api.Errorf(api.CodeInvalidRequest, "request of %s: %v", a.From, err)
			}
			return do(ctx, a, req, func(f Frame) error { return send(f) })
		},
	})
}

func (r *Router) register(e *entry) {
	name := e.info.Name
	if !slices.ContainsFunc(Operations(), func(i Info) bool { return i.Name == name && i.Streams == e.info.Streams }) {
		panic("forward: " + name + " is missing in Operations")
	}
	if r.ops[name] != nil {
		panic("forward: " + name + " is registered twice")
	}
	if !e.info.Lane.Known() {
		panic("forward: " + name + " has no lane")
	}
	r.ops[name] = e
}

// admit decides whether a may ask for req now.
func admit[Req, Resp any](r *Router, op *Op[Req, Resp], a Asker, req Req) error {
	if op.At == Holder && !r.o.Lease().Holding {
		return api.Errorf(api.CodeNoHolder, "%s does not hold the lease", r.o.Self)
	}
	if op.Check != nil {
		if err := op.Check(req); err != nil {
			return err
		}
	}
	if op.Allow != nil {
		if err := op.Allow(a, req); err != nil {
			return err
		}
	}
	if op.Quota.Late {
		return nil
	}
	return a.Spend()
}

// Complete returns an error that names the operations without a handler.
func (r *Router) Complete() error {
	var missing []string
	for _, i := range Operations() {
		if r.ops[i.Name] == nil {
			missing = append(missing, i.Name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("forward: nothing handles %s", strings.Join(missing, ", "))
	}
	return nil
}

// asker describes who asks for operation e.
func (r *Router) asker(from cluster.NodeID, actor string, e *entry) Asker {
	return Asker{From: from, Self: r.o.Self, Actor: actor, quota: e.info.Quota, limits: &r.limits, sponsor: r.o.IsSponsor}
}

// here performs an operation that this host asks of itself.
func here[Req, Resp any](ctx context.Context, r *Router, op *Op[Req, Resp], actor string, req Req) (Resp, error) {
	var none Resp
	do, a, err := local[func(context.Context, Asker, Req) (Resp, error)](r, op.Name, actor)
	if err != nil {
		return none, err
	}
	return do(ctx, a, req)
}

// local finds the handler of an operation that this host asks of itself.
func local[F any](r *Router, name, actor string) (F, Asker, error) {
	var none F
	e := r.ops[name]
	if e == nil {
		return none, Asker{}, r.unknown(name)
	}
	do, ok := e.do.(F)
	if !ok {
		panic("forward: " + name + " is registered with other types")
	}
	return do, r.asker(r.o.Self, actor, e), nil
}
