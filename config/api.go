package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// API is [api]: where users, who prove each request, reach this host.
type API struct {
	Listen []netip.AddrPort
	// TLSCert and TLSKey are PEM files; empty: a certificate of this host's own.
	TLSCert, TLSKey string
	// Bearer is what tokens of users are good for: off, read or all.
	Bearer string
	// Origins are those of web pages that may ask through a browser.
	Origins []string
	// Names are further ones of this host, in lower case, that requests may be signed for.
	Names []string
}

// Limits of [api].
const (
	maxAPIListen = 8
	maxOrigins   = 16
	maxAPINames  = 16
)

func apiKeys() []key {
	return []key{
		spec[Fixed]{
			name: "api.listen", kind: "a list of strings",
			doc: []string{
				"Where users reach the API, \"ip:port\" each, at most 8: docs/access.md. Every request",
				"proves who asks. On loopback and mesh addresses it is plain HTTP, elsewhere TLS 1.3.",
				"Empty: nowhere.",
			},
			set: func(c *Fixed, v any) (err error) {
				c.API.Listen, err = parseAPIListen(v)
				return err
			},
			parse: func(s string) (any, error) { return splitList(s), nil },
			show:  func(c *Fixed) string { return showEndpoints(c.API.Listen) },
		}.key(),
		stringKey("api.tls_cert", func(c *Fixed) *string { return &c.API.TLSCert }, optionalPath,
			"PEM file of the certificate and its chain. Empty: this host makes one, whose key clients",
			"pin as `skein user add` prints it."),
		stringKey("api.tls_key", func(c *Fixed) *string { return &c.API.TLSKey }, optionalPath,
			"PEM file of its key."),
		valueKey("api.bearer", func(c *Fixed) *string { return &c.API.Bearer }, oneOf("off", "read", "all"), func(s string) string { return s },
			"What tokens of `skein auth token` are good for: off, read, or all requests. Who reads one",
			"on its way may use it until it ends; a signed request can be used once. The holder's setting",
			"decides on what it carries out: set it alike on all hosts that may hold the lease."),
		valueKey("api.origins", func(c *Fixed) *[]string { return &c.API.Origins }, parseOrigins, func(list []string) string { return strings.Join(list, ", ") },
			"Web pages that may use the API from a browser, like \"https://portal.example.org\",",
			"separated by commas. Empty: none."),
		valueKey("api.names", func(c *Fixed) *[]string { return &c.API.Names }, parseAPINames, func(list []string) string { return strings.Join(list, ", ") },
			"Further names and addresses of this host, without ports, separated by commas: a request must",
			"be signed for the host that it asks. Its own name and the address that was asked always are",
			"good; those of a balancer or behind NAT are not unless they stand here. A name that several",
			"hosts have lets a request for one be shown to each of them once."),
	}
}

// parseAPINames reads names of hosts and addresses that are separated by commas.
func parseAPINames(s string) ([]string, error) {
	out := []string{}
	for one := range strings.SplitSeq(s, ",") {
		if one = strings.ToLower(strings.TrimSpace(one)); one == "" {
			continue
		}
		if ip, err := netip.ParseAddr(one); err == nil && ip.Zone() == "" {
			one = ip.String()
		} else if len(one) > 253 || !apiName.MatchString(one) {
			return nil, fmt.Errorf("%.64q is not a name or an address of a host: want both without scheme and port", one)
		}
		out = append(out, one)
	}
	if len(out) > maxAPINames {
		return nil, fmt.Errorf("%d names, at most %d are allowed", len(out), maxAPINames)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

var apiName = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_]([a-z0-9_-]{0,62}))*$`)

// parseOrigins reads origins (RFC 6454) that are separated by commas.
func parseOrigins(s string) ([]string, error) {
	out := []string{}
	for one := range strings.SplitSeq(s, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		u, err := url.Parse(one)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || one != u.Scheme+"://"+u.Host {
			return nil, fmt.Errorf("%.64q is not an origin: want https://HOST or https://HOST:PORT", one)
		}
		out = append(out, one)
	}
	if len(out) > maxOrigins {
		return nil, fmt.Errorf("%d origins, at most %d are allowed", len(out), maxOrigins)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// parseAPIListen reads addresses to listen on.
func parseAPIListen(v any) ([]netip.AddrPort, error) {
	list, err := texts(v, maxAPIListen)
	out := make([]netip.AddrPort, 0, len(list))
	for _, s := range list {
		a, err := parseListen(s)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, err
}

// checkAPI looks at the keys of [api] together.
func (c *Config) checkAPI() *Error {
	if (c.API.TLSCert == "") != (c.API.TLSKey == "") {
		return &Error{Key: "api.tls_cert", Msg: "api.tls_cert and api.tls_key belong together", Hint: "give both, or neither"}
	}
	return nil
}
