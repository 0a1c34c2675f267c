package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/skein-project/skein/cmd/skein/cli"
)

var errFull = errors.New("no space left on device")

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// TestUnwrittenResultIsAnError: what a script did not get must not exit with 0.
func TestUnwrittenResultIsAnError(t *testing.T) {
	for _, output := range []string{"table", "tsv", "json"} {
		var errs bytes.Buffer
		term := cli.Terminal{In: strings.NewReader(""), Out: full{}, Err: &errs}
		code := execute(t.Context(), []string{"version", "-o", output}, term, fakeDeps())
		if code != 1 || !strings.Contains(errs.String(), errFull.Error()) {
			t.Errorf("-o %s: exit %d, %q", output, code, errs.String())
		}
	}
}
