package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster/event"
)

// Gateway is [gateway]: where workers that no host runs, and their owners, reach this host.
type Gateway struct {
	Listen netip.AddrPort // not valid: nowhere
	// URL is where they reach it, without a path; never empty where Listen is valid.
	URL string
	// TLSCert and TLSKey are PEM files; empty: plain HTTP.
	TLSCert, TLSKey string
	// Proxies are whose word on where a request comes from is taken.
	Proxies []netip.Prefix
	// Origins are those of web pages that may ask through a browser.
	Origins []string
	// MaxClients bounds the connections.
	MaxClients int
	// Store is where workers are kept that are attached: StoreMemory or StoreRedis.
	Store string
	// Push is who keeps their connections: PushEmbedded or PushCentrifugo.
	Push string
	// InternalListen is where Centrifugo asks; not valid: nowhere.
	InternalListen netip.AddrPort
}

const maxProxies = 32

func gatewayKeys() []key {
	return []key{
		valueKey("gateway.listen", func(c *Fixed) *netip.AddrPort { return &c.Gateway.Listen }, optional(parseListen), showAddr,
			"Where workers that no host runs, and their owners, reach this host, \"ip:port\":",
			"docs/gateway.md. Without tls_cert only on a loopback, mesh or other private address.",
			"Empty: nowhere."),
		stringKey("gateway.url", func(c *Fixed) *string { return &c.Gateway.URL }, checkGatewayURL,
			"Where they reach it by name, as \"https://gw.example.org\". Requests are signed for this host",
			"name. Gateways of one Redis may have the same, others must not. Empty: the address of listen."),
		stringKey("gateway.tls_cert", func(c *Fixed) *string { return &c.Gateway.TLSCert }, optionalPath,
			"PEM file of the certificate and its chain. Empty: plain HTTP."),
		stringKey("gateway.tls_key", func(c *Fixed) *string { return &c.Gateway.TLSKey }, optionalPath,
			"PEM file of its key."),
		valueKey("gateway.trusted_proxies", func(c *Fixed) *[]netip.Prefix { return &c.Gateway.Proxies }, parseProxies, showPrefixes,
			"Proxies before it, addresses or networks, separated by commas: their X-Forwarded-For says",
			"where a request comes from, which limits go by. Of all others it is ignored."),
		valueKey("gateway.allowed_origins", func(c *Fixed) *[]string { return &c.Gateway.Origins }, parseOrigins, func(list []string) string { return strings.Join(list, ", ") },
			"Web pages of other origins that may use it from a browser, separated by commas."),
		intKey("gateway.max_clients", func(c *Fixed) *int { return &c.Gateway.MaxClients }, 1, 1_000_000,
			"Connections at once, 64 of one address at most; more are closed."),
		valueKey("gateway.store", func(c *Fixed) *string { return &c.Gateway.Store }, oneOf(StoreMemory, StoreRedis), func(s string) string { return s },
			"Where the workers are kept that are attached: \"memory\" of this host, or the \"redis\" of [redis],",
			"which several gateways share: docs/scale-out.md."),
		valueKey("gateway.push", func(c *Fixed) *string { return &c.Gateway.Push }, oneOf(PushEmbedded, PushCentrifugo), func(s string) string { return s },
			"Who keeps the workers' connections: \"embedded\" in this process, or the \"centrifugo\" of",
			"[centrifugo], which needs store = \"redis\": docs/scale-out.md."),
		valueKey("gateway.internal_listen", func(c *Fixed) *netip.AddrPort { return &c.Gateway.InternalListen }, optional(parseListen), showAddr,
			"Where Centrifugo asks this host on behalf of workers, \"ip:port\", without TLS: a loopback, mesh",
			"or other private address that only Centrifugo reaches."),
	}
}

func checkGatewayURL(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" ||
		s != u.Scheme+"://"+u.Host || s != strings.ToLower(s) || len(s) > event.MaxGatewayURL {
		return fmt.Errorf("%.64q is not the address of a gateway: want https://HOST or https://HOST:PORT, in lower case", s)
	}
	return nil
}

func parseProxies(s string) ([]netip.Prefix, error) {
	out := []netip.Prefix{}
	for one := range strings.SplitSeq(s, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		p, err := netip.ParsePrefix(one)
		if a, addrErr := netip.ParseAddr(one); addrErr == nil && a.Zone() == "" {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil || p.Bits() == 0 {
			return nil, fmt.Errorf("%.64q is neither an address nor a network", one)
		}
		out = append(out, p.Masked())
	}
	if len(out) > maxProxies {
		return nil, fmt.Errorf("%d proxies, at most %d are allowed", len(out), maxProxies)
	}
	return slices.Compact(out), nil
}

func showPrefixes(list []netip.Prefix) string {
	var out []string
	for _, p := range list {
		out = append(out, p.String())
	}
	return strings.Join(out, ", ")
}

// checkGateway looks at the keys of [gateway] together.
func (c *Config) checkGateway() *Error {
	g := &c.Gateway
	tls := g.TLSCert != ""
	switch addr := g.Listen.Addr(); {
	case tls != (g.TLSKey != ""):
		return &Error{Key: "gateway.tls_cert", Msg: "gateway.tls_cert and gateway.tls_key belong together", Hint: "give both, or neither"}
	case !g.Listen.IsValid():
		return nil
	case !tls && !addr.IsLoopback() && !meshAddr(addr):
		return &Error{
			Key: "gateway.listen", Msg: g.Listen.String() + " is neither a loopback nor a private address, and there is no certificate",
			Hint: "set gateway.tls_cert and gateway.tls_key, or put a proxy that has one before a private address",
		}
	case g.URL == "" && addr.IsUnspecified():
		return &Error{Key: "gateway.listen", Msg: "nobody can know by which address clients reach " + g.Listen.String(), Hint: "set gateway.url, as to https://gw.example.org"}
	}
	if g.URL == "" {
		g.URL = "http://" + g.Listen.String()
		if tls {
			g.URL = "https://" + g.Listen.String()
		}
	}
	if tls && !strings.HasPrefix(g.URL, "https://") {
		return &Error{Key: "gateway.url", Msg: g.URL + " is plain HTTP, and there is a certificate", Hint: "begin it with https://"}
	}
	if !tls && strings.HasPrefix(g.URL, "https://") && len(g.Proxies) == 0 {
		return &Error{Key: "gateway.url", Msg: g.URL + " wants TLS, and there is no certificate", Hint: "set gateway.tls_cert and gateway.tls_key, or in gateway.trusted_proxies the proxy that has one"}
	}
	return nil
}
