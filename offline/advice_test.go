package offline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/join/door"
	"github.com/skein-project/skein/coord/join/token"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/mesh/device"
)

// TestCommandAdvice: what a command may not do is told as such, not as a
// fault of the daemon.
func TestCommandAdvice(t *testing.T) {
	for err, want := range map[error]string{
		&fs.PathError{Op: "open", Path: "/var/lib/skein/identity.json", Err: syscall.EACCES}: "become root",
		fmt.Errorf("%w: %w", device.ErrPermission, syscall.EPERM):                            "become root",
		&fs.PathError{Op: "open", Path: "root.key", Err: syscall.EEXIST}:                     "does not exist yet",
		join.ErrNoRoot:  "root import",
		join.ErrLeft:    "under another name",
		join.ErrRemoved: "under another name",
		join.ErrRefused: "(2) another host has the name, or one had it that left or was removed (`skein members --all` there): take another",
	} {
		if h, ok := errors.AsType[*hinted](adviseCommand(err)); !ok || !strings.Contains(h.Hint(), want) || !errors.Is(h, err) {
			t.Errorf("%v: %+v, want a hint with %q", err, h, want)
		}
	}
}

// TestUnansweredAdvice: where a sponsor does not answer, the operator is sent to the
// endpoint and the firewall.
func TestUnansweredAdvice(t *testing.T) {
	const onion = "http://pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion:80"
	for _, c := range []struct {
		addrs []string
		err   error
		want  string
		not   string
	}{
		{[]string{"192.0.2.1:51820"}, context.DeadlineExceeded, "firewall between here and there let this host reach TCP 192.0.2.1:51820", "listens"},
		{[]string{"192.0.2.1:51820", onion}, syscall.ECONNREFUSED, "nothing listens on TCP 192.0.2.1:51820:", "firewall"},
		{[]string{"192.0.2.1:51820"}, io.ErrUnexpectedEOF, "closes the connection", "firewall"},
		{[]string{onion}, context.DeadlineExceeded, "its tor", "TCP"},
		{[]string{onion}, door.ErrDoor, "out of reach of the hosts behind that address", "its tor"},
	} {
		err := Advise(fmt.Errorf("join: %w", &join.UnansweredError{Addrs: c.addrs, Tries: 3, Err: c.err}))
		h, ok := errors.AsType[*hinted](err)
		if !ok || !strings.Contains(h.Hint(), c.want) || strings.Contains(h.Hint(), c.not) || h.Final() || !errors.Is(err, c.err) {
			t.Errorf("%v: %+v, want a hint with %q", c.addrs, h, c.want)
		}
	}
}

// TestFinalErrors tells a service manager when to stop trying: what a restart cannot
// mend it must not try for ever. For a command the same is a failure like another.
func TestFinalErrors(t *testing.T) {
	for err, want := range map[error]bool{
		join.ErrLeft: true, join.ErrRemoved: true, join.ErrNotInitialised: true, join.ErrRefused: true, join.ErrAnswer: true,
		join.ErrOtherCluster: true, token.ErrToken: true, token.ErrExpired: true, &segment.CorruptError{Segment: "s"}: true,
		device.ErrPermission: false, syscall.EADDRINUSE: false, &join.UnansweredError{Err: io.EOF}: false,
	} {
		var final interface{ Final() bool }
		var advice interface{ Hint() string }
		got := Advise(fmt.Errorf("start: %w", err))
		if !errors.As(got, &final) || final.Final() != want {
			t.Errorf("%v: %v", err, got)
		}
		if !errors.As(got, &advice) || advice.Hint() == "" {
			t.Errorf("%v: no hint", err)
		}
	}
	if got := adviseCommand(&segment.CorruptError{Segment: "s"}); errors.As(got, new(interface{ Final() bool })) {
		t.Errorf("%v is final for a command", got)
	}
}
