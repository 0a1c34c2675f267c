package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skein-project/skein/internal/wait"
)

const (
	// waiting is how many windows wait for an output; when there are more, those behind them
	// become one.
	waiting = 600
	// oneTry is how long an output may take for a window, lastTries how long Close waits.
	oneTry    = 5 * time.Second
	lastTries = 10 * time.Second
)

// Options of Open.
type Options struct {
	// Token is told to Prometheus and OTLP as "Bearer TOKEN" and to InfluxDB as "Token TOKEN";
	// optional.
	Token string
	// Warn is told in words what an output cannot do, once until it can again; it is called
	// by several goroutines.
	Warn func(text string)
	// Agent names the program in requests.
	Agent string
}

// Outputs take the windows of one run.
type Outputs struct {
	all  []*output
	n    uint64 // windows so far
	done sync.WaitGroup
	stop context.CancelFunc
}

// output is one of them, and what waits for it.
type output struct {
	name string
	to   sink
	warn func(string)

	mu    sync.Mutex
	queue []Window
	ended bool
	news  chan struct{}
}

// sink sends one window; a refusal is not worth another try.
type sink interface {
	send(ctx context.Context, r Run, w Window) error
	io.Closer
}

// errRefused wraps the error of what another try does not change.
var errRefused = errors.New("refused")

// Kinds are the names of outputs, as in "csv=FILE".
var Kinds = []string{"csv", "influx", "otlp", "prometheus", "statsd"}

// Is reports whether text names an output, as "influx=http://127.0.0.1:8086/write?db=load".
func Is(text string) bool {
	kind, _, ok := strings.Cut(text, "=")
	return ok && slices.Contains(Kinds, kind)
}

// Check reports why text is no output that can be opened.
func Check(text string) error {
	kind, at, _ := strings.Cut(text, "=")
	switch kind {
	case "csv":
		if at == "" {
			return errors.New("csv= names no file")
		}
	case "statsd":
		if _, port, err := net.SplitHostPort(at); err != nil || port == "" {
			return fmt.Errorf("statsd=%s: want HOST:PORT", at)
		}
	case "influx", "otlp", "prometheus":
		u, err := url.Parse(at)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("%s= names no http or https URL", kind) // which may have a password
		}
	default:
		return fmt.Errorf("%s is no output: use one of %s", kind, strings.Join(Kinds, ", "))
	}
	return nil
}

// Open opens outputs that Check has found good, for the windows of a run.
func Open(r Run, texts []string, o Options) (*Outputs, error) {
	ctx, stop := context.WithCancel(context.Background())
	out := &Outputs{stop: stop}
	for _, text := range texts {
		kind, at, _ := strings.Cut(text, "=")
		to, err := open(kind, at, o)
		if err != nil {
			out.Close()
			return nil, fmt.Errorf("output %s: %w", kind, err)
		}
		one := &output{name: kind, to: to, warn: o.Warn, news: make(chan struct{}, 1)}
		out.all = append(out.all, one)
		out.done.Go(func() { one.run(ctx, r) })
	}
	return out, nil
}

