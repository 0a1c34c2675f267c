package proxy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// Check is how the health of a target is found out. Zero means the default.
//
// In ModeHTTP a target is asked for Path and is to answer with a status of Low to
// High; in ModeTCP it only has to take a connection, which the kernel does for a
// service that hangs as well.
type Check struct {
	Path      string        // and query; "/"
	Low, High int           // 100 to 499
	Within    time.Duration // of the connection, through tor from its end; 5 s
	Every     time.Duration // from the begin of a check to the next; 5 s
}

func (c *Check) defaults() {
	if c.Path == "" {
		c.Path = "/"
	}
	if c.Low == 0 && c.High == 0 {
		c.Low, c.High = 100, 499
	}
	if c.Within <= 0 {
		c.Within = 5 * time.Second
	}
	if c.Every <= 0 {
		c.Every = 5 * time.Second
	}
}

// String says what a healthy target does in ModeHTTP.
func (c Check) String() string {
	c.defaults()
	status := fmt.Sprintf("%d to %d", c.Low, c.High)
	if c.Low == c.High {
		status = strconv.Itoa(c.Low)
	}
	return fmt.Sprintf("answers GET %s with status %s within %s", c.Path, status, c.Within)
}

// check refuses what cannot be asked.
func (c *Check) check() error {
	u, err := url.ParseRequestURI(c.Path)
	if err != nil || u.Host != "" || c.Path[0] != '/' {
		return fmt.Errorf("proxy: %q is no path to check targets by", c.Path)
	}
	if c.Low < 100 || c.High > 599 || c.Low > c.High {
		return fmt.Errorf("proxy: no status is from %d to %d, want 100 to 599", c.Low, c.High)
	}
	return nil
}

// Checks in a row before a target counts as unhealthy, and as healthy again: one
// that fails may be a restart, one that succeeds a service that ends once more.
const (
	maxFailures   = 3
	wantSuccesses = 3
)

// checkAgent tells a target's log that it was a check.
const checkAgent = "skein health check"

// health is what the checks of a target have shown; Proxy.watch owns it.
type health struct {
	failing bool
	against int // checks in a row that say otherwise
}

// judge takes the outcome of a check and reports whether the health changed.
func (h *health) judge(err error) (changed bool) {
	if h.failing == (err != nil) {
		h.against = 0
		return false
	}
	h.against++
	limit := maxFailures
	if h.failing {
		limit = wantSuccesses
	}
	if h.against < limit {
		return false
	}
	h.failing, h.against = err != nil, 0
	return true
}

// outcome is that of one check of a target.
type outcome struct {
	target *target
	err    error // nil: it is well
}

// watch checks the targets until the context ends, each in a goroutine of its own,
// and reports what changes.
func (p *Proxy) watch(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	outcomes := make(chan outcome) // never closed; who checks waits until it is taken
	for _, t := range p.targets {
		wg.Go(func() { t.watch(ctx, outcomes) })
	}
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-outcomes:
			if h := &c.target.health; h.judge(c.err) {
				c.target.unhealthy.Store(h.failing)
				p.o.OnHealth(c.target.name, !h.failing, c.err)
			}
		}
	}
}

// watch checks one target until the context ends.
func (t *target) watch(ctx context.Context, outcomes chan<- outcome) {
	next := time.NewTicker(t.o.Check.Every)
	defer next.Stop()
	for {
		err := t.check(ctx)
		if ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case outcomes <- outcome{t, err}:
		}
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
	}
}

// CheckTarget checks a target once, as a Proxy of these options would. It does not
// reach onion targets without Options.Dial.
func CheckTarget(ctx context.Context, name string, o Options) error {
	o.defaults()
	if err := o.Check.check(); err != nil {
		return err
	}
	t, err := newTarget(name, &o)
	if err != nil {
		return err
	}
	return t.check(ctx)
}

// check is nil if the target is well. Each check connects anew: what an open
// connection says is no word about the next one.
func (t *target) check(ctx context.Context) error {
	within, connect, begin := t.o.Check.Within, t.o.Connect, time.Now()
	if t.network != "onion" {
		connect = within
	}
	conn, err := t.dialWithin(ctx, connect)
	if err != nil {
		return err
	}
	defer conn.Close()
	if t.o.Mode != ModeHTTP {
		return nil
	}
	left := within
	if t.network != "onion" {
		left -= time.Since(begin)
	}
	limited, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	if err := t.ask(limited, conn); err != nil {
		if limited.Err() != nil {
			err = fmt.Errorf("no answer within %s", within)
		}
		return fmt.Errorf("target %s: GET %s: %w", t.name, t.o.Check.Path, err)
	}
	return nil
}

// ask is nil if the target answers over a connection as it should.
func (t *target) ask(ctx context.Context, conn net.Conn) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.urlHost()+t.o.Check.Path, http.NoBody)
	if err != nil {
		return err
	}
	asked := "localhost"
	if t.o.Public != nil {
		if public := t.o.Public(); len(public) > 0 {
			asked = public[0]
		}
	}
	r.Host = t.host(asked)
	r.Header.Set("User-Agent", checkAgent)
	once := &http.Transport{
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		DisableKeepAlives:  true,
		DisableCompression: true, MaxResponseHeaderBytes: int64(t.o.Header),
	}
	defer once.CloseIdleConnections()
	answer, err := once.RoundTrip(r)
	if err != nil {
		return err
	}
	_ = answer.Body.Close() // its status is all that counts
	if answer.StatusCode < t.o.Check.Low || answer.StatusCode > t.o.Check.High {
		return fmt.Errorf("answers %s, want %d to %d", answer.Status, t.o.Check.Low, t.o.Check.High)
	}
	return nil
}
