package hook

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/skein-project/skein/load"
)

// Field is one of the head of a request.
type Field struct{ Name, Value string }

// Answer reads what a hook makes of a request: fields to be set, a line each, an empty line
// and the body.
func Answer(out []byte) (fields []Field, body []byte, err error) {
	head, body, whole := bytes.Cut(out, []byte("\n\n"))
	if bytes.HasPrefix(out, []byte("\n")) {
		head, body, whole = nil, out[1:], true
	}
	if !whole {
		return nil, nil, errors.New("a hook answers with fields, an empty line and the body: there is no empty line")
	}
	for line := range bytes.SplitSeq(head, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		name, value, ok := strings.Cut(string(line), ": ")
		switch strings.ToLower(name) {
		case "content-length", "transfer-encoding", "connection", "host":
			ok = false
		}
		if !ok || !load.ValidHeaderName(name) || strings.ContainsAny(value, "\r\n\x00") {
			return nil, nil, fmt.Errorf("a hook sets %.80q, which is no field that can be set", line)
		}
		fields = append(fields, Field{name, value})
	}
	return fields, body, nil
}
