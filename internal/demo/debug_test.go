package demo

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// secretsOf are the keys, and the secrets of invites, in the state directory of a host.
func secretsOf(t *testing.T, h *host) (out []string) {
	t.Helper()
	var id map[string]any
	text, err := os.ReadFile(filepath.Join(h.stateDir(), "identity.json"))
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ = bytes.Cut(text, []byte("\n# sha256"))
	if err := json.Unmarshal(text, &id); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"id_key", "wg_key", "cluster_secret"} {
		secret, ok := id[key].(string)
		if !ok || len(secret) < 20 {
			t.Fatalf("%s of %s is %q", key, h.name, secret)
		}
		out = append(out, secret)
	}
	if text, err := os.ReadFile(filepath.Join(h.stateDir(), "root.key")); err == nil {
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				out = append(out, line)
			}
		}
	}
	return out
}

// forms are how a secret may be written.
func forms(secret string) [][]byte {
	out := [][]byte{[]byte(secret)}
	if raw, err := base64.StdEncoding.DecodeString(secret); err == nil {
		out = append(out, raw, []byte(hex.EncodeToString(raw)), []byte(base64.RawURLEncoding.EncodeToString(raw)))
	}
	return out
}

// TestDebugBundle gathers of three hosts, one of which is dead: it is named, the others
// are whole, and no key, token or cluster secret is in any byte.
func TestDebugBundle(t *testing.T) {
	parallel(t)
	d, ctx := startWith(t, 3, calm)
	invite, err := d.hosts[0].api.CreateToken(ctx, time.Hour, 1)
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{invite.Secret.Reveal()}
	for _, h := range d.hosts {
		secrets = append(secrets, secretsOf(t, h)...)
		if h.token != "" {
			if text, err := os.ReadFile(h.token); err == nil {
				secrets = append(secrets, strings.TrimSpace(string(text)))
			}
		}
	}
	if len(secrets) < 10 {
		t.Fatalf("only %d secrets", len(secrets))
	}
	kill(t, d.hosts[2])

	out := filepath.Join(t.TempDir(), "b.tar.gz")
	stdout, stderr, code := d.cli(ctx, d.hosts[0], "debug", "bundle", "--profile", "1s", "--out", out)
	if code != 6 || !strings.Contains(stderr, "n3 is not in it: ") {
		t.Fatalf("exit %d: %s%s", code, stdout, stderr)
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	files := untar(t, out)
	for _, name := range []string{
		"n1/status.json", "n2/status.json", "n1/doctor.json", "n2/config.json", "n1/metrics.txt", "n2/metrics.txt", "n2/warnings.jsonl",
		"n1/goroutine.txt", "n2/heap.pprof", "n1/cpu.pprof", "manifest.json",
	} {
		if _, ok := files[name]; !ok {
			t.Errorf("no %s", name)
		}
	}
	if !bytes.Contains(files["n2/metrics.txt"], []byte("skein_build_info{")) || !bytes.Contains(files["manifest.json"], []byte(`"node": "n3"`)) {
		t.Error("metrics or manifest lack what they should have")
	}
	for name, text := range files {
		for _, secret := range secrets {
			for _, form := range forms(secret) {
				if bytes.Contains(text, form) {
					t.Errorf("%s has a secret", name)
				}
			}
		}
	}
	if _, stderr, code := d.cli(ctx, d.hosts[0], "debug", "bundle", "--out", out); code != 1 || !strings.Contains(stderr, "exists") {
		t.Errorf("written over: exit %d, %s", code, stderr)
	}
}

// untar reads a bundle, by name below its folder.
func untar(t *testing.T, path string) map[string][]byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for archive := tar.NewReader(unzipped); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[strings.TrimPrefix(h.Name, "skein-debug/")], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}
