package engine

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/grpc"
	"github.com/skein-project/skein/load/h1"
	"github.com/skein-project/skein/load/reach"
)

// loadCalls finds the methods that steps call in the descriptors.
func (e *Engine) loadCalls() error {
	p := e.o.Plan
	e.calls = make([]*grpc.Call, len(p.Steps))
	var all *grpc.Methods
	for _, st := range p.Steps {
		if st.Method != load.GRPC {
			continue
		}
		var err error
		if all == nil {
			if all, err = grpc.Parse(e.o.Files[p.Descriptors]); err != nil {
				return fmt.Errorf("%s: %w", p.Descriptors, err)
			}
		}
		c, err := all.Call(st.Call)
		if err != nil {
			return fmt.Errorf("step %s: %w", st.Name, err)
		}
		if text, ok := st.Body.Const(); ok {
			if _, err := c.Append(nil, []byte(text)); err != nil {
				return fmt.Errorf("step %s: its message is %s", st.Name, load.Redact(err.Error(), p.Secrets))
			}
		}
		e.calls[st.Series] = c
	}
	return nil
}

// call is exchange of a message for those that a method of gRPC answers with.
func (l *lane) call(o *reach.Origin, st *load.Step, deadline time.Time) error {
	if l.u.e.o.Trace != nil {
		defer func(text []byte) { l.request = text }(fmt.Appendf(nil, "POST %s HTTP/2\r\nHost: %s\r\n\r\n%s", l.target, o.Host, l.body))
	}
	sent, err := l.u.e.calls[st.Series].Append(l.request[:0], l.body)
	if err != nil {
		return &h1.Error{Class: load.Generator, Err: err}
	}
	l.body, l.request = sent, l.body
	for _, h := range [][2]string{{"Content-Type", "application/grpc+proto"}, {"TE", "trailers"}, {"Grpc-Timeout", grpc.Timeout(time.Until(deadline))}} {
		l.drop(h[0])
		begin := len(l.scratch)
		l.scratch = append(l.scratch, h[1]...)
		l.pairs = append(l.pairs, pair{h[0], begin, len(l.scratch)})
	}
	return l.overMultiplexed(versionTwo, o, http.MethodPost, st, deadline)
}

// called makes of an answer of HTTP what the call came to: the status is the one that corresponds to
// that of gRPC, the body the last message as JSON.
func (l *lane) called(st *load.Step, resp *http.Response) error {
	a := &l.answer
	if a.status >= http.StatusBadRequest { // whoever answered does not speak it
		return nil
	}
	if a.status != http.StatusOK {
		return &h1.Error{Class: load.Protocol, Err: fmt.Errorf("%w: the status is %d", grpc.ErrStatus, a.status)}
	}
	for name, values := range resp.Trailer {
		if len(values) > 0 { // else it was announced only
			a.header[name] = values
		}
	}
	code, why, err := grpc.Status(a.header.Get(grpc.StatusField), a.header.Get(grpc.MessageField))
	if err != nil {
		return &h1.Error{Class: load.Protocol, Err: err}
	}
	if a.status = code.HTTP(); code != 0 {
		a.said = fmt.Sprintf(": %s, %.200q", code, load.Redact(why, l.u.e.o.Plan.Secrets)) // before it is cut
	}
	if !st.NeedsBody && l.u.e.o.Trace == nil {
		return nil
	}
	last, n, err := grpc.Last(a.body)
	if err == nil && n > 0 {
		a.body, err = l.u.e.calls[st.Series].JSON(nil, last)
	}
	switch {
	case errors.Is(err, grpc.ErrLarge):
		return &h1.Error{Class: load.TooLarge, Err: err}
	case err != nil:
		return &h1.Error{Class: load.Protocol, Err: err}
	}
	return nil
}
