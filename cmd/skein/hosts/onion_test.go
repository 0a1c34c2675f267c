package hosts

import (
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/skein-project/skein/cmd/skein/cli"
)

// TestVerifyIsPatient: a directory may take longer than commands wait by default.
func TestVerifyIsPatient(t *testing.T) {
	for _, given := range []bool{false, true} {
		a := &cli.App{Timeout: time.Second, TimeoutSet: given}
		a.Out, a.Err, a.Env = io.Discard, io.Discard, []string{"SKEIN_SOCKET=" + filepath.Join(t.TempDir(), "none")}
		cmd := onionVerify(a)
		cmd.SetArgs([]string{"x.onion"})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.ExecuteContext(t.Context()); err == nil {
			t.Error("verified without a daemon")
		}
		if long := a.Timeout >= 15*time.Second; long == given {
			t.Errorf("timeout given %t: waits for %s", given, a.Timeout)
		}
	}
}
