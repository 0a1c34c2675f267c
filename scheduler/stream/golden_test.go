package stream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestGoldenFrames: what goes over the wire is what earlier versions sent, in
// JSON and, after the first frame of a stream, in short form.
func TestGoldenFrames(t *testing.T) {
	var got bytes.Buffer
	var enc Encoder
	for _, f := range append(goodFrames(), goodFrames()...) {
		text, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		wire, err := enc.Append(nil, f)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "%s\n%x\n", text, wire)
	}
	name := filepath.Join("testdata", "frames.golden")
	if os.Getenv("SKEIN_UPDATE") == "1" {
		if err := os.WriteFile(name, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%v; frames are\n%swant\n%sif that is meant: SKEIN_UPDATE=1 go test ./scheduler/stream -run Golden", err, got.Bytes(), want)
	}
}
