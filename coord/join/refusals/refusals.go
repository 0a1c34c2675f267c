package refusals

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/internal/loglimit"
)

// Results of a request; the label of a counter.
const (
	Offered  = "offered" // to be confirmed
	Admitted = "admitted"
	Again    = "again"
	Rate     = "rate"     // too many failed before it, of the same source
	Request  = "request"  // not a well-formed request
	Invite   = "invite"   // unknown, revoked, expired, used up
	Secret   = "secret"   // secret not proven
	Token    = "token"    // changed on its way
	Clock    = "clock"    // request_time outside the window
	Keys     = "keys"     // keys not proven
	Conflict = "conflict" // node id or key belongs to another
	Internal = "internal" // store, hook, address space
)

// rateLine is how often the log tells of a source that is not listened to for now.
const rateLine = time.Minute

// Refusal is why a request failed.
type Refusal struct {
	Result string
	Err    error
}

func (r *Refusal) Error() string { return r.Result + ": " + r.Err.Error() }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

// New returns a Refusal.
func New(result, format string, args ...any) error {
	return &Refusal{Result: result, Err: fmt.Errorf(format, args...)}
}

// Tally counts results and tells of refusals.
type Tally struct {
	log     zerolog.Logger
	results *prometheus.CounterVec
	gate    *loglimit.Gate
}

// NewTally returns a Tally that has seen no request. Reg may be nil.
func NewTally(log zerolog.Logger, reg prometheus.Registerer) (*Tally, error) {
	began := time.Now()
	t := &Tally{
		log: log, gate: loglimit.New(func() time.Duration { return time.Since(began) }, rateLine),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_join_requests_total", Help: "Requests to be admitted, by result.",
		}, []string{"result"}),
	}
	for _, r := range []string{Offered, Admitted, Again, Rate, Request, Invite, Secret, Token, Clock, Keys, Conflict, Internal} {
		t.results.WithLabelValues(r)
	}
	if reg == nil {
		return t, nil
	}
	return t, reg.Register(t.results)
}

// Count counts a request that was not refused.
func (t *Tally) Count(result string) { t.results.WithLabelValues(result).Inc() }

// Results returns the counter.
func (t *Tally) Results() *prometheus.CounterVec { return t.results }

// Refused counts and logs a request from addr; an error that is no *Refusal is Internal.
func (t *Tally) Refused(addr string, err error) {
	result := Internal
	if r, ok := errors.AsType[*Refusal](err); ok {
		result = r.Result
	}
	t.Count(result)
	t.tell(addr, result, err)
}

// Limited counts a request that was not read, since source, which addr is part of,
// had too many that failed: the log tells of it once in a while.
func (t *Tally) Limited(addr, source string) {
	t.Count(Rate)
	if t.gate.Pass(source) {
		t.tell(addr, Rate, New(Rate, "not read: too many requests from there failed, each of which has its line, or too many are under way; "+
			"a place is free again within a minute"))
	}
}

func (t *Tally) tell(addr, result string, err error) {
	t.log.Warn().Str("addr", addr).Str("result", result).Err(err).Msg("join request refused")
}
