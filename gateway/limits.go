package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/skein-project/skein/internal/bucket"
	"github.com/skein-project/skein/status/door"
)

// Limits. The first ones are of an address (of IPv6, a network of 64 bits), the others of
// a worker or of an access token.
const (
	limitAddress = iota
	limitRegister
	limitClaim
	limitProof
	limitToken
	limitGuess
	limitOwner
)

var limits = [...]struct {
	name string
	bucket.Rate
}{
	limitAddress:  {"address", bucket.Rate{PerSecond: 20, Burst: 200}},
	limitRegister: {"register", bucket.Rate{PerSecond: 5.0 / 3600, Burst: 5}}, // without an access token
	limitClaim:    {"claim", bucket.Rate{PerSecond: 10.0 / 60, Burst: 10}},
	limitProof:    {"proof", bucket.Rate{PerSecond: 20.0 / 60, Burst: 20}}, // that was refused
	limitToken:    {"token", bucket.Rate{PerSecond: 6.0 / 60, Burst: 6}},
	limitGuess:    {"guess", bucket.Rate{PerSecond: 5.0 / 3600, Burst: 5}}, // of a claim code, that was wrong
	limitOwner:    {"owner", bucket.Rate{PerSecond: 10, Burst: 100}},
}

func newLimits() *bucket.Table {
	rates := make([]bucket.Rate, len(limits))
	for i, l := range limits {
		rates[i] = l.Rate
	}
	return bucket.NewTable(rates...)
}

// from is where a request comes from. Proxies that are trusted say so; of several
// addresses the last counts that none of them has.
func (g *Gateway) from(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	if g.trusted(host) {
		told := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		for i := len(told) - 1; i >= 0 && g.trusted(host); i-- {
			ip, err := netip.ParseAddr(strings.TrimSpace(told[i]))
			if err != nil {
				break
			}
			host = ip.Unmap().String()
		}
	}
	return door.Network(host)
}

func (g *Gateway) trusted(host string) bool {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	for _, p := range g.o.HTTP.Proxies {
		if p.Contains(ip.Unmap()) {
			return true
		}
	}
	return false
}
