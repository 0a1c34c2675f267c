package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/skein-project/skein/web"
)

// guest is how many iterations a second a module does in a page that lets a browser work,
// beyond what a chunk of one iteration takes.
func (m *measuring) guest(browser context.Context) error {
	module, err := os.ReadFile(m.module)
	if err != nil {
		return err
	}
	link, end, err := m.office(module)
	if err != nil {
		return err
	}
	defer end()
	ctx, close, err := open(browser, link, "")
	if err != nil {
		return err
	}
	defer close()
	if err := until(ctx, "window.rate"); err != nil {
		return err
	}
	sum := sha256.Sum256(module)
	perSecond, err := of[float64](ctx, fmt.Sprintf("rate(%q, %d)", hex.EncodeToString(sum[:]), m.span.Milliseconds()))
	if err != nil {
		return err
	}
	m.note("guest", perSecond)
	return nil
}

// rate is the script of the page. A chunk takes half of the span at least.
const rate = `import { run } from "./%s";
window.rate = async (artefact, span) => {
	const module = new Uint8Array(await (await fetch("/module")).arrayBuffer());
	const timed = async (n) => {
		const task = {
			ref: { job: "measured", chunk: 0, attempt: 1 }, offset: "0", iterations: String(n),
			spec: { artefact, iterations: String(n), chunk: String(n), seed: "0", memory_bytes: String(256 << 20), timeout_seconds: 600 },
		};
		const began = performance.now();
		const out = await run(task, module, new Uint8Array(0), () => {});
		if (!out.output) throw new Error(out.error);
		return performance.now() - began;
	};
	await timed(1); // compiles it
	const one = await timed(1);
	for (let n = 10000; ; n *= 4) {
		const took = await timed(n);
		if (took > one && took >= span / 2) return n / (took - one) * 1000;
	}
};`

// office serves a page that has the scripts of the portal's worker, under its policy.
func (m *measuring) office(module []byte) (link string, end func(), err error) {
	found, err := filepath.Glob(filepath.Join(m.scripts, "work-*.js"))
	if err != nil || len(found) != 1 {
		return "", nil, fmt.Errorf("no script of the worker in %s: %v, %w", m.scripts, found, err)
	}
	mux := http.NewServeMux()
	give := func(kind, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			fmt.Fprint(w, text)
		}
	}
	mux.HandleFunc("GET /{$}", give("text/html; charset=utf-8", `<!doctype html><title>work</title><script type="module" src="/scripts/rate.js"></script>`))
	mux.HandleFunc("GET /scripts/rate.js", give("text/javascript", fmt.Sprintf(rate, filepath.Base(found[0]))))
	mux.HandleFunc("GET /module", give("application/wasm", string(module)))
	mux.Handle("GET /scripts/", http.StripPrefix("/scripts/", http.FileServer(http.Dir(m.scripts))))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", web.PortalPolicy)
		mux.ServeHTTP(w, r)
	}))
	return server.URL + "/", server.Close, nil
}
