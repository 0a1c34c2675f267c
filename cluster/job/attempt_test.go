package job

import (
	"encoding/json"
	"testing"
)

// The forms in which frames and events have always named attempts.
func TestAttemptJSON(t *testing.T) {
	for want, a := range map[string]Attempt{
		`{"job":"j","chunk":0,"attempt":1}`:         {Job: "j", Number: 1},
		`{"chunk":3,"attempt":2}`:                   {Chunk: 3, Number: 2},
		`{"chunk":3,"attempt":2,"worker":"node-a"}`: {Chunk: 3, Number: 2, Worker: "node-a"},
	} {
		b, err := json.Marshal(a)
		if err != nil || string(b) != want {
			t.Errorf("%s, %v; want %s", b, err, want)
		}
		var back Attempt
		if err := json.Unmarshal(b, &back); err != nil || back != a {
			t.Errorf("%+v, %v; want %+v", back, err, a)
		}
	}
}
