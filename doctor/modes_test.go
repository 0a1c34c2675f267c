package doctor

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skein-project/skein/api"
)

// TestFileModes: what others may read and what another user owns is named with the
// command that mends it, at every level, and that command mends it.
func TestFileModes(t *testing.T) {
	const key, log = "onion/keys/abc/hs_ed25519_secret_key", "log/n1.1/0001.seg"
	for _, c := range []struct {
		name   string
		change func(at func(string) string) error
		want   api.Verdict
		texts  []string
		root   bool // can be made by root only
	}{
		{name: "as it should be", want: api.VerdictOK, change: func(func(string) string) error { return nil }},
		{name: "an open key", want: api.VerdictWarn, texts: []string{"others may read " + key, "chmod go= " + key}, change: func(at func(string) string) error {
			return os.Chmod(at(key), 0o640)
		}},
		{name: "an open segment", want: api.VerdictWarn, texts: []string{"chmod go= " + log}, change: func(at func(string) string) error {
			return os.Chmod(at(log), 0o604)
		}},
		{name: "many", want: api.VerdictWarn, texts: []string{" and 95 more", "find . -type f -perm /077 -exec chmod go= {} +"}, change: func(at func(string) string) error {
			for i := range 100 {
				if err := os.WriteFile(at("log/n1.1/"+string(rune('A'+i%26))+strings.Repeat("x", i)), nil, 0o644); err != nil {
					return err
				}
			}
			return nil
		}},
		{name: "an odd name", want: api.VerdictWarn, texts: []string{`chmod go= './log/a b'\''$(c)'`}, change: func(at func(string) string) error {
			return os.WriteFile(at("log/a b'$(c)"), nil, 0o644)
		}},
		{name: "what is for others", want: api.VerdictOK, change: func(at func(string) string) error {
			if err := os.WriteFile(at("hosts"), nil, 0o644); err != nil {
				return err
			}
			if err := os.MkdirAll(at("scratch/x"), 0o700); err != nil {
				return err
			}
			return os.WriteFile(at("scratch/x/out"), nil, 0o644)
		}},
		{name: "another's file", root: true, want: api.VerdictWarn, texts: []string{"root does not own all", log + " (of 12345)", "chown -h root " + log}, change: func(at func(string) string) error {
			return os.Chown(at(log), 12345, -1)
		}},
		{name: "another's directory", root: true, want: api.VerdictWarn, texts: []string{"log/n1.1 (of 12345)", "chown -h root log/n1.1"}, change: func(at func(string) string) error {
			return os.Chown(at("log/n1.1"), 12345, -1)
		}},
		{name: "root's file among a service's", root: true, want: api.VerdictFail, texts: []string{key + " (of root)", "chown -h 12345 " + key}, change: func(at func(string) string) error {
			for _, name := range []string{".", "log", "log/n1.1", log, "onion", "onion/keys", "onion/keys/abc"} {
				if err := os.Chown(at(name), 12345, -1); err != nil {
					return err
				}
			}
			return nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.root && os.Geteuid() != 0 {
				t.Skip("only root gives files away")
			}
			h := Host{}
			h.Config.StateDir = filepath.Join(t.TempDir(), "state")
			at := func(name string) string { return filepath.Join(h.Config.StateDir, name) }
			h.NamesFile, h.Config.Exec.ScratchDir = at("hosts"), at("scratch")
			for _, name := range []string{key, log} {
				if err := os.MkdirAll(filepath.Dir(at(name)), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at(name), []byte("x"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.change(at); err != nil {
				t.Fatal(err)
			}
			v := checkFileModes(t.Context(), h)
			if v.v != c.want {
				t.Errorf("%+v, want %s", v, c.want)
			}
			for _, text := range c.texts {
				if !strings.Contains(v.detail+"\n"+v.hint, text) {
					t.Errorf("%+v, want %q", v, text)
				}
			}
			if c.want == api.VerdictOK {
				return
			}
			command, _, _ := strings.Cut(v.hint, "; think")
			if out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", command, err, out)
			}
			if v := checkFileModes(t.Context(), h); v.v != api.VerdictOK {
				t.Errorf("after %q: %+v", command, v)
			}
		})
	}
}
