package systemd

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func listen(t *testing.T) func() string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return func() string {
		buf := make([]byte, 4096)
		if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
}

func TestMessages(t *testing.T) {
	read := listen(t)
	t.Setenv("WATCHDOG_USEC", "30000000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	n, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n.WatchdogInterval() != 30*time.Second {
		t.Errorf("watchdog interval %s", n.WatchdogInterval())
	}
	for _, step := range []struct {
		call func() error
		want string
	}{
		{func() error { return n.Extend(3 * time.Second) }, "EXTEND_TIMEOUT_USEC=3000000"},
		{func() error { return n.Ready("standby, term 42") }, "READY=1\nSTATUS=standby, term 42"},
		{func() error { return n.Status("two\nREADY=0\nlines") }, "STATUS=two READY=0 lines"},
		{func() error { return n.Status(strings.Repeat("ä", 200)) }, "STATUS=" + strings.Repeat("ä", 128)},
		{n.Watchdog, "WATCHDOG=1"},
		{func() error { return n.Stopping("handing over") }, "STOPPING=1\nSTATUS=handing over"},
	} {
		if err := step.call(); err != nil {
			t.Fatal(err)
		}
		if got := read(); got != step.want {
			t.Errorf("sent %q, want %q", got, step.want)
		}
	}
}

func TestWithoutManager(t *testing.T) {
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		t.Setenv(name, "")
	}
	n, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n.WatchdogInterval() != 0 {
		t.Errorf("watchdog interval %s without manager", n.WatchdogInterval())
	}
	if err := n.Ready("x"); err != nil {
		t.Error(err)
	}
	sent := 0
	n, err = New(Options{Send: func(string) (bool, error) { sent++; return true, nil }})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Watchdog(); err != nil || sent != 0 {
		t.Errorf("watchdog nobody asked for: %d messages, %v", sent, err)
	}
}

func TestFaults(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "nobody"))
	n, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Ready("x"); err == nil {
		t.Error("a dead socket is no error")
	}
	t.Setenv("WATCHDOG_USEC", "soon")
	if _, err := New(Options{}); err == nil {
		t.Error("WATCHDOG_USEC=soon is no error")
	}
	if _, err := New(Options{WatchdogInterval: -1}); err == nil {
		t.Error("a negative interval is no error")
	}
}
