package web

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
)

const (
	// patience is how long a reader may take for what was written to it, and a body
	// to come.
	patience = 15 * time.Second
	// maxLine bounds a line of a stream.
	maxLine = 8 << 20
)

// carried are the headers of a request that go on to the daemon.
var carried = []string{"Last-Event-ID", "Idempotency-Key"}

func (h *handler) relay(w http.ResponseWriter, r *http.Request) { h.forward(w, r, nil) }

// forward asks the daemon and hands its answer on: streams line by line, with a
// sentence for each event.
func (h *handler) forward(w http.ResponseWriter, r *http.Request, body []byte) {
	to := url.URL{Scheme: "http", Host: "skein", Path: strings.TrimPrefix(r.URL.Path, h.o.Base), RawPath: strings.TrimPrefix(r.URL.RawPath, h.o.Base), RawQuery: r.URL.RawQuery}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, to.String(), bytes.NewReader(body))
	if err != nil {
		refuse(w, api.Errorf(api.CodeInvalidRequest, "path or query: %s", err))
		return
	}
	if r.Method == http.MethodGet {
		req.Body, req.GetBody = http.NoBody, nil
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	// Always lines: a page cannot give its bearer to an EventSource.
	req.Header.Set("Accept", "application/x-ndjson")
	for _, name := range carried {
		if v := r.Header.Get(name); v != "" {
			req.Header.Set(name, v)
		}
	}
	resp, err := h.o.API.RoundTrip(req)
	if err != nil {
		refuse(w, away(err))
		return
	}
	defer resp.Body.Close()
	kind := resp.Header.Get("Content-Type")
	w.Header().Set("Content-Type", kind)
	if v := resp.Header.Get("Retry-After"); v != "" {
		w.Header().Set("Retry-After", v)
	}
	w.WriteHeader(resp.StatusCode)
	out := &patient{w: w, c: http.NewResponseController(w)}
	if resp.StatusCode == http.StatusOK && strings.HasPrefix(kind, "application/x-ndjson") {
		_ = lines(out, resp.Body, h.o.ReadOnly) // it has begun: the page sees that it ended, and asks again
		return
	}
	if h.o.ReadOnly && to.Path == "/v1/whoami" && resp.StatusCode == http.StatusOK {
		_, _ = out.Write(onlyReading(resp.Body)) // as above
		return
	}
	_, _ = io.Copy(out, resp.Body) // as above
}

// away says why no daemon answered.
func away(err error) *api.Problem {
	p := api.Errorf(api.CodeNotReady, "the daemon does not answer: %s", err)
	if _, down := errors.AsType[*api.UnreachableError](err); down {
		p = p.WithHint("is it running? `systemctl status skein`")
	}
	return p
}

// patient gives a reader so long for each write: who takes nothing is cut.
type patient struct {
	w http.ResponseWriter
	c *http.ResponseController
}

func (p *patient) Write(b []byte) (int, error) {
	_ = p.c.SetWriteDeadline(time.Now().Add(patience)) // where there is none, the connection's own holds
	return p.w.Write(b)
}

// flush sends what was written.
func (p *patient) flush() error { return p.c.Flush() }

// lines hands the lines of a stream on as they come.
func lines(w *patient, from io.Reader, readOnly bool) error {
	if err := w.flush(); err != nil { // the status is known before the first line
		return err
	}
	in := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := readLine(in)
		if err != nil {
			return err
		}
		if _, err := w.Write(append(told(line, readOnly), '\n')); err != nil {
			return err
		}
		if in.Buffered() > 0 {
			continue
		}
		if err := w.flush(); err != nil {
			return err
		}
	}
}

// readLine reads a line without its end.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxLine {
			return nil, bufio.ErrTooLong
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSuffix(line, []byte("\n")), err
		}
	}
}
