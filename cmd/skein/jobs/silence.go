package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/client"
	"github.com/skein-project/skein/cmd/skein/cli"
)

// silence is how long a command may wait for an answer without a word.
const silence = 1500 * time.Millisecond

// waiting tells what a command waits for, on standard error.
type waiting struct {
	a *cli.App

	mu   sync.Mutex
	said string
}

// patiently has a request tried again while its error passes: what is sent is
// idempotent. A daemon that was never there is reported at once.
func (w *waiting) patiently(ctx context.Context) context.Context {
	began, limit := time.Now(), patience(w.a)
	return client.Patiently(ctx, func(cause error) error {
		_, away := errors.AsType[*api.UnreachableError](cause)
		if time.Since(began) > limit || away && w.silent() {
			return cause
		}
		w.say(cause.Error())
		return nil
	})
}

func (w *waiting) silent() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said == ""
}

func (w *waiting) say(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if what != w.said {
		w.said = what
		w.a.Note("waiting: %s", what)
	}
}

// explain asks the host, once a submit had no answer for a while and nothing was said
// of it, what that waits for. The caller calls stop before it says anything itself.
func (w *waiting) explain(ctx context.Context, c *api.Client, wait api.Wait) (stop func()) {
	return w.after(ctx, func(ctx context.Context) string {
		ctx, cancel := context.WithTimeout(ctx, silence)
		defer cancel()
		st, _, err := cli.Fetch[api.Status](ctx, c, "/v1/status")
		return waitsFor(st, err, wait)
	})
}

// after says what was found out once there was silence for a while. The caller calls
// stop before it says anything itself.
func (w *waiting) after(ctx context.Context, find func(context.Context) string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var finding sync.WaitGroup
	finding.Go(func() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(silence):
		}
		if !w.silent() {
			return
		}
		if what := find(ctx); ctx.Err() == nil && w.silent() {
			w.say(what)
		}
	})
	return func() {
		cancel()
		finding.Wait()
	}
}

// waitsFor says what a submit waits for that a host has taken, by that host's status,
// or by why there is none.
func waitsFor(st api.Status, err error, wait api.Wait) string {
	switch {
	case err != nil:
		return "the host has the request and has not answered yet"
	case st.Lease.Holder == "" && st.Lease.Blocked != "":
		return "nobody holds the lease: " + st.Lease.Blocked
	case st.Lease.Holder == "":
		return "nobody holds the lease"
	}
	disks := "a majority of the voters"
	if wait == api.WaitLocal {
		disks = "the holder"
	}
	what := fmt.Sprintf("%s holds the lease; %s must have the job on disk", st.Lease.Holder, disks)
	if len(st.Reasons) > 0 {
		what += " (" + strings.Join(st.Reasons, ", ") + ")"
	}
	return what
}
