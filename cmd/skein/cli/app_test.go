package cli

import (
	"bytes"
	"strings"
	"testing"
)

// TestConfirm asks on a terminal, and takes nothing but yes for yes.
func TestConfirm(t *testing.T) {
	for in, want := range map[string]bool{"y\n": true, " YES \n": true, "y": true, "\n": false, "": false, "n\n": false, "yes, please\n": false, strings.Repeat("y", 100): false} {
		var errs bytes.Buffer
		a := &App{Terminal: Terminal{In: strings.NewReader(in), Err: &errs, ErrWidth: 80}}
		if err := a.Confirm("This host leaves."); (err == nil) != want || !strings.HasPrefix(errs.String(), "This host leaves. Go on? [y/N] ") {
			t.Errorf("%q: %v %q", in, err, errs.String())
		}
	}
}
