package transport

import (
	"bytes"
	"io"
	"testing"
)

func FuzzReadFrame(f *testing.F) {
	var b bytes.Buffer
	if err := WriteFrame(&b, map[string]any{"records": []string{"c"}}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0, 0, 0, 2, '{'})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		var reply map[string]any
		if err := ReadFrame(r, 1<<16, &reply); err != nil {
			return
		}
		if rest, _ := io.ReadAll(r); len(data)-len(rest) > 4+1<<16 {
			t.Errorf("read %d bytes", len(data)-len(rest))
		}
	})
}
