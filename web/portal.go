package web

import (
	"embed"
	"net/http"
	"net/url"
	"strings"
)

// What tests alone load of web/worker stays out.
//
//go:embed worker/dist/index.html worker/dist/portal-* worker/dist/part-* worker/dist/inside-*
var portal embed.FS

// PortalPolicy is what the page of Portal may load and ask: its own files, which may compile
// WebAssembly, and the gateway that served it.
const PortalPolicy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; " + askGateway + "; style-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types skein-worker"

const askGateway = "connect-src 'self'"

// portalPolicy is PortalPolicy for a page that connects to realtime as well.
func portalPolicy(realtime string) string {
	u, err := url.Parse(realtime)
	if err != nil || u.Host == "" {
		return PortalPolicy
	}
	return strings.Replace(PortalPolicy, askGateway, askGateway+" "+u.Scheme+"://"+u.Host, 1)
}

// Portal serves the page on which somebody lets a browser work, at "/", and its files. It
// connects to realtime, or, if that is empty, to the gateway that serves it.
func Portal(realtime string) (http.Handler, error) {
	policy := portalPolicy(realtime)
	files, err := assets(portal, "worker/dist")
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path
		if name == "/" {
			name = "/index.html"
		}
		file, ok := files[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		file.immutable = name != "/index.html" // the others bear a hash
		file.serve(w, r)
	}), nil
}
