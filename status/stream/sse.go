package stream

import (
	"net/http"
	"strings"

	"github.com/skein-project/skein/api"
)

// SSEType is the type of a stream of server-sent events (HTML, section 9.2), which
// whoever accepts it gets instead of lines.
const SSEType = "text/event-stream"

// SSEComment keeps such a stream alive.
const SSEComment = ":\n\n"

// WantsSSE reports whether a request accepts server-sent events.
func WantsSSE(r *http.Request) bool {
	for _, accept := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(accept, ",") {
			kind, _, _ := strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(kind), SSEType) {
				return true
			}
		}
	}
	return false
}

// appendSSE writes one event; data has no line break.
func appendSSE(b []byte, id, name string, data []byte) []byte {
	if id != "" {
		b = append(append(append(b, "id: "...), id...), '\n')
	}
	b = append(append(append(b, "event: "...), name...), "\ndata: "...)
	return append(append(b, data...), "\n\n"...)
}

// sseName is what a line is called as an event.
func sseName(v any) string {
	switch v.(type) {
	case api.Event:
		return "event"
	case api.StreamPosition:
		return "position"
	case api.ChunkResult:
		return "chunk"
	case api.ChunkEnd:
		return "end"
	case api.LoadLive:
		return "load"
	case api.JobLog:
		return "log"
	case api.StreamProblem:
		return "problem"
	}
	return "job"
}
