package runner

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
)

func TestCutRunnerFrame(t *testing.T) {
	var buf bytes.Buffer
	if err := WriteFrame(&buf, Reply{}); err != nil {
		t.Fatal(err)
	}
	cut := buf.Bytes()[:buf.Len()-1]
	var r Reply
	if err := ReadFrame(bytes.NewReader(cut), &r); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut: %v", err)
	}
	if err := ReadFrame(bytes.NewReader(nil), &r); !errors.Is(err, io.EOF) {
		t.Errorf("end: %v", err)
	}
}

func TestLastWords(t *testing.T) {
	long := strings.Repeat("x ", 5000)
	for name, c := range map[string]struct{ in, want string }{
		"plain": {"no luck\n", "no luck"},
		"panic": {long + "\npanic: boom\n\ngoroutine 1 [running]:\n", "panic: boom goroutine 1 [running]:"},
		"fatal": {"fatal error: out of memory\n" + long, "fatal error: out of memory x"},
		"empty": {"", ""},
	} {
		var kept Tail
		for i := 0; i < len(c.in); i += 7 {
			_, _ = kept.Write([]byte(c.in[i:min(len(c.in), i+7)]))
		}
		if name == "fatal" {
			kept.b = []byte(c.in)[:MaxWords]
		}
		if got := LastWords(kept.b); !strings.HasPrefix(got, c.want) || len(got) > cluster.MaxReason/2+3 {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
