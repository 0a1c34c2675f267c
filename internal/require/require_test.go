package require

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// recorder is a test that notes how it ended instead of ending.
type recorder struct {
	testing.TB
	skipped, failed string
}

func (r *recorder) Helper() {}

func (r *recorder) Skipf(format string, args ...any) {
	r.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) {
	r.failed = fmt.Sprint(args...)
	runtime.Goexit()
}

func outcome(w What, list string, missing error) (r *recorder, ran bool) {
	r = &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		need(r, w, list, missing)
		ran = true
	}()
	<-done
	return r, ran
}

func TestNeed(t *testing.T) {
	gone := errors.New("not installed: qemu")
	for _, c := range []struct {
		name          string
		what          What
		list          string
		missing       error
		ran           bool
		skipped, fail string
	}{
		{"there", VM, "", nil, true, "", ""},
		{"there and demanded", VM, "vm", nil, true, "", ""},
		{"missing", VM, "", gone, false, "skipped: no vm here: not installed: qemu", ""},
		{"missing, another demanded", VM, "netns", gone, false, "skipped: no vm here: not installed: qemu", ""},
		{"missing and demanded", VM, "netns, vm", gone, false, "", "REQUIRE names vm, which is missing here: not installed: qemu"},
		{"covered by another word", TUN, "netns", gone, false, "", "REQUIRE names tun"},
		{"rootfs comes with vm", Rootfs, "vm", gone, false, "", "REQUIRE names rootfs"},
		{"a misspelt demand", VM, "vn", nil, false, "", `"vn" is no need`},
		{"empty words", VM, ",, ,", gone, false, "skipped", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, ran := outcome(c.what, c.list, c.missing)
			if ran != c.ran {
				t.Errorf("ran on: %t", ran)
			}
			if !strings.HasPrefix(r.skipped, c.skipped) || (c.skipped == "") != (r.skipped == "") {
				t.Errorf("skipped with %q, want %q", r.skipped, c.skipped)
			}
			if !strings.Contains(r.failed, c.fail) || (c.fail == "") != (r.failed == "") {
				t.Errorf("failed with %q, want %q", r.failed, c.fail)
			}
		})
	}
}

// TestMissing runs every look at this machine: each ends, and says what is
// missing in one line.
func TestMissing(t *testing.T) {
	for w := range checks() {
		err := Missing(w)
		t.Logf("%s: %v", w, err)
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: the reason has more than one line: %q", w, err)
		}
	}
	if Missing("teapot") == nil {
		t.Error("an unknown need is there")
	}
}
