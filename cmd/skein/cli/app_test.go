package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// TestConfirm asks on a terminal, and takes nothing but yes for yes.
func TestConfirm(t *testing.T) {
	for in, want := range map[string]bool{"y\n": true, " YES \n": true, "y": true, "\n": false, "": false, "n\n": false, "yes, please\n": false, strings.Repeat("y", 100): false} {
		var errs bytes.Buffer
		a := &App{Terminal: Terminal{In: strings.NewReader(in), Err: &errs, ErrWidth: 80}}
		if err := a.Confirm("remove %s", "n4"); (err == nil) != want || !strings.HasPrefix(errs.String(), "This will remove n4. Go on? [y/N] ") {
			t.Errorf("%q: %v %q", in, err, errs.String())
		}
	}
}

// TestConfirmUnasked: where nobody can answer, the refusal does not read as if it
// were done.
func TestConfirmUnasked(t *testing.T) {
	a := &App{}
	var own *Error
	if err := a.Confirm("remove %s", "n4"); !errors.As(err, &own) || own.code != ExitUsage || own.Msg != "nothing done: this would remove n4" ||
		!strings.Contains(own.Advice, "--yes") {
		t.Errorf("%+v", err)
	}
	if err := (&App{yes: true}).Confirm("remove n4"); err != nil {
		t.Errorf("with --yes: %v", err)
	}
}

// What is said again and again is said once, until it was forgotten or is something else.
func TestOnce(t *testing.T) {
	var out bytes.Buffer
	a := &App{Terminal: Terminal{Err: &out}}
	note, forget := a.Once()
	note("waiting: %s", "x")
	note("waiting: %s", "x")
	note("waiting: %s", "y")
	forget()
	note("waiting: %s", "y")
	if got := out.String(); got != "waiting: x\nwaiting: y\nwaiting: y\n" {
		t.Errorf("%q", got)
	}
}
