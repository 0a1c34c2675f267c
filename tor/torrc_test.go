package tor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

func TestTorrc(t *testing.T) {
	o := Options{
		Dir: "/d", Torrc: []string{"SafeLogging 0"},
		Services: []Service{
			{Dir: "/s", Ports: []Port{{80, "unix:/p/http"}}, Masters: []string{testAddress}, IntroPoints: 7, CircuitID: true, MaxStreams: 64},
			{Dir: "/n", Ports: []Port{{7000, "127.0.0.1:7000"}}},
		},
	}
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	text := o.torrc()
	for _, line := range []string{
		"DataDirectory /d/data", "ControlPort unix:/d/control", "CookieAuthentication 1", "SocksPort unix:/d/socks IsolateSOCKSAuth ExtendedErrors",
		"HiddenServiceDir /s", "HiddenServicePort 80 unix:/p/http", "HiddenServiceNumIntroductionPoints 7", "HiddenServiceOnionBalanceInstance 1",
		"HiddenServiceEnableIntroDoSDefense 1", "HiddenServiceExportCircuitID haproxy", "HiddenServiceMaxStreams 64", "HiddenServiceMaxStreamsCloseCircuit 1", "HiddenServiceDir /n", "HiddenServicePort 7000 127.0.0.1:7000",
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %q", line)
		}
	}
	if n := strings.Count(text, "OnionBalanceInstance"); n != 1 {
		t.Errorf("%d instances", n)
	}
	if !strings.HasSuffix(text, "\nSafeLogging 0\n") {
		t.Error("further lines are not last")
	}
}

// TestRefused: nothing of the configuration can become a line of its own.
func TestRefused(t *testing.T) {
	service := func(change func(*Service)) Options {
		s := Service{Dir: "/s", Ports: []Port{{80, "127.0.0.1:80"}}}
		change(&s)
		return Options{Dir: "/d", Services: []Service{s}}
	}
	for want, o := range map[string]Options{
		"no absolute path":       {Dir: "d"},
		"a torrc cannot hold":    {Dir: "/d\nControlPort 1"},
		"longer than 100 bytes":  {Dir: "/" + strings.Repeat("d", 100)},
		"more than one":          {Dir: "/d", Torrc: []string{"A 1\nB 2"}},
		"takes no services":      {Attach: &Attach{Control: "unix:/c", Socks: "unix:/s"}, Torrc: []string{"x"}},
		"neither unix:/path nor": {Attach: &Attach{Control: "nonsense", Socks: "unix:/s"}},
		"has no port":            service(func(s *Service) { s.Ports = nil }),
		"not in 1-65535":         service(func(s *Service) { s.Ports[0].Virtual = 0 }),
		"target of the onion":    service(func(s *Service) { s.Ports[0].Target = "127.0.0.1:80\nX" }),
		"56 characters":          service(func(s *Service) { s.Masters = []string{"x.onion"} }),
		"not in 3-10":            service(func(s *Service) { s.IntroPoints = 11 }),
		"52 characters":          service(func(s *Service) { s.Clients = map[string]string{"a": "b"} }),
		"client \"../x\"":        service(func(s *Service) { s.Clients = map[string]string{"../x": strings.Repeat("A", 52)} }),
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestPrepare(t *testing.T) {
	dir := t.TempDir()
	o := Options{Dir: filepath.Join(dir, "tor"), Services: []Service{{
		Dir: filepath.Join(dir, "s"), Ports: []Port{{80, "127.0.0.1:80"}}, Masters: []string{testAddress},
		Clients: map[string]string{"ann": strings.Repeat("A", 52)},
	}}}
	s := &o.Services[0]
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(s.Dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return string(text)
	}
	if err := o.prepare(); err != nil {
		t.Fatal(err)
	}
	if got := read("ob_config"); got != "MasterOnionAddress "+testAddress+"\n" {
		t.Errorf("ob_config %q", got)
	}
	if got := read("authorized_clients/ann.auth"); got != "descriptor:x25519:"+strings.Repeat("A", 52)+"\n" {
		t.Errorf("client %q", got)
	}
	s.Masters, s.Clients = nil, nil
	if err := o.prepare(); err != nil {
		t.Fatal(err)
	}
	if read("ob_config") != "" || read("authorized_clients/ann.auth") != "" {
		t.Error("what is no longer wanted stays")
	}
	if err := os.Chmod(s.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := o.prepare(); err == nil || !strings.Contains(err.Error(), "hint: chmod 700") {
		t.Errorf("open directory: %v", err)
	}
}

func TestVersions(t *testing.T) {
	for v, want := range map[string]bool{
		"0.4.9.11": true, "0.4.7.1-alpha": true, "0.4.8.1 (git-1)": true, "1.0.0": true, "0.5.0.1": true,
		"0.4.6.12": false, "0.3.5.8": false, "": false, "garbage": false,
	} {
		if newEnough(v) != want {
			t.Errorf("%q: %t", v, !want)
		}
	}
}

// TestWatchdog starts programs that are no working tor.
func TestWatchdog(t *testing.T) {
	script := func(text string) string {
		name := filepath.Join(t.TempDir(), "tor")
		if err := os.WriteFile(name, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
		return name
	}
	version := `[ "$1" = --version ] && echo "Tor version 0.4.9.11." && exit 0` + "\n"
	for _, c := range []struct {
		name, program, want string
		state               State
		restarts            int
	}{
		{"missing", "/nonexistent/tor", "tor is not installed (hint: apt install tor", StateFaulty, 0},
		{"too old", script("echo Tor version 0.4.5.10."), "older than 0.4.7 (hint:", StateFaulty, 0},
		{"no tor", script("echo hello"), `says "hello"`, StateFaulty, 0},
		{"bad torrc", script(version + "echo '[warn] Failed to parse/validate config: x'; echo '[err] Reading config failed'; exit 1"), "refused its configuration", StateFaulty, 0},
		{"dies in a loop", script(version + "echo '[err] no room'; exit 3"), "tor ended (exit status 3): [err] no room", StateDown, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x, err := New(Options{Program: c.program, Dir: filepath.Join(t.TempDir(), "t"), Log: zerolog.Nop(), Jitter: func() float64 { return 0 }})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- x.Run(ctx) }()
			defer func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}()
			for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
				s := x.Status()
				if s.State == c.state && s.Restarts >= c.restarts && strings.Contains(s.Err, c.want) {
					return
				}
				if time.Now().After(end) {
					t.Fatalf("status %+v", s)
				}
			}
		})
	}
}

