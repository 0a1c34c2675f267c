package offline

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/mesh/device"
)

// TestCommandAdvice: what a command may not do is told as such, not as a
// fault of the daemon.
func TestCommandAdvice(t *testing.T) {
	for err, want := range map[error]string{
		&fs.PathError{Op: "open", Path: "/var/lib/skein/identity.json", Err: syscall.EACCES}: "become root",
		fmt.Errorf("%w: %w", device.ErrPermission, syscall.EPERM):                            "become root",
		&fs.PathError{Op: "open", Path: "root.key", Err: syscall.EEXIST}:                     "does not exist yet",
		join.ErrNoRoot: "root import",
	} {
		if h, ok := errors.AsType[*hinted](adviseCommand(err)); !ok || !strings.Contains(h.Hint(), want) || !errors.Is(h, err) {
			t.Errorf("%v: %+v, want a hint with %q", err, h, want)
		}
	}
}

// TestFinalErrors tells a service manager when to stop trying.
func TestFinalErrors(t *testing.T) {
	for err, want := range map[error]bool{join.ErrLeft: true, join.ErrRemoved: true, join.ErrNotInitialised: true, join.ErrRefused: false, device.ErrPermission: false} {
		var final interface{ Final() bool }
		if got := Advise(fmt.Errorf("start: %w", err)); !errors.As(got, &final) || final.Final() != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}
