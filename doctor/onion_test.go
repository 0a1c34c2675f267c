package doctor

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/config"
)

// TestTargets asks what a host serves: before a start a service may not be there
// yet, later it must be.
func TestTargets(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/broken" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(s.Close)
	up := s.Listener.Addr().String()
	hangs, err := net.Listen("unix", filepath.Join(t.TempDir(), "hangs"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hangs.Close() })
	stuck := "unix:" + hangs.Addr().String()
	behind := strings.Repeat("a", 56) + ".onion:80"
	for _, c := range []struct {
		name      string
		mode      string
		path      string
		targets   []string
		alone     api.Verdict
		running   api.Verdict
		text      string
		otherwise string // in the hint
	}{
		{"none", "http", "/", nil, "skip", "skip", "onion.target is not set", ""},
		{"answers", "http", "/", []string{up}, "ok", "ok", up, ""},
		{"error", "http", "/broken", []string{up}, "warn", "fail", "GET /broken: answers 500", "onion.check_path"},
		{"one of two", "http", "/", []string{up, "127.0.0.1:1"}, "warn", "warn", "127.0.0.1:1", "start the service"},
		{"hangs", "http", "/", []string{stuck}, "warn", "fail", "no answer within 2s", "start the service"},
		{"hangs, bytes", "tcp", "/", []string{stuck}, "ok", "ok", "which a service that hangs allows too", ""},
		{"through tor", "http", "/", []string{behind}, "skip", "skip", "see onion-hosts", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := Host{}
			h.Config.Onion = config.Onion{Mode: c.mode, Targets: c.targets, CheckPath: c.path, CheckStatus: config.Statuses{Low: 100, High: 499}}
			for backend, want := range map[string]api.Verdict{"": c.alone, "kernel": c.running} {
				h.Backend = backend
				if v := checkTargets(t.Context(), h); v.v != want || !strings.Contains(v.detail, c.text) || !strings.Contains(v.hint, c.otherwise) {
					t.Errorf("with backend %q: %+v, want %s, %q", backend, v, want, c.text)
				}
			}
		})
	}
}

// TestTorProgram: what a host without a daemon finds out about its tor.
func TestTorProgram(t *testing.T) {
	dir := t.TempDir()
	program := func(name, version string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho 'Tor version "+version+".'\n"), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
		return path
	}
	l, err := net.Listen("unix", filepath.Join(dir, "control"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []struct {
		name string
		tor  config.Tor
		want api.Verdict
		text string
	}{
		{"off", config.Tor{}, "skip", "tor.enabled"},
		{"there", config.Tor{Enabled: true, Program: program("new", "0.4.9.11")}, "ok", "new"},
		{"old", config.Tor{Enabled: true, Program: program("old", "0.2.9.1")}, "fail", "0.2.9.1"},
		{"missing", config.Tor{Enabled: true, Program: filepath.Join(dir, "none")}, "fail", "none"},
		{"attached", config.Tor{Enabled: true, Control: "unix:" + l.Addr().String()}, "ok", "takes connections"},
		{"nobody there", config.Tor{Enabled: true, Control: "unix:" + dir + "/x"}, "fail", "no such file"},
	} {
		h := Host{}
		h.Config.Tor = c.tor
		v := checkTorProgram(t.Context(), h)
		if v.v != c.want || !strings.Contains(v.detail, c.text) || (v.v == api.VerdictFail) != (v.hint != "") {
			t.Errorf("%s: %+v, want %s, %q", c.name, v, c.want, c.text)
		}
	}
}
