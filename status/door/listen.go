package door

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/internal/certfile"
)

// API is where users, who prove each request, reach this host.
type API struct {
	Listen []netip.AddrPort
	// Open opens an address; inside says that nobody listens in on its way, as on a
	// loopback or in the mesh. All others are for TLS.
	Open func(ctx context.Context, at netip.AddrPort) (l net.Listener, inside bool, err error)
	// TLSCert and TLSKey are PEM files; empty: a certificate made from a key in Dir.
	TLSCert, TLSKey, Dir string
	// Origins are those of web pages that may ask through a browser.
	Origins []string
	// Limit bounds the connections of an address. Name is this host's.
	Limit func(net.Listener) net.Listener
	Name  string
}

// keyFile holds the key of the certificate that this host makes.
const keyFile = "api-key.pem"

// OpenAll opens the addresses, and says how users name them.
func (a API) OpenAll(ctx context.Context) (open []net.Listener, ends []api.Endpoint, err error) {
	var conf *tls.Config
	pin := ""
	for _, at := range a.Listen {
		l, inside, err := a.Open(ctx, at)
		if err != nil {
			CloseAll(open)
			return nil, nil, fmt.Errorf("listen for users on %s: %w", at, err)
		}
		end := api.Endpoint{URL: "http://" + a.shown(l.Addr())}
		limited := a.Limit(l)
		if !inside {
			if conf == nil {
				if conf, pin, err = a.tls(); err != nil {
					CloseAll(append(open, l))
					return nil, nil, err
				}
			}
			limited, end = tls.NewListener(limited, conf), api.Endpoint{URL: "https://" + a.shown(l.Addr()), Pin: pin}
		}
		open = append(open, limited)
		ends = append(ends, end)
	}
	return open, ends, nil
}

// shown is the address that clients use.
func (a API) shown(addr net.Addr) string {
	at, err := netip.ParseAddrPort(addr.String())
	if err == nil && at.Addr().IsUnspecified() {
		return fmt.Sprintf("%s:%d", a.Name, at.Port())
	}
	return addr.String()
}

// tls makes what the listeners speak, and the pin of the certificate's key if this
// host made it.
func (a API) tls() (*tls.Config, string, error) {
	if a.TLSCert != "" {
		cert, err := certfile.Load(a.TLSCert, a.TLSKey, time.Now())
		if err != nil {
			return nil, "", fmt.Errorf("api.tls_cert: %w", err)
		}
		return serverTLS(cert), "", nil
	}
	cert, pin, err := Certificate(filepath.Join(a.Dir, keyFile), a.Name)
	if err != nil {
		return nil, "", fmt.Errorf("certificate for users: %w", err)
	}
	return serverTLS(cert), pin, nil
}

func serverTLS(cert tls.Certificate) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}}
}

// CloseAll closes listeners on which nothing was served.
func CloseAll(list []net.Listener) {
	for _, l := range list {
		_ = l.Close() // nothing was served on it
	}
}

// IdentifyUser is Identify where only users are served.
func IdentifyUser(conn net.Conn, _ string) (Peer, error) {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return Peer{TCP: true, Users: true}, errors.New("address unknown")
	}
	return Peer{TCP: true, Users: true, Addr: host}, nil
}

// CrossOrigin lets pages of the origins that the configuration names ask through a
// browser. It reports whether that was all that was asked.
func (a API) CrossOrigin(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || !slices.Contains(a.Origins, origin) {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "Retry-After")
	h.Add("Vary", "Origin")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE")
	h.Set("Access-Control-Allow-Headers", strings.Join([]string{
		"Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", api.HeaderTimeout,
		access.HeaderKey, access.HeaderTime, access.HeaderNonce, access.HeaderSignature, access.HeaderBody,
	}, ", "))
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
