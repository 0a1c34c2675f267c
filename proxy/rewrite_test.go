package proxy

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// FuzzRewriting: whatever a target answers, no redirection leads to the target
// itself, nothing is broken into two lines, and a second proxy changes nothing.
func FuzzRewriting(f *testing.F) {
	f.Add("http://127.0.0.1:8080/a?b=c#d", "a=b; Domain=127.0.0.1; Secure", "default-src 'self' https://127.0.0.1:8080 wss://127.0.0.1/x; upgrade-insecure-requests", "https://127.0.0.1")
	f.Add("//127.0.0.1:8080", ";;; domain = .127.0.0.1", ";a;;b 127.0.0.1/", "*")
	f.Add("/next", "=", "", "null")
	f.Add("hTTps://user:pass@127.0.0.1:8080//x", "a", "a http://", "://")
	f.Fuzz(func(t *testing.T, location, cookie, policy, origin string) {
		n := &names{target: both("127.0.0.1:8080"), public: strings.Repeat("a", 56) + ".onion"}
		h := http.Header{
			"Location": {location}, "Set-Cookie": {cookie, cookie}, "Content-Security-Policy": {policy}, "Access-Control-Allow-Origin": {origin},
		}
		before := strings.Count(location+cookie+cookie+policy+origin, "\n")
		n.response(h)
		once := h.Clone()
		var all strings.Builder
		for _, values := range once {
			all.WriteString(strings.Join(values, ""))
		}
		if got := strings.Count(all.String(), "\n"); got > before {
			t.Errorf("%d line feeds became %d: %q", before, got, once)
		}
		if u, err := url.Parse(h.Get("Location")); err == nil && n.isTarget(u.Host) {
			t.Errorf("Location %q leads to the target: %q", location, h.Get("Location"))
		}
		n.response(h)
		for key, values := range once {
			if got := strings.Join(h[key], "|"); got != strings.Join(values, "|") {
				t.Errorf("%s: %q becomes %q when it is rewritten again", key, values, got)
			}
		}
	})
}
