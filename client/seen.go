package client

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
)

// seen is up to where hosts had the log when they answered to changes of jobs. A reader
// of jobs asks for that: the host that is asked next may have begun a moment ago, and
// would say that there is no such job.
type seen struct {
	mu sync.Mutex
	at event.Cursor
}

// jobs reports whether path is about jobs.
func jobs(path string) bool { return path == "/v1/jobs" || strings.HasPrefix(path, "/v1/jobs/") }

// ask has req, which may be changed, wait for what was seen, unless it says itself what
// it waits for.
func (s *seen) ask(req *http.Request) {
	if req.Method != http.MethodGet || !jobs(req.URL.Path) || req.URL.Query().Has("min") {
		return
	}
	s.mu.Lock()
	least := s.at.String()
	s.mu.Unlock()
	if least == "" {
		return
	}
	if req.URL.RawQuery != "" {
		req.URL.RawQuery += "&"
	}
	req.URL.RawQuery += url.Values{"min": {least}}.Encode()
}

// hear keeps the cursor of an answer to req, if it is one to a change of a job. The body
// of resp can be read all the same.
func (s *seen) hear(req *http.Request, resp *http.Response) {
	if req.Method == http.MethodGet || !jobs(req.URL.Path) || resp.StatusCode >= http.StatusMultipleChoices {
		return
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	rest := io.Reader(resp.Body)
	if err != nil {
		rest = cutOff{err}
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), rest), resp.Body}
	var head api.Header
	if json.Unmarshal(text, &head) != nil {
		return
	}
	if at, err := event.ParseCursor(head.Cursor); err == nil {
		s.note(at)
	}
}

// note keeps at with what was seen before.
func (s *seen) note(at event.Cursor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil || len(s.at) >= event.MaxCursorSources {
		s.at = event.Cursor{}
	}
	for source, seq := range at {
		s.at.Advance(source, seq)
	}
}

// cutOff is what is left of a body that broke.
type cutOff struct{ err error }

func (c cutOff) Read([]byte) (int, error) { return 0, c.err }
