package forward

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/skein-project/skein/api"
)

// Proto is the stream protocol of remote operations.
const Proto = "skein-api/1"

// MaxMessage bounds a request and an answer, in bytes: there is room for a
// group, or for all workers.
const MaxMessage = 4 << 20

// maxFields bounds the fields of a request's object.
const maxFields = 16

// request is an operation as it was read from a stream.
type request struct {
	name  string // empty: none that is known here
	other string // some name that is not known here, for the answer
	actor string
	body  json.RawMessage
}

// encodeRequest is {"actor":...,"NAME":BODY}.
func encodeRequest(name, actor string, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	who, err := json.Marshal(actor)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "{\"actor\":%s,%q:%s}\n", who, name, text), nil
}

// readRequest reads one request. Fields that known does not know are ignored: a
// newer host may say more.
func readRequest(r io.Reader, known func(name string) bool) (request, error) {
	dec := json.NewDecoder(io.LimitReader(r, MaxMessage))
	var req request
	if t, err := dec.Token(); err != nil {
		return req, err
	} else if t != json.Delim('{') {
		return req, errors.New("not an object")
	}
	for n := 0; dec.More(); n++ {
		if n == maxFields {
			return req, fmt.Errorf("more than %d fields", maxFields)
		}
		t, err := dec.Token()
		if err != nil {
			return req, err
		}
		name, _ := t.(string) //nolint:errcheck // a key is a string
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return req, err
		}
		switch {
		case name == "actor":
			if err := json.Unmarshal(value, &req.actor); err != nil {
				return req, err
			}
		case bytes.Equal(value, []byte("null")):
		case !known(name):
			req.other = name
		case req.name != "":
			return req, fmt.Errorf("both %s and %s", req.name, name)
		default:
			req.name, req.body = name, value
		}
	}
	_, err := dec.Token() // the end of the object
	return req, err
}

// failure is the answer in place of what was asked for.
type failure struct {
	Problem *api.Problem `json:"problem,omitempty"`
	// Lacks says that the Problem is what the host lacks, so that another
	// sponsor may do it; Unknown that the host does not know the operation.
	Lacks   bool `json:"lacks,omitempty"`
	Unknown bool `json:"unknown,omitempty"`
}

// failureOf turns a handler's error into an answer.
func failureOf(err error, problem func(error) *api.Problem) failure {
	f := failure{}
	if lack, ok := errors.AsType[lackError](err); ok {
		f.Lacks, err = true, lack.Problem
	} else if no, ok := errors.AsType[unknownError](err); ok {
		f.Unknown, err = true, no.Problem
	}
	f.Problem = problem(err)
	return f
}

// encodeAnswer is {"KEY":RESP}, or without a key what resp is.
func encodeAnswer(key string, resp any) ([]byte, error) {
	text, err := json.Marshal(resp)
	if err != nil {
		return nil, err
	}
	if key != "" {
		text = fmt.Appendf(nil, "{%q:%s}", key, text)
	}
	return append(text, '\n'), nil
}

// errEmpty is an answer without what was asked for.
var errEmpty = errors.New("empty answer")

// readAnswer reads one answer of an operation.
func readAnswer[Resp any](r io.Reader, key string) (Resp, failure, error) {
	var (
		none Resp
		text json.RawMessage
		f    failure
	)
	if err := json.NewDecoder(io.LimitReader(r, MaxMessage)).Decode(&text); err != nil {
		return none, f, err
	}
	if err := json.Unmarshal(text, &f); err != nil || f.Problem != nil {
		return none, f, err
	}
	if key != "" {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(text, &fields); err != nil {
			return none, f, err
		}
		if text = fields[key]; text == nil || bytes.Equal(text, []byte("null")) {
			return none, f, errEmpty
		}
	}
	resp, err := unmarshal[Resp](text)
	return resp, f, err
}
