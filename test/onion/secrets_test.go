package onion

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/publisher/descriptor"
)

// needles are the forms in which a secret key could lie about.
func needles(key descriptor.SecretKey) (all [][]byte) {
	raw := key.File()[32:]
	// Each half alone is enough to do harm; an encoding of the whole may break
	// anywhere within the first half.
	for _, half := range [][]byte{raw[:32], raw[32:]} {
		all = append(all, half, []byte(hex.EncodeToString(half)), []byte(strings.ToUpper(hex.EncodeToString(half))),
			[]byte(base64.RawStdEncoding.EncodeToString(half)[:42]), []byte(base64.RawURLEncoding.EncodeToString(half)[:42]),
			[]byte(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(half)[:51]))
	}
	return append(all, []byte(base64.StdEncoding.EncodeToString(raw)[:84]))
}

// capture records all of the loopback device until the returned function is
// called, in full proofs on machines that let it.
func (s *stage) capture() (stop func()) {
	if !prove() || os.Geteuid() != 0 {
		return func() {}
	}
	cmd := exec.Command("tcpdump", "-i", "lo", "-U", "-Z", "root", "-w", filepath.Join(s.dir, "capture"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		s.t.Logf("no capture: %v", err)
		return func() {}
	}
	return func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		killer := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
		defer killer.Stop()
		_ = cmd.Wait()
	}
}

// noSecrets looks for the keys of the address and of its hosts in all logs, in
// every other file of all tors, in arguments and environments of every process
// and in what was captured. Where they must be, it has to find them.
func (s *stage) noSecrets() {
	s.t.Helper()
	keys := map[string][][]byte{"the address": needles(s.key)}
	for name := range s.hosts {
		file, err := os.ReadFile(filepath.Join(s.dir, name, "service", "hs_ed25519_secret_key"))
		if err != nil {
			s.t.Fatal(err)
		}
		key, err := descriptor.ParseSecretKey(file)
		if err != nil {
			s.t.Fatal(err)
		}
		keys["host "+name] = needles(key)
	}
	files, found := 0, 0
	var size int64
	look := func(path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			return // gone, or a socket
		}
		files++
		size += int64(len(text))
		for whose, forms := range keys {
			for _, form := range forms {
				if !bytes.Contains(text, form) {
					continue
				}
				if filepath.Base(path) == "hs_ed25519_secret_key" {
					found++
				} else {
					s.t.Errorf("the key of %s is in %s", whose, path)
				}
			}
		}
	}
	err := filepath.WalkDir(s.n.Dir(), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && d.Type().IsRegular() {
			look(path)
		}
		return err
	})
	if err != nil {
		s.t.Error(err)
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		s.t.Error(err)
	}
	for _, p := range processes {
		look(filepath.Join(p, "cmdline"))
		look(filepath.Join(p, "environ"))
	}
	s.t.Logf("keys of %d services looked for in %d files of %d KiB, logs, arguments and environments of %d processes; in key files %d times", len(keys), files, size/1024, len(processes), found)
	if found < 2*len(s.hosts) {
		s.t.Errorf("the keys of %d hosts are found %d times in their own files: this search finds nothing", len(s.hosts), found)
	}
}

// TestNeedles: the search would find a key in any of its usual forms.
func TestNeedles(t *testing.T) {
	key := descriptor.NewSecretKey([32]byte{7})
	raw := key.File()[32:]
	for name, text := range map[string][]byte{
		"file": key.File(), "hex": []byte(hex.EncodeToString(raw)), "base64": []byte(base64.StdEncoding.EncodeToString(raw)),
		"prefix in base64": []byte(base64.StdEncoding.EncodeToString(raw[32:])), "scalar in base32": []byte(base32.StdEncoding.EncodeToString(raw[:32])),
	} {
		hit := false
		for _, n := range needles(key) {
			hit = hit || bytes.Contains(append([]byte("before "), text...), n)
		}
		if !hit {
			t.Errorf("%s is not found", name)
		}
	}
}
