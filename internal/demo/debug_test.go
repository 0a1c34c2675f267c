package demo

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
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
	public, err := exec.CommandContext(ctx, d.o.Exe, "auth", "key", filepath.Join(t.TempDir(), "u.key")).Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.hosts[0].api.SetUser(ctx, "planted-user", api.UserRequest{Role: "submitter", Keys: []string{string(public)}}); err != nil {
		t.Fatal(err)
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
		"n1/status.json", "n2/status.json", "n1/onion.json", "n2/overload.json", "n1/workflows.json", "n1/doctor.json", "n2/config.json", "n1/metrics.txt", "n2/metrics.txt", "n2/warnings.jsonl",
		"n1/goroutine.txt", "n2/heap.pprof", "n1/cpu.pprof", "manifest.json",
	} {
		if _, ok := files[name]; !ok {
			t.Errorf("no %s", name)
		}
	}
	if !bytes.Contains(files["n2/metrics.txt"], []byte("skein_build_info{")) || !bytes.Contains(files["manifest.json"], []byte(`"node": "n3"`)) {
		t.Error("metrics or manifest lack what they should have")
	}
	// What the asked host knows of the log proves itself to whoever has the file.
	log := filepath.Join(t.TempDir(), "log.jsonl")
	if err := os.WriteFile(log, files["n1/log.jsonl"], 0o600); err != nil {
		t.Fatal(err)
	}
	verified, err := exec.CommandContext(ctx, d.o.Exe, "log", "verify", log).CombinedOutput()
	if err != nil || !regexp.MustCompile(`^good: \d+ events in [23] sources, every event`).Match(verified) || bytes.Contains(verified, []byte("certifies")) {
		t.Errorf("%v\n%s", err, verified)
	}
	broken := bytes.Replace(files["n1/log.jsonl"], []byte(`"host_started"`), []byte(`"host_stopped"`), 1)
	if err := os.WriteFile(log, broken, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(ctx, d.o.Exe, "log", "verify", log).CombinedOutput(); err == nil {
		t.Errorf("after a change: %s", out)
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
	disguised(ctx, t, d)
}

// disguised has another bundle made, in which nobody has the name that is known here.
func disguised(ctx context.Context, t *testing.T, d *demo) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "p.tar.gz")
	if stdout, stderr, code := d.cli(ctx, d.hosts[0], "debug", "bundle", "--profile", "1s", "--pseudonyms", "--out", out); code != 6 || !strings.Contains(stderr, "p.names.json") {
		t.Fatalf("exit %d: %s%s", code, stdout, stderr)
	}
	names, err := os.ReadFile(strings.TrimSuffix(out, ".tar.gz") + ".names.json")
	if err != nil {
		t.Fatal(err)
	}
	planted := []string{"planted-user", "demo", "n1", "n2", "n3"}
	for _, h := range d.hosts {
		planted = append(planted, h.last.Mesh.Address, h.last.Mesh.Address6)
	}
	for _, p := range planted {
		if !bytes.Contains(names, []byte(`"`+p+`"`)) {
			t.Errorf("what stands for %s is not in %s", p, names)
		}
	}
	as := regexp.MustCompile(`(?i)(?:^|[^a-z0-9])(?:` + strings.ReplaceAll(strings.Join(planted, "|"), ".", `\.`) + `)(?:$|[^a-z0-9])`)
	files := untar(t, out)
	if len(files) < 25 {
		t.Errorf("only %d files", len(files))
	}
	for name, text := range files {
		if strings.HasSuffix(name, ".pprof") {
			r, err := gzip.NewReader(bytes.NewReader(text))
			if err == nil {
				text, err = io.ReadAll(r)
			}
			if err != nil || bytes.Contains(text, []byte("planted-user")) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if at := as.FindIndex([]byte(name + "\n" + string(text))); at != nil {
			t.Errorf("%s has a name: %.200s", name, (name + "\n" + string(text))[max(0, at[0]-80):])
		}
		if strings.HasSuffix(name, ".json") && !json.Valid(text) {
			t.Errorf("%s is no JSON any more", name)
		}
	}
	if !bytes.Contains(files["host-1/status.json"], []byte(`"holder": "host-1"`)) {
		t.Errorf("who is who cannot be followed: %s", files["host-1/status.json"])
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
