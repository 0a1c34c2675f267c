package proxy

import (
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// clientHeaders are what a client could pretend, or what names it: behind tor
// none of it is known. The last two have some frameworks route a request to
// another path than the one that was asked for. Also all that begins with
// forwardedPrefix.
var clientHeaders = []string{
	"forwarded", "x-forwarded", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip", "via",
	"x-original-url", "x-rewrite-url",
}

const forwardedPrefix = "x-forwarded-"

// fromClient reports whether a header is one that only a proxy may set. Behind
// CGI and its kin '_' and '-' are the same.
func fromClient(key string) bool {
	key = strings.ReplaceAll(strings.ToLower(key), "_", "-")
	return strings.HasPrefix(key, forwardedPrefix) || slices.Contains(clientHeaders, key)
}

// names is how the two sides call the same place.
type names struct {
	target []string // hosts of the target, lower case, with and without port
	public string   // host that the client asked for, with its port if it gave one
}

func (n *names) isTarget(host string) bool {
	return slices.Contains(n.target, strings.ToLower(host))
}

// location makes a redirection to the target one to the public address. An
// onion service is plain HTTP outside and authenticated by its address.
func (n *names) location(value string) string {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || !n.isTarget(u.Host) {
		return value
	}
	u.Host = n.public
	if u.Scheme != "" {
		u.Scheme = "http"
	}
	return u.String()
}

// cookie takes the target's domain out of a cookie, which then belongs to the
// host that the client asked for, and Secure, which a browser other than Tor's
// would not send back over plain HTTP.
func (n *names) cookie(value string) string {
	parts := strings.Split(value, ";")
	kept := parts[:1]
	for _, p := range parts[1:] {
		key, v, _ := strings.Cut(strings.TrimSpace(p), "=")
		switch {
		case strings.EqualFold(key, "domain") && n.isTarget(strings.TrimPrefix(strings.TrimSpace(v), ".")):
		case strings.EqualFold(key, "secure"):
		default:
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, ";")
}

// policy replaces the target's origins in a Content-Security-Policy, and drops
// what would make browsers turn requests into HTTPS ones.
func (n *names) policy(value string) string {
	var directives []string
	for d := range strings.SplitSeq(value, ";") {
		words := strings.Fields(d)
		if len(words) == 0 || strings.EqualFold(words[0], "upgrade-insecure-requests") || strings.EqualFold(words[0], "block-all-mixed-content") {
			continue
		}
		for i, w := range words[1:] {
			words[i+1] = n.source(w)
		}
		directives = append(directives, strings.Join(words, " "))
	}
	return strings.Join(directives, "; ")
}

func (n *names) source(word string) string {
	scheme, rest, ok := strings.Cut(word, "://")
	if !ok {
		scheme, rest = "", word
	}
	host, path, slash := strings.Cut(rest, "/")
	if !n.isTarget(host) {
		return word
	}
	out := n.public
	if slash {
		out += "/" + path
	}
	switch strings.ToLower(scheme) {
	case "":
		return out
	case "ws", "wss":
		return "ws://" + out
	}
	return "http://" + out
}

// response rewrites the header of an answer.
func (n *names) response(h http.Header) {
	for _, key := range []string{"Location", "Content-Location"} {
		if v := h.Get(key); v != "" {
			h.Set(key, n.location(v))
		}
	}
	cookies := h["Set-Cookie"]
	for i := range cookies {
		cookies[i] = n.cookie(cookies[i])
	}
	for _, key := range []string{"Content-Security-Policy", "Content-Security-Policy-Report-Only"} {
		for i, v := range h[key] {
			h[key][i] = n.policy(v)
		}
	}
	if v := h.Get("Access-Control-Allow-Origin"); v != "" {
		h.Set("Access-Control-Allow-Origin", n.source(v))
	}
	// It would make browsers refuse the plain HTTP of an onion address, and
	// lead them to an address outside of tor.
	h.Del("Strict-Transport-Security")
	h.Del("Alt-Svc")
}

// request rewrites the header of a request for the target.
func (n *names) request(h http.Header, host string) {
	maps.DeleteFunc(h, func(key string, _ []string) bool { return fromClient(key) })
	for _, key := range []string{"Origin", "Referer"} {
		u, err := url.Parse(h.Get(key))
		if err != nil || u.Host == "" || !strings.EqualFold(u.Host, n.public) {
			continue
		}
		u.Host = host
		h.Set(key, u.String())
	}
}

// both returns a host with and without its port, lower case.
func both(host string) []string {
	host = strings.ToLower(host)
	all := []string{host}
	if bare, _, err := net.SplitHostPort(host); err == nil {
		all = append(all, bare)
	}
	return all
}
