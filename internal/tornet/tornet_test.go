package tornet

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var network Shared

func TestMain(m *testing.M) { os.Exit(network.Main(m)) }

// TestServed reaches a plain onion service through a client.
func TestServed(t *testing.T) {
	n := network.Get(t)
	backend, err := net.Listen("unix", filepath.Join(t.TempDir(), "backend"))
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	go func() {
		for {
			conn, err := backend.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("served"))
			conn.Close()
		}
	}()
	service := filepath.Join(t.TempDir(), "service")
	begin := time.Now()
	host := n.Run(t, "host", "HiddenServiceDir "+service, "HiddenServicePort 80 unix:"+backend.Addr().String())
	client := n.Client(t, "client")
	t.Logf("two late tors after %s", round(begin))
	name, err := os.ReadFile(filepath.Join(service, "hostname"))
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimSpace(string(name))
	for try := 1; ; try++ {
		conn, err := client.Dial(t.Context(), "a", address+":80")
		if err != nil {
			if time.Since(begin) > time.Minute {
				t.Fatalf("%v\n%s\n%s", err, client.LastLog(), host.LastLog())
			}
			if err := pause(t.Context(), time.Second); err != nil {
				t.Fatal(err)
			}
			continue
		}
		defer conn.Close()
		got := make([]byte, 6)
		if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(got); err != nil || string(got) != "served" {
			t.Fatalf("got %q, %v", got, err)
		}
		t.Logf("served after %s, try %d", round(begin), try)
		break
	}
	if version, err := client.GetInfo("version"); err != nil || version == "" {
		t.Errorf("version %q, %v", version, err)
	}
}
