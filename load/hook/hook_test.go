package hook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// guest is a module that is made of testdata.
func guest(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "guest.wasm")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildmode=c-shared", "-o", path, "./testdata/guest")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestCall: bytes in, bytes out, from many at a time; what goes wrong is an error and costs
// no more than its instance; nothing of the host is seen.
func TestCall(t *testing.T) {
	files := map[string][]byte{"g.wasm": guest(t), "no.wasm": []byte("no")}
	ctx := t.Context()
	for _, c := range []struct {
		call Call
		want string
	}{
		{Call{"g.wasm", "nope"}, "exports no function nope"},
		{Call{"g.wasm", "odd"}, "takes or returns something else"},
		{Call{"h.wasm", "twice"}, "is not there"},
		{Call{"no.wasm", "twice"}, "is no module"},
	} {
		if _, err := New(ctx, files, []Call{c.call}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.call, err, c.want)
		}
	}
	var calls []Call
	for _, name := range []string{"twice", "spin", "wide", "huge", "trap", "files"} {
		calls = append(calls, Call{"g.wasm", name})
	}
	s, err := New(ctx, files, calls)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background()) //nolint:errcheck // the end of a test
	s.most = 2 * time.Minute            // none of these is to be ended for its time, whatever this machine has to do
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := range 20 {
				text := fmt.Sprintf("%d-%d;", i, k)
				if out, err := s.Call(calls[0], []byte(text), nil); err != nil || string(out) != text+text {
					t.Errorf("%q, %v", out, err)
				}
			}
		})
	}
	all.Wait()
	for _, c := range calls[2:5] {
		if out, err := s.Call(c, []byte("x"), nil); err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("%s: %.20q, %v", c.Function, out, err)
		}
	}
	s.most = callTime
	if out, err := s.Call(calls[1], []byte("x"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("what goes on for ever: %.20q, %v", out, err)
	}
	s.most = 2 * time.Minute
	if out, err := s.Call(calls[5], []byte("x"), nil); err != nil || string(out) != "nothing" {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := s.Call(calls[0], []byte("x"), nil); err != nil || string(out) != "xx" {
		t.Errorf("after what went wrong: %q, %v", out, err)
	}
}

// TestAnswer: what a module says becomes a request, or an error.
func TestAnswer(t *testing.T) {
	for out, want := range map[string]string{
		"A: b\nC: d\n\nbody\n\nmore": `[{A b} {C d}] "body\n\nmore"`,
		"\nbody":                     `[] "body"`,
		"\n":                         `[] ""`,
		"A: \n\n":                    `[{A }] ""`,
		"body":                       "no empty line",
		"":                           "no empty line",
		"A\n\n":                      "no field",
		"A b: c\n\n":                 "no field",
		"A: b\rC: d\n\n":             "no field",
		"Content-Length: 5\n\n":      "no field",
		"host: x\n\n":                "no field",
		": x\n\n":                    "no field",
	} {
		fields, body, err := Answer([]byte(out))
		got := fmt.Sprintf("%v %q", fields, body)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", out, got, want)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	path := filepath.Join(b.TempDir(), "guest.wasm")
	cmd := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-buildmode=c-shared", "-o", path, "./testdata/guest")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	c := Call{"g.wasm", "twice"}
	s, err := New(b.Context(), map[string][]byte{"g.wasm": text}, []Call{c})
	if err != nil {
		b.Fatal(err)
	}
	in := []byte(strings.Repeat("x", 200))
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		if out, err = s.Call(c, in, out[:0]); err != nil {
			b.Fatal(err)
		}
	}
}

// echo is a module that does nothing: alloc returns 1024, and echo what it got.
var echo = []byte("\x00asm\x01\x00\x00\x00" +
	"\x01\x0c\x02\x60\x01\x7f\x01\x7f\x60\x02\x7f\x7f\x01\x7e" + // (i32) i32, (i32 i32) i64
	"\x03\x03\x02\x00\x01" +
	"\x05\x03\x01\x00\x01" + // a page
	"\x07\x19\x03\x06memory\x02\x00\x05alloc\x00\x00\x04echo\x00\x01" +
	"\x0a\x14\x02\x05\x00\x41\x80\x08\x0b\x0c\x00\x20\x00\xad\x42\x20\x86\x20\x01\xad\x84\x0b")

// BenchmarkEcho is what a call takes beside what the module does: of a guest made by Go, as of
// BenchmarkCall, most is its own runtime.
func BenchmarkEcho(b *testing.B) {
	c := Call{"e.wasm", "echo"}
	s, err := New(b.Context(), map[string][]byte{"e.wasm": echo}, []Call{c})
	if err != nil {
		b.Fatal(err)
	}
	in := []byte(strings.Repeat("x", 200))
	out, err := s.Call(c, in, nil)
	if err != nil || string(out) != string(in) {
		b.Fatalf("%q, %v", out, err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if out, err = s.Call(c, in, out[:0]); err != nil {
			b.Fatal(err)
		}
	}
}