func open(kind, at string, o Options) (sink, error) {
	switch kind {
	case "csv":
		f, err := os.OpenFile(at, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
		if err != nil {
			return nil, err
		}
		_, err = f.WriteString(strings.Join(csvHead, ",") + "\n")
		return &csvFile{f}, err
	case "statsd":
		c, err := net.Dial("udp", at)
		if err != nil {
			return nil, err
		}
		return &statsd{c}, nil
	}
	p := &post{url: at, agent: o.Agent, sums: totals{}, client: &http.Client{Timeout: oneTry, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	token := "Bearer "
	switch kind {
	case "prometheus":
		p.head = map[string]string{"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy", "X-Prometheus-Remote-Write-Version": "0.1.0"}
		p.body = func(r Run, w Window, t totals) []byte { return writeRequest(samples(r, w, t), w.At.UnixMilli()) }
	case "otlp":
		p.head = map[string]string{"Content-Type": "application/json"}
		p.body = otlpExport
	default:
		token = "Token "
		p.head = map[string]string{"Content-Type": "text/plain; charset=utf-8"}
		p.body = func(r Run, w Window, _ totals) []byte { return influxLines(r, w) }
	}
	if o.Token != "" {
		p.head["Authorization"] = token + o.Token
	}
	return p, nil
}

// Send hands a window to all outputs. It does not wait; one goroutine calls it.
func (o *Outputs) Send(w Window) {
	o.n++
	w.n = o.n
	for _, one := range o.all {
		one.mu.Lock()
		if last := len(one.queue) - 1; last+1 < waiting {
			one.queue = append(one.queue, w)
		} else {
			one.queue[last] = join(one.queue[last], w)
		}
		one.mu.Unlock()
		one.wake()
	}
}

// join is a window with the counts of both, and the rest of b.
func join(a, b Window) Window {
	if b.Again {
		return b
	}
	b.Again, b.Span = a.Again, a.Span+b.Span
	steps := slices.Clone(b.Steps)
	for _, old := range a.Steps {
		i := slices.IndexFunc(steps, func(s Step) bool { return s.Name == old.Name })
		if i < 0 {
			steps = append(steps, old)
			continue
		}
		classes := maps.Clone(old.Classes)
		for class, n := range steps[i].Classes {
			classes[class] += n
		}
		steps[i].Classes = classes
	}
	b.Steps = steps
	return b
}

// Close waits a little for what waits, and ends the outputs.
func (o *Outputs) Close() {
	for _, one := range o.all {
		one.mu.Lock()
		one.ended = true
		one.mu.Unlock()
		one.wake()
	}
	late := time.AfterFunc(lastTries, o.stop)
	o.done.Wait()
	late.Stop()
	o.stop()
}

func (o *output) wake() {
	select {
	case o.news <- struct{}{}:
	default:
	}
}

// first is the window that waits longest; ended: there is none, and none comes.
func (o *output) first() (w Window, ok, ended bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		return Window{}, false, o.ended
	}
	return o.queue[0], true, false
}

// sent forgets the first window.
func (o *output) sent() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = slices.Delete(o.queue, 0, 1)
}

// run sends windows until the last of them is sent.
func (o *output) run(ctx context.Context, r Run) {
	defer func() {
		if err := o.to.Close(); err != nil {
			o.warn(fmt.Sprintf("output %s: %v", o.name, err))
		}
	}()
	failed := 0
	for {
		w, ok, ended := o.first()
		switch {
		case ended:
			return
		case !ok:
			<-o.news // Close wakes it as well
			continue
		}
		within, cancel := context.WithTimeout(ctx, oneTry)
		err := o.to.send(within, r, w)
		cancel()
		switch {
		case err == nil || errors.Is(err, errRefused):
			o.sent()
		case ctx.Err() != nil:
			o.warn(fmt.Sprintf("output %s did not take the last windows: %v", o.name, err))
			return
		}
		if err == nil {
			failed = 0
			continue
		}
		if failed++; failed == 1 {
			o.warn(fmt.Sprintf("output %s: %v", o.name, err))
		}
		if !errors.Is(err, errRefused) {
			select {
			case <-ctx.Done():
			case <-time.After(wait.Backoff(failed)):
			}
		}
	}
}

// csvFile is a file of lines.
type csvFile struct{ f *os.File }

func (c *csvFile) send(_ context.Context, r Run, w Window) error {
	_, err := c.f.Write(csvLines(r, w))
	return err
}

func (c *csvFile) Close() error { return c.f.Close() }

// statsd is a socket on which nobody answers.
type statsd struct{ c net.Conn }

func (s *statsd) send(_ context.Context, r Run, w Window) error {
	for _, d := range statsdDatagrams(r, w) {
		if _, err := s.c.Write(d); err != nil {
			return fmt.Errorf("%w: %w", errRefused, err) // a counter must not be told twice
		}
	}
	return nil
}

func (s *statsd) Close() error { return s.c.Close() }

// post sends a window as the body of a request.
type post struct {
	url, agent string
	head       map[string]string
	body       func(Run, Window, totals) []byte
	sums       totals
	summed     uint64 // the window up to which sums has all
	client     *http.Client
}

func (p *post) send(ctx context.Context, r Run, w Window) error {
	if p.summed != w.n { // else it is another try
		p.sums.add(w)
		p.summed = w.n
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(p.body(r, w, p.sums)))
	if err != nil {
		return fmt.Errorf("%w: no request can be made of its URL", errRefused)
	}
	for k, v := range p.head {
		req.Header.Set(k, v)
	}
	req.Header.Set("User-Agent", p.agent)
	resp, err := p.client.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the URL, which may have a password
		}
		return err
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 512)) // for people
	switch {
	case resp.StatusCode/100 == 2:
		return nil
	case resp.StatusCode/100 == 5 || resp.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("answered %s: %s", resp.Status, bytes.TrimSpace(text))
	}
	return fmt.Errorf("%w: answered %s: %s", errRefused, resp.Status, bytes.TrimSpace(text))
}

func (p *post) Close() error {
	p.client.CloseIdleConnections()
	return nil
}
