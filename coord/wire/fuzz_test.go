package wire

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func addGoldens(f *testing.F) {
	f.Helper()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("no golden messages: %v", err)
	}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
}

// FuzzParse checks that whatever is accepted means the same to the usual JSON
// decoder, and is within all bounds.
func FuzzParse(f *testing.F) {
	addGoldens(f)
	f.Add([]byte(`{"node_id":"n1","NODE_ID":"n2"}`))
	f.Add([]byte(`{"a":[[[[[[[[[]]]]]]]]]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		if err != nil {
			if ReasonOf(err) == "" {
				t.Fatal("refused without a reason")
			}
			return
		}
		var env struct {
			Node    string          `json:"node_id"`
			Time    int64           `json:"timestamp"`
			Type    string          `json:"type"`
			Payload json.RawMessage `json:"payload"`
			V       int             `json:"v"`
			Boot    uint64          `json:"boot"`
			Seq     uint64          `json:"seq"`
			To      string          `json:"to"`
		}
		if err := json.Unmarshal(data, &env); err != nil {
			t.Fatalf("accepted what encoding/json refuses: %v", err)
		}
		if env.Node != string(m.Node) || env.Time != m.Time || env.Type != string(m.Type) || env.V != Version ||
			env.Boot != m.Boot || env.Seq != m.Seq || env.To != string(m.To) || !bytes.Equal(env.Payload, m.Payload) {
			t.Fatalf("read %+v, encoding/json reads %+v", m.Header, env)
		}
		if m.Boot > MaxNumber || m.Seq > MaxNumber || len(data) > MaxDatagram || len(m.Sig) != 64 {
			t.Fatalf("out of bounds: %+v", m.Header)
		}
		p, err := Decode(m)
		if err != nil {
			return
		}
		if _, err := Seal(testKey(1), m.Header, p); err != nil && ReasonOf(err) != ReasonSize {
			t.Fatalf("accepted, cannot be sent: %v", err)
		}
	})
}

// FuzzCheckJSON compares with a slow, obvious check of the decoded value.
func FuzzCheckJSON(f *testing.F) {
	addGoldens(f)
	f.Add([]byte(`{"a":{"a":1,"b":[{"a":"\"}"}]}}`))
	f.Add([]byte(` { "a" : 1e2 , "b" : [ ] } `))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 8<<10 || CheckJSON(data, 4) != nil {
			return
		}
		dec := json.NewDecoder(bytes.NewReader(data))
		var names []map[string]bool
		var isName []bool // of each open object: a name comes next
		for {
			tok, err := dec.Token()
			if err != nil {
				break
			}
			top := len(isName) - 1
			if s, ok := tok.(string); ok && top >= 0 && names[top] != nil && isName[top] {
				if names[top][s] || strings.ToLower(s) != s {
					t.Fatalf("accepted field name %q", s)
				}
				names[top][s] = true
				isName[top] = false
				continue
			}
			switch tok {
			case json.Delim('{'):
				names, isName = append(names, map[string]bool{}), append(isName, true)
			case json.Delim('['):
				names, isName = append(names, nil), append(isName, false)
			case json.Delim('}'), json.Delim(']'):
				names, isName = names[:top], isName[:top]
				if top > 0 {
					isName[top-1] = true
				}
			default:
				if top >= 0 {
					isName[top] = true
				}
			}
			if len(names) > 4 {
				t.Fatal("accepted nesting above the limit")
			}
		}
	})
}

// FuzzProbe checks that padding is the only thing that may follow a message,
// and only a heartbeat that says how long it is.
func FuzzProbe(f *testing.F) {
	addGoldens(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, size := range []int{MaxDatagram + 1, 1400, MaxProbe} {
			m, err := Parse(Pad(bytes.Clone(data), size))
			if err != nil {
				continue
			}
			if m.Type != TypeHeartbeat || m.Size < MaxDatagram {
				t.Fatalf("%s of %d bytes", m.Type, m.Size)
			}
			if p, err := Decode(m); err == nil {
				if hb, ok := p.(Heartbeat); !ok || int(hb.Probe) != m.Size {
					t.Fatalf("%d bytes, says %+v", m.Size, p)
				}
			}
		}
	})
}

// FuzzShare reads what another host's answer to a pull may be: what is taken
// is within bounds and means the same when it is sent on.
func FuzzShare(f *testing.F) {
	f.Add([]byte(`{"intro_points":[{"data":"QUJD"},{"data":"_-_-"}],"fetched_at":1700000195}`))
	f.Add([]byte(`{"intro_points":[],"fetched_at":0,"count":1,"digest":"AgAAAAAAAAAAAAAAAAAAAA"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := DecodeShare(data)
		if err != nil {
			if ReasonOf(err) == "" || len(p.Pieces) > 0 {
				t.Fatalf("refused with %q, and %d points", ReasonOf(err), len(p.Pieces))
			}
			return
		}
		if len(p.Pieces) > MaxSharePieces || p.FetchedAt > MaxNumber || !p.Whole() {
			t.Fatalf("out of bounds: %+v", p)
		}
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		q, err := DecodeShare(again)
		if err != nil || ShareDigest(q.Pieces) != ShareDigest(p.Pieces) || q.FetchedAt != p.FetchedAt {
			t.Fatalf("accepted, and another when sent on: %v\n%s", err, again)
		}
	})
}
