package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/config"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitNotFound    = 4
	exitForbidden   = 5
	exitDegraded    = 6
	exitTimeout     = 7
	exitGoal        = 8
	exitInterrupted = 130
)

// cliError is an error with its exit code and a hint.
type cliError struct {
	code   int
	msg    string
	advice string
}

func (e *cliError) Error() string { return e.msg }

func (e *cliError) hint(format string, args ...any) *cliError {
	e.advice = fmt.Sprintf(format, args...)
	return e
}

func failf(code int, format string, args ...any) *cliError {
	return &cliError{code: code, msg: fmt.Sprintf(format, args...)}
}

func usagef(format string, args ...any) *cliError { return failf(exitUsage, format, args...) }

// report writes err to stderr and returns the exit code.
func (a *app) report(ctx context.Context, err error) int {
	if faults, ok := errors.AsType[config.Errors](err); ok {
		for _, f := range faults {
			a.complain(f.Error(), f.Hint)
		}
		return exitUsage
	}
	code, msg, hint := a.classify(ctx, err)
	a.complain(msg, hint)
	return code
}

func (a *app) complain(msg, hint string) {
	fmt.Fprintf(a.err, "skein: error: %s\n", strings.TrimSpace(msg))
	if hint != "" {
		fmt.Fprintf(a.err, "skein: hint: %s\n", hint)
	}
}

// classify finds the exit code and the hint of an error.
func (a *app) classify(ctx context.Context, err error) (code int, msg, hint string) {
	var own *cliError
	var problem *api.Problem
	var unreachable *api.UnreachableError
	switch {
	case errors.As(err, &own):
		return own.code, err.Error(), own.advice
	case errors.As(err, &problem):
		return problemExit(problem.Code), err.Error(), problem.Hint
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitInterrupted, "interrupted", ""
	case errors.As(err, &unreachable):
		if errors.Is(unreachable.Err, fs.ErrPermission) {
			return exitForbidden, err.Error(), a.socketHint(unreachable)
		}
		return exitUnreachable, err.Error(), a.socketHint(unreachable)
	case errors.Is(err, api.ErrInterrupted):
		return exitUnreachable, err.Error(), "the daemon may have restarted: try again"
	}
	var advised interface{ Hint() string }
	if errors.As(err, &advised) {
		hint = advised.Hint()
	} else if errors.Is(err, context.DeadlineExceeded) {
		return exitTimeout, err.Error(), "give it more time with --timeout"
	}
	if errors.Is(err, fs.ErrPermission) {
		if hint == "" {
			hint = "become root, or the user of the daemon"
		}
		return exitForbidden, err.Error(), hint
	}
	var final interface{ Final() bool }
	if errors.As(err, &final) && final.Final() {
		return exitUsage, err.Error(), hint // the unit does not start again after it
	}
	return exitFailed, err.Error(), hint
}

func problemExit(code api.Code) int {
	switch code {
	case api.CodeInvalidRequest, api.CodeInvalidJob, api.CodeTooLarge:
		return exitUsage
	case api.CodeNotFound:
		return exitNotFound
	case api.CodeForbidden:
		return exitForbidden
	case api.CodeTimeout, api.CodeNotStable:
		return exitTimeout
	}
	return exitFailed
}

// socketHint tells apart a daemon that does not run, a wrong path and a
// missing group.
func (a *app) socketHint(e *api.UnreachableError) string {
	switch {
	case errors.Is(e.Err, fs.ErrPermission):
		if group := socketGroup(e.Target); group != "" {
			return fmt.Sprintf("your user may not open the socket: join its group (`usermod -aG %s $USER`, then log in again), or become root", group)
		}
		return "your user may not open the socket: become root, or the user of the daemon"
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
