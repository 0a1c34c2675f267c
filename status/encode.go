package status

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/skein-project/skein/api"
)

// maxBody bounds request bodies that are not artefacts.
const maxBody = 64 << 10

// maxDrain bounds what is read of a longer one only so that who sends it gets
// to read the answer instead of a broken pipe.
const maxDrain = 4 << 20

// decode reads a body of at most so many bytes as strict JSON into out; an empty body
// leaves out as it is.
func decode(w http.ResponseWriter, r *http.Request, out any, limit int64) error {
	if ct := r.Header.Get("Content-Type"); ct != "" && !strings.HasPrefix(ct, "application/json") {
		return api.Errorf(api.CodeInvalidRequest, "content type %q", ct).WithHint("send application/json")
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		if tooLong(err) {
			_, _ = io.CopyN(io.Discard, r.Body, maxDrain) // the answer is the same
		}
		return bodyError(err, limit)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	if !utf8.Valid(text) {
		return api.Errorf(api.CodeInvalidRequest, "body: not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(out); err != nil {
		return api.Errorf(api.CodeInvalidRequest, "body: %s", jsonReason(err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return api.Errorf(api.CodeInvalidRequest, "body: more than one JSON value")
	}
	return nil
}

// jsonReason takes Go's own words out of a decoding error.
func jsonReason(err error) string {
	if typ, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("%s: %s does not fit, want %s", typ.Field, typ.Value, typ.Type.Kind())
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

func tooLong(err error) bool {
	_, ok := errors.AsType[*http.MaxBytesError](err)
	return ok
}

func bodyError(err error, limit int64) error {
	if tooLong(err) {
		return api.Errorf(api.CodeTooLarge, "body is longer than %d bytes", limit)
	}
	return api.Errorf(api.CodeInvalidRequest, "body: %s", err)
}
