package engine

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/quic-go/quic-go/http3"

	"github.com/skein-project/skein/internal/faketarget"
	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/stat"
)

// HTTP/1.1 and HTTP/2, with TLS and without, over real sockets: what is asked for is
// what is spoken, and each way to use connections makes as many as it says.
func TestProtocols(t *testing.T) {
	for _, c := range []struct {
		version, connections string
		secure               bool // the target has TLS, and HTTP/2 with it
		spoken               int
		class                load.Class
	}{
		{"1.1", "user", false, 1, load.OK},
		{"1.1", "user", true, 1, load.OK},
		{"auto", "user", false, 1, load.OK},
		{"auto", "user", true, 2, load.OK},
		{"auto", "shared", true, 2, load.OK},
		{"2", "shared", true, 2, load.OK},
		{"2", "request", true, 2, load.OK},
		{"h2c", "shared", false, 2, load.OK},
		{"h2c", "user", false, 2, load.OK},
		{"1.1", "request", true, 1, load.OK},
		{"1.1", "shared", false, 1, load.OK},
		{"3", "user", true, 3, load.OK},
		{"3", "shared", true, 3, load.OK},
		{"3", "request", true, 3, load.OK},
		{"auto", "user", true, 0, load.TLSVerify}, // no root is given
		{"3", "user", true, 0, load.TLSVerify},
	} {
		name := fmt.Sprintf("%s %s tls=%t %s", c.version, c.connections, c.secure, c.class)
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			conns, spoken := map[string]bool{}, map[int]int{}
			target := faketarget.New()
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				conns[r.RemoteAddr] = true
				spoken[r.ProtoMajor]++
				mu.Unlock()
				target.ServeHTTP(w, r)
			}))
			var p http.Protocols
			p.SetHTTP1(true)
			p.SetUnencryptedHTTP2(true)
			p.SetHTTP2(true)
			s.Config.Protocols = &p
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			o := Options{PlainTime: true}
			if c.secure {
				s.EnableHTTP2 = true
				s.StartTLS()
				o.TLS = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
				if c.class == load.OK {
					o.TLS.RootCAs.AddCert(s.Certificate())
				}
			} else {
				s.Start()
			}
			defer s.Close()
			url := s.URL
			if c.version == "3" {
				socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				url = "https://" + socket.LocalAddr().String()
				three := &http3.Server{Handler: s.Config.Handler, TLSConfig: http3.ConfigureTLSConfig(s.TLS)}
				go three.Serve(socket) //nolint:errcheck // it ends with the test
				defer socket.Close()
				defer three.Close()
			}
			o.Plan = planOf(t, fmt.Sprintf(`
traffic.main = { flow = "f", users = 3, for = "150ms", think = "10ms" }
http = { version = %q, connections = %q }
[[flow.f]]
post = "%s/login"
json = { user = "ann" }
extract.token = { json = "$.token" }
check = "status == 200"
[[flow.f]]
name = "pay"
get = "%s/pay"
auth = { bearer = "${token}" }
check = ["status == 200", "header('Content-Type') contains 'json'"]
[[flow.f]]
name = "seen"
get = "%s/cookie"
[[flow.f]]
name = "again"
get = "%s/cookie"
check = "json('$.seen') == true"`, c.version, c.connections, url, url, url, url), load.Inputs{})
			e, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			r, err := e.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			all := r.Whole.All()
			if all.Classes[c.class] < 6 || c.class == load.OK && all.Failed() > 0 {
				t.Fatalf("%v %q", all.Classes, r.Errors)
			}
			mu.Lock()
			defer mu.Unlock()
			if c.class != load.OK {
				return
			}
			n := uint64(spoken[c.spoken])
			if len(spoken) != 1 || n != all.Classes[load.OK] {
				t.Errorf("spoken %v, %d ok", spoken, all.Classes[load.OK])
			}
			if c.connections == "user" && len(conns) != 3 || c.connections == "shared" && len(conns) > 3 || c.connections == "request" && uint64(len(conns)) != n {
				t.Errorf("%d connections for %d requests", len(conns), n)
			}
			if tls := all.Times[stat.TLS].N; c.secure != (tls > 0 || c.spoken == 3) || all.Times[stat.FirstByte].N < n || all.Times[stat.Connect].N < 1 || tls > uint64(max(3, len(conns))) { // several may begin one that all share
				t.Errorf("%d handshakes, %d first bytes, %d connects, %d connections", tls, all.Times[stat.FirstByte].N, all.Times[stat.Connect].N, len(conns))
			}
		})
	}
}

// TestNoProxy: what net/http carries out for the engine asks no variable for a proxy.
func TestNoProxy(t *testing.T) {
	e, err := New(Options{Plan: planOf(t, "traffic.main = { flow = \"f\", users = 1, for = \"1s\" }\n[[flow.f]]\nget = \"http://target.test/\"\n", load.Inputs{})})
	if err != nil {
		t.Fatal(err)
	}
	if tr, is := e.sockets.Transport.(*http.Transport); !is || tr.Proxy != nil {
		t.Error("WebSockets go through a proxy")
	}
}