func TestIntroCircuits(t *testing.T) {
	id := strings.TrimSuffix(testAddress, ".onion")
	text := "12 BUILT $" + hsdirB + "~b,$" + hsdirA + "~a BUILD_FLAGS=IS_INTERNAL PURPOSE=HS_SERVICE_INTRO HS_STATE=HSSI_ESTABLISHED REND_QUERY=" + id + " TIME_CREATED=x\n" +
		"13 BUILT $" + hsdirB + "~b PURPOSE=HS_SERVICE_INTRO HS_STATE=HSSI_CONNECTING REND_QUERY=" + id + "\n" +
		"14 LAUNCHED PURPOSE=HS_SERVICE_INTRO\n15 BUILT garbage PURPOSE=HS_SERVICE_INTRO HS_STATE=HSSI_ESTABLISHED REND_QUERY=" + id + "\n\n16 BUILT\n"
	want := []introCircuit{
		{IntroCircuit{testAddress, hsdirA}, "12", hsdirB, true, true},
		{IntroCircuit{testAddress, hsdirB}, "13", "", true, false},
		{IntroCircuit{testAddress, ""}, "15", "", true, true},
	}
	if got := introCircuits(text); !slices.Equal(got, want) {
		t.Errorf("circuits %v, want %v", got, want)
	}
}

func TestPostCommand(t *testing.T) {
	got, err := postCommand(testAddress, []string{hsdirA}, "a\n.b\nc\n")
	want := "+HSPOST SERVER=" + hsdirA + " HSADDRESS=" + strings.TrimSuffix(testAddress, ".onion") + "\r\na\r\n..b\r\nc\r\n."
	if err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	for name, f := range map[string]func() (string, error){
		"no server":   func() (string, error) { return postCommand(testAddress, nil, "a") },
		"bad server":  func() (string, error) { return postCommand(testAddress, []string{"x\r\nQUIT"}, "a") },
		"bad address": func() (string, error) { return postCommand("x", []string{hsdirA}, "a") },
		"empty":       func() (string, error) { return postCommand(testAddress, []string{hsdirA}, "\n") },
		"stray CR":    func() (string, error) { return postCommand(testAddress, []string{hsdirA}, "a\r.\r\n") },
	} {
		if _, err := f(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
