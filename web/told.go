package web

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/present"
)

// told is a line of a watch or of the events with a sentence for each event, as
// "text" beside its body. In a page that only shows, nobody may change anything. A
// line that is something else goes on as it is.
func told(line []byte, readOnly bool) []byte {
	var m struct {
		ID    string          `json:"id,omitempty"`
		Event string          `json:"event"`
		Data  json.RawMessage `json:"data"`
	}
	if len(line) == 0 || json.Unmarshal(line, &m) != nil {
		return line
	}
	switch m.Event {
	case "":
		return sentence(line)
	case "log":
		var d struct {
			Events []json.RawMessage `json:"events"`
			Cursor string            `json:"cursor"`
		}
		if json.Unmarshal(m.Data, &d) != nil {
			return line
		}
		for i, e := range d.Events {
			d.Events[i] = sentence(e)
		}
		return again(&m.Data, d, &m, line)
	case "hello":
		var d map[string]json.RawMessage
		if !readOnly || json.Unmarshal(m.Data, &d) != nil {
			return line
		}
		d["may_change"] = json.RawMessage("false")
		return again(&m.Data, d, &m, line)
	}
	return line
}

// onlyReading is who asks, as told in a page that changes nothing.
func onlyReading(body io.Reader) []byte {
	var w api.Whoami
	if json.NewDecoder(io.LimitReader(body, maxLine)).Decode(&w) != nil {
		return []byte("{}")
	}
	w.MayChange, w.Rights.Use, w.Rights.Operate = false, "none", "none"
	text, err := json.Marshal(w)
	if err != nil {
		return []byte("{}")
	}
	return text
}

// again writes whole with data in it, or line where that cannot be.
func again(into *json.RawMessage, data, whole any, line []byte) []byte {
	text, err := json.Marshal(data)
	if err != nil {
		return line
	}
	*into = text
	out, err := json.Marshal(whole)
	if err != nil {
		return line
	}
	return out
}

// sentence is an event with its text; what is none stays as it is.
func sentence(e []byte) []byte {
	var v struct {
		Source event.SourceID  `json:"source"`
		Kind   event.Kind      `json:"kind"`
		Body   json.RawMessage `json:"body"`
	}
	if json.Unmarshal(e, &v) != nil || v.Kind == "" {
		return e
	}
	text, err := json.Marshal(present.Sentence(v.Source.Node, v.Kind, v.Body))
	end := bytes.LastIndexByte(e, '}')
	if err != nil || end < 0 {
		return e
	}
	out := append(bytes.Clone(e[:end]), `,"text":`...)
	out = append(out, text...)
	return append(out, '}')
}
