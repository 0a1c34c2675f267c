package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/internal/bucket"
	"github.com/skein-project/skein/status/door"
)

// Limits. The first ones are of an address (of IPv6, a network of 64 bits), the others of
// a worker or of an access token.
const (
	limitAddress = iota
	limitRegister
	limitClaim
	limitProof
	limitToken
	limitGuess
	limitOwner
	limitAttach
	limitBeat
	limitComplete
	limitCall
)

var limits = [...]struct {
	name string
	bucket.Rate
}{
	limitAddress:  {"address", bucket.Rate{PerSecond: 20, Burst: 200}},
	limitRegister: {"register", bucket.Rate{PerSecond: 5.0 / 3600, Burst: 5}}, // without an access token
	limitClaim:    {"claim", bucket.Rate{PerSecond: 10.0 / 60, Burst: 10}},
	limitProof:    {"proof", bucket.Rate{PerSecond: 20.0 / 60, Burst: 20}}, // that was refused
	limitToken:    {"token", bucket.Rate{PerSecond: 6.0 / 60, Burst: 6}},
	limitGuess:    {"guess", bucket.Rate{PerSecond: 5.0 / 3600, Burst: 5}}, // of a claim code, that was wrong
	limitOwner:    {"owner", bucket.Rate{PerSecond: 10, Burst: 100}},
	limitAttach:   {"attach", bucket.Rate{PerSecond: 1, Burst: 20}}, // the holder hears all of the worker each time
	limitBeat:     {"beat", bucket.Rate{PerSecond: 1, Burst: 10}},
	limitComplete: {"complete", bucket.Rate{PerSecond: 100, Burst: 200}}, // requests, of up to 64 results
	limitCall:     {"call", bucket.Rate{PerSecond: 20, Burst: 40}},       // all others of a worker
}

// limiter counts by limits. Its methods may be called from any goroutine.
type limiter struct {
	now  func() time.Duration
	told *prometheus.CounterVec // how many were told to wait, by limit

	mu    sync.Mutex
	table *bucket.Table
}

func newLimiter(now func() time.Duration, told *prometheus.CounterVec) *limiter {
	rates := make([]bucket.Rate, len(limits))
	for i, l := range limits {
		rates[i] = l.Rate
	}
	return &limiter{now: now, told: told, table: bucket.NewTable(rates...)}
}

// take counts what somebody asks for; the error says how long to wait.
func (l *limiter) take(of int, who string) error {
	l.mu.Lock()
	wait := l.table.Take(of, who, l.now())
	l.mu.Unlock()
	if wait == 0 {
		return nil
	}
	return l.late(of, wait)
}

// wait is the error that take would return; it counts nothing.
func (l *limiter) wait(of int, who string) error {
	l.mu.Lock()
	wait := l.table.Wait(of, who, l.now())
	l.mu.Unlock()
	if wait == 0 {
		return nil
	}
	return l.late(of, wait)
}

func (l *limiter) late(of int, wait time.Duration) error {
	l.told.WithLabelValues(limits[of].name).Inc()
	p := api.Errorf(api.CodeOverloaded, "too many requests: limit %s", limits[of].name)
	p.RetryAfterSeconds = new(wait.Seconds())
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
