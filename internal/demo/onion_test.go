package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestVisitorTriesAgain: a client is not done with when one try fails, as it
// does when tor itself begins anew.
func TestVisitorTriesAgain(t *testing.T) {
	fails := 0
	users := map[string]bool{}
	v := visitor{say: t.Logf, by: map[string]int{}, fetch: func(_ context.Context, user string) (string, error) {
		users[user] = true
		if fails--; fails >= 0 {
			return "", context.DeadlineExceeded
		}
		return "n1", nil
	}}
	fails = visitTries - 1
	if err := v.visit(t.Context()); err != nil || v.served != 1 || v.failed != visitTries-1 || v.by["n1"] != 1 {
		t.Errorf("%v, %+v", err, v)
	}
	if len(users) != visitTries {
		t.Errorf("%d tries on circuits of their own", len(users))
	}
	fails = visitTries
	err := v.visit(t.Context())
	if err == nil || !strings.Contains(err.Error(), "not served in 3 tries") {
		t.Errorf("never served: %v", err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		t.Error("the command would advise to give it more time")
	}
}

// TestUntilCalm: the kill comes after a rotation, and a minute or more before the next.
func TestUntilCalm(t *testing.T) {
	begin := time.Unix(0, 0).Add(1000 * rotationEvery).UTC()
	for after := range rotationEvery / time.Second {
		now := begin.Add(after * time.Second)
		pause := untilCalm(now)
		kill := now.Add(pause).Sub(begin) % rotationEvery
		if kill < rotationAfter || kill > rotationEvery-rotationRoom {
			t.Errorf("%s after a rotation: waits %s, until %s after one", after*time.Second, pause, kill)
		}
		if pause > rotationRoom+rotationAfter {
			t.Errorf("%s after a rotation: waits %s", after*time.Second, pause)
		}
	}
}

// TestVisitorSaysWhatTakesLong: nobody watches a demo that is silent for half a
// minute.
func TestVisitorSaysWhatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		takes, fails := []time.Duration{time.Second, 31 * time.Second, time.Second}, []error{nil, nil, errors.New("unreachable")}
		v := visitor{
			say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) },
			by:  map[string]int{},
		}
		v.fetch = func(context.Context, string) (string, error) {
			if v.tries > len(takes) {
				return "n1", nil
			}
			time.Sleep(takes[v.tries-1])
			return "n1", fails[v.tries-1]
		}
		for range takes {
			if err := v.visit(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if len(said) != 2 || !strings.Contains(said[0], "took 31.0 s") || !strings.Contains(said[1], "failed after 1.0 s: unreachable") {
			t.Errorf("said %q", said)
		}
	})
}

// TestFailureNamesTheLogs: what the hosts logged outlives their directories.
func TestFailureNamesTheLogs(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	wrong := errors.New("nothing works")
	err := inDirectory(t.Context(), Options{Out: io.Discard}, time.Minute, func(_ context.Context, d *demo) error {
		h, err := newHost(d, 0)
		if err != nil {
			return err
		}
		d.hosts = append(d.hosts, h)
		if err := os.WriteFile(filepath.Join(h.dir, "log"), []byte("what happened\n"), 0o600); err != nil {
			return err
		}
		return wrong
	})
	if !errors.Is(err, wrong) {
		t.Fatal(err)
	}
	named, ok := errors.AsType[*failure](err)
	if !ok || !strings.HasSuffix(named.Hint(), named.logs) {
		t.Fatal("no file is named:", err)
	}
	text, readErr := os.ReadFile(named.logs)
	if readErr != nil || string(text) != "--- log of n1\nwhat happened\n\n" {
		t.Errorf("%q, %v", text, readErr)
	}
}
