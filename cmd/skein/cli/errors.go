package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/client"
	"github.com/skein-project/skein/config"
)

// Exit codes.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitUnreachable = 3
	ExitNotFound    = 4
	ExitForbidden   = 5
	ExitDegraded    = 6
	ExitTimeout     = 7
	ExitGoal        = 8
	ExitInterrupted = 130
)

// Error is an error with its exit code and a hint.
type Error struct {
	code   int
	Msg    string
	Advice string
}

func (e *Error) Error() string { return e.Msg }

// WithHint adds what the user may do about it.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Advice = fmt.Sprintf(format, args...)
	return e
}

// Failf is an error that ends the program with code.
func Failf(code int, format string, args ...any) *Error {
	return &Error{code: code, Msg: fmt.Sprintf(format, args...)}
}

// Usagef is an error in how the program was called.
func Usagef(format string, args ...any) *Error { return Failf(ExitUsage, format, args...) }

// NoFile is an error about a file that somebody named and that cannot be read.
func NoFile(format string, args ...any) *Error {
	return Usagef(format, args...).WithHint("give the path of a file on this machine, as seen from the current directory")
}

// Report writes err to stderr and returns the exit code.
func (a *App) Report(ctx context.Context, err error) int {
	if faults, ok := errors.AsType[config.Errors](err); ok {
		for _, f := range faults {
			a.complain(ExitUsage, f.Error(), f.Hint)
		}
		return ExitUsage
	}
	code, msg, hint := a.Classify(ctx, err)
	a.complain(code, msg, hint)
	return code
}

// complain writes an error: for people, or for a program that asked for JSON.
func (a *App) complain(code int, msg, hint string) {
	if a.Output == "json" || a.Output == "jsonl" {
		text, err := json.Marshal(map[string]any{"error": struct {
			Exit    int    `json:"exit"`
			Message string `json:"message"`
			Hint    string `json:"hint,omitempty"`
		}{code, strings.TrimSpace(msg), hint}})
		if err == nil {
			fmt.Fprintln(a.Err, string(text))
			return
		}
	}
	fmt.Fprintf(a.Err, "skein: error: %s\n", strings.TrimSpace(msg))
	if hint != "" {
		fmt.Fprintf(a.Err, "skein: hint: %s\n", hint)
	}
}

// Classify finds the exit code and the hint of an error.
func (a *App) Classify(ctx context.Context, err error) (code int, msg, hint string) {
	var own *Error
	var problem *api.Problem
	var unreachable *api.UnreachableError
	switch {
	case errors.As(err, &own):
		return own.code, err.Error(), own.Advice
	case errors.As(err, &problem) && problem.OfAnotherRelease():
		return ExitFailed, "the daemon has " + err.Error(), "its skein is of another release than this program: compare `skein status` with `skein version`, and upgrade the older"
	case errors.As(err, &problem):
		return problemExit(problem.Code), err.Error(), problem.Hint
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return ExitInterrupted, "interrupted", ""
	case errors.As(err, &unreachable):
		if errors.Is(unreachable.Err, fs.ErrPermission) {
			return ExitForbidden, err.Error(), a.socketHint(unreachable)
		}
		if hint := a.endedHint(unreachable); hint != "" {
			return ExitUnreachable, err.Error(), hint
		}
		return ExitUnreachable, err.Error(), a.unlessElsewhere(a.socketHint(unreachable))
	case errors.Is(err, api.ErrInterrupted):
		return ExitUnreachable, err.Error(), "the daemon may have restarted: try again"
	}
	var advised interface{ Hint() string }
	if errors.As(err, &advised) {
		hint = advised.Hint()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return ExitTimeout, err.Error(), cmp.Or(hint, "give it more time with --timeout")
	}
	if errors.Is(err, fs.ErrPermission) {
		if hint == "" {
			hint = "become root, or the user of the daemon"
		}
		return ExitForbidden, err.Error(), hint
	}
	var final interface{ Final() bool }
	if errors.As(err, &final) && final.Final() {
		return ExitUsage, err.Error(), hint // the unit does not start again after it
	}
	return ExitFailed, err.Error(), hint
}

