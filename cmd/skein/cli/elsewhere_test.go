package cli

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/client"
)

// TestHintsOfHostsElsewhere: what keeps users from a host says what to do about it.
func TestHintsOfHostsElsewhere(t *testing.T) {
	a := &App{Terminal: Terminal{Env: []string{"SKEIN_SOCKET=https://h1:1"}}}
	for _, c := range []struct {
		err  error
		code int
		hint string
	}{
		{&api.UnreachableError{Target: "https://h1:1", Err: fmt.Errorf("its key is x, %w", client.ErrNotPinned)}, ExitUnreachable, "--pin"},
		{&api.UnreachableError{Target: "https://h1:1", Err: &tls.CertificateVerificationError{Err: errors.New("unknown")}}, ExitUnreachable, "--pin"},
		{&api.UnreachableError{Target: "http://h1:1", Err: fmt.Errorf("it answers: %w", client.ErrNotAPI)}, ExitUnreachable, "https://"},
		{api.Errorf(api.CodeUnauthorized, "who?"), ExitForbidden, ""},
	} {
		if code, _, hint := a.Classify(t.Context(), c.err); code != c.code || !strings.Contains(hint, c.hint) {
			t.Errorf("%v: exit %d, hint %q", c.err, code, hint)
		}
	}
}

// TestSettingsWithAHostElsewhere: where other hosts are asked is no setting of this one.
func TestSettingsWithAHostElsewhere(t *testing.T) {
	for _, a := range []*App{
		{Terminal: Terminal{Env: []string{"SKEIN_SOCKET=https://h1:7443,https://h2:7443"}}},
		{socket: "https://h1:7443"},
	} {
		a.config = filepath.Join(t.TempDir(), "skein.toml")
		if err := os.WriteFile(a.config, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := a.Settings(&cobra.Command{})
		if err != nil || strings.Contains(cfg.Status.Socket, "h1") {
			t.Errorf("%v, socket %s", err, cfg.Status.Socket)
		}
	}
}
