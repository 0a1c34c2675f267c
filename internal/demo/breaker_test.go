package demo

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

// TestHostThatDoesNotAnswer: a host whose process stands still is not asked for a while after
// it did not answer some times, which who asks is told, and is asked again once it goes on.
func TestHostThatDoesNotAnswer(t *testing.T) {
	parallel(t)
	d, ctx := startWith(t, 3, func(d *demo) { d.o.Profile = cluster.ProfileClassic })
	holder, err := d.holder(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var asked, still *host
	for _, h := range d.hosts {
		if h == holder {
			asked = h
		} else {
			still = h
		}
	}
	verify := func() string { // asks each host
		out, errs, code := d.cli(ctx, asked, "log", "verify", "--all-hosts")
		return fmt.Sprintf("%s%s exit code %d", out, errs, code)
	}
	if err := still.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = still.cmd.Process.Signal(syscall.SIGCONT) })
	until(ctx, t, still.name+" to be left alone", func() bool {
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() { verify() })
		}
		all.Wait()
		out := verify()
		if !strings.Contains(out, still.name+" did not answer lately and is tried again in ") {
			t.Log(out)
			return false
		}
		return true
	})
	began := time.Now()
	if out := verify(); time.Since(began) > 10*time.Second {
		t.Errorf("asked though it is left alone: %s after %s", out, time.Since(began))
	}
	if err := still.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, 3*time.Minute, still.name+" is asked again", func() error {
		if out := verify(); !strings.HasSuffix(out, " exit code 0") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
}