func problemExit(code api.Code) int {
	switch code {
	case api.CodeInvalidRequest, api.CodeInvalidJob, api.CodeTooLarge:
		return ExitUsage
	case api.CodeNotFound:
		return ExitNotFound
	case api.CodeForbidden, api.CodeUnauthorized:
		return ExitForbidden
	case api.CodeTimeout, api.CodeNotStable:
		return ExitTimeout
	}
	return ExitFailed
}

// unlessElsewhere puts before the hint that the configuration, which names the socket,
// cannot be read.
func (a *App) unlessElsewhere(hint string) string {
	if a.socket != "" || a.config == "" && a.Getenv("SKEIN_SOCKET") != "" {
		return hint
	}
	_, err := a.configured()
	if err == nil {
		return hint
	}
	if faults, ok := errors.AsType[config.Errors](err); ok {
		err = faults[0]
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("there is no configuration to name another socket: %s. Else: %s", err, hint)
	}
	return fmt.Sprintf("the configuration, which may name another socket, is faulty: %s. If it names none: %s", err, hint)
}

// endedHint says that nobody answers because the host of this configuration was removed
// or left. A socket that it does not name is that of another host.
func (a *App) endedHint(e *api.UnreachableError) string {
	if a.Ended == nil || !errors.Is(e.Err, syscall.ECONNREFUSED) && !errors.Is(e.Err, fs.ErrNotExist) {
		return ""
	}
	cfg, err := a.configured()
	if err != nil || cfg.Status.Socket != e.Target {
		return ""
	}
	err = a.Ended(cfg.StateDir)
	if err == nil {
		return ""
	}
	hint := fmt.Sprintf("by its state directory %s, %s", cfg.StateDir, err)
	if advised, ok := err.(interface{ Hint() string }); ok { //nolint:errorlint // its own word, not that of a cause
		hint += ": " + advised.Hint()
	}
	return hint
}

// socketHint tells apart a daemon that does not run, a wrong path and a
// missing group.
func (a *App) socketHint(e *api.UnreachableError) string {
	_, distrusted := errors.AsType[*tls.CertificateVerificationError](e.Err)
	switch {
	case distrusted:
		return "give the pin of its key with --pin: `skein user enable NAME` on that host, with your name, prints it to an operator"
	case errors.Is(e.Err, client.ErrNotPinned):
		return "somebody stands in between, or the host has another key now: compare with what `skein user enable NAME` on that host, with your name, prints to an operator, then give it with --pin"
	case errors.Is(e.Err, client.ErrNotAPI):
		return "is it an address of api.listen, and is it https:// or http://? `skein user enable NAME` on that host, with your name, prints to an operator what to use"
	case errors.Is(e.Err, fs.ErrPermission):
		if group := socketGroup(e.Target); group != "" {
			return fmt.Sprintf("your user may not open the socket: join its group, `usermod -aG %s $USER`, then log in again", group)
		}
		return "your user may not open the socket: that of the daemon's unit is for the group skein, `usermod -aG skein $USER`, then log in again; " +
			"that of a daemon started by hand is for its user"
	case errors.Is(e.Err, syscall.ECONNREFUSED):
		return "nothing listens there: the daemon is not running, see `systemctl status skein`"
	case errors.Is(e.Err, fs.ErrNotExist):
		if a.socket != "" && a.socket != a.defaultSocket() {
			return fmt.Sprintf("wrong path? The daemon's socket is normally %s", a.defaultSocket())
		}
		if _, err := os.Stat(filepath.Dir(e.Target)); err == nil && e.Target != config.DefaultSocket {
			return "the daemon is not running there, or it listens on another path: see status.socket in its configuration"
		}
		return "the daemon is not running: `systemctl start skein`, or `skein run`; for one elsewhere use --socket"
	}
	return "check --socket"
}
