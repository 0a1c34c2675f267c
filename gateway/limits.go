package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/gateway/guard"
	"github.com/skein-project/skein/gateway/guard/here"
	"github.com/skein-project/skein/status/door"
)

// tab is what one request counts for, until it is counted, in one go: before anything is
// done, and at the latest when it is answered. It belongs to the request's goroutine.
type tab struct{ asks []guard.Ask }

type tabKey struct{}

func withTab(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), tabKey{}, &tab{}))
}

// tabOf is that of a request; one that did not come by the gateway's own address has none, and
// counts for nothing.
func tabOf(r *http.Request) *tab {
	if t, ok := r.Context().Value(tabKey{}).(*tab); ok {
		return t
	}
	return &tab{}
}

// limiter has requests count, once each. Its methods may be called from any goroutine.
type limiter struct {
	guard *here.Front
	told  *prometheus.CounterVec // how many were told to wait, by limit
	// from is where a request comes from.
	from func(r *http.Request) string
}

// will has a request count for asks. Where one is known here to be too many, that is the error,
// and it does not count.
func (l *limiter) will(r *http.Request, asks ...guard.Ask) error {
	t := tabOf(r)
	for _, a := range asks {
		if err := l.guard.Early(a); err != nil {
			return l.late(err)
		}
		t.asks = append(t.asks, a)
	}
	return nil
}

// mayProve refuses whose proofs were refused too often.
func (l *limiter) mayProve(r *http.Request) error {
	return l.will(r, guard.Ask{Limit: guard.Proof, Who: l.from(r), Look: true})
}

// settle counts what a request counts for.
func (l *limiter) settle(r *http.Request) error {
	t := tabOf(r)
	asks := t.asks
	t.asks = nil
	if len(asks) == 0 {
		return nil
	}
	return l.now(asks...)
}

// count has a request count for asks, the last ones before something is done.
func (l *limiter) count(r *http.Request, asks ...guard.Ask) error {
	if err := l.will(r, asks...); err != nil {
		return err
	}
	return l.settle(r)
}

// now counts asks that are of no request.
func (l *limiter) now(asks ...guard.Ask) error { return l.late(l.guard.Count(asks...)) }

// before settles requests before h is asked; refuse answers those that are too many.
func (l *limiter) before(h http.Handler, refuse func(w http.ResponseWriter, route string, err error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := l.settle(r); err != nil {
			refuse(w, "other", err)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// late is what somebody is told who has to wait; other errors are as they were.
func (l *limiter) late(err error) error {
	late, ok := errors.AsType[*guard.LateError](err)
	if !ok {
		return err
	}
	l.told.WithLabelValues(late.Limit.String()).Inc()
	p := api.Errorf(api.CodeOverloaded, "%v", late)
	p.RetryAfterSeconds = new(late.Wait.Seconds())
	return p
}

// reading is the bytes of bodies that are read now, or waited for. Its methods may be called
// from any goroutine.
type reading struct {
	mu  sync.Mutex
	all int64
	of  map[string]int64
}

// enter makes room for n bytes of a body of who, until leave is called, which must be done
// once; false: there is none.
func (b *reading) enter(who string, n int64) (leave func(), ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all+n > maxReading || b.of[who]+n > maxReadingOf {
		return nil, false
	}
	b.all += n
	b.of[who] += n
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.all -= n
		if b.of[who] -= n; b.of[who] == 0 {
			delete(b.of, who)
		}
	}, true
}

func (b *reading) bytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all
}

// from is where a request comes from. Proxies that are trusted say so; of several
// addresses the last counts that none of them has.
func (g *Gateway) from(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	if g.trusted(host) {
		told := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		for i := len(told) - 1; i >= 0 && g.trusted(host); i-- {
			ip, err := netip.ParseAddr(strings.TrimSpace(told[i]))
			if err != nil {
				break
			}
			host = ip.Unmap().String()
		}
	}
	return door.Network(host)
}

func (g *Gateway) trusted(host string) bool {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	for _, p := range g.o.HTTP.Proxies {
		if p.Contains(ip.Unmap()) {
			return true
		}
	}
	return false
}
