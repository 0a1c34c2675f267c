package browser

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/skein-project/skein/internal/require"
	"github.com/skein-project/skein/worker/runner"
)

// patience is how long a test waits for what comes within a second on a machine that
// does nothing else.
const patience = time.Minute

func proving() bool { return os.Getenv("SKEIN_PROVE") == "1" }

// paths are of all pages; SKEIN_PROVE=1 adds the tables of the network.
func paths() []string {
	all := []string{"", "network", "network?host=n1", "events", "lease", "jobs", "workflows", "workers", "onion", "zones"}
	if proving() {
		all = append(all, "network?view=matrix", "network?view=links", "network?view=hosts")
	}
	return all
}

// tab is a page in its own browser profile, and what went wrong in it.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string // of the page, without the fragment

	mu    sync.Mutex
	wrong []string
	asked []string
}

// browser is the one that all tests share, each with a profile of its own; it begins
// with the first and ends with the last.
var browser struct {
	once sync.Once
	ctx  context.Context
	err  error
	end  func()
}

// TestMain lets the test binary stand in for a host's program as a runner of guests.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "runner" {
		os.Exit(runner.Main(os.Stdin, os.Stdout, os.Stderr))
	}
	code := m.Run()
	if browser.end != nil {
		browser.end()
	}
	os.Exit(code)
}

func chromium(t *testing.T) context.Context {
	t.Helper()
	browser.once.Do(func() {
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.Headless, chromedp.DisableGPU)
		if os.Geteuid() == 0 {
			options = append(options, chromedp.NoSandbox)
		}
		alloc, stop := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, end := chromedp.NewContext(alloc)
		browser.ctx, browser.end = ctx, func() { end(); stop() }
		browser.err = chromedp.Do(ctx)
	})
	if browser.err != nil {
		t.Fatalf("start Chromium: %v", browser.err)
	}
	return browser.ctx
}

// open opens link in a browser. What the page asks of other hosts, what its policy
// forbids and what its script throws fails the test at its end.
func open(t *testing.T, link string) *tab {
	t.Helper()
	return openWith(t, link, "")
}

// openWith runs a script before those of the page.
func openWith(t *testing.T, link, script string) *tab {
	t.Helper()
	base, _, _ := strings.Cut(link, "#")
	tb := &tab{t: t, base: base}
	ctx, end := chromedp.NewContext(chromium(t), chromedp.WithNewBrowserContext(), chromedp.WithListener(tb.hear))
	t.Cleanup(end)
	tb.ctx = ctx
	// What the policy forbids is told to the page only; it must not be missed.
	watch := `window.__forbidden = []; addEventListener("securitypolicyviolation", (e) => __forbidden.push(e.violatedDirective + " " + e.blockedURI + " " + e.sourceFile)); ` +
		// Where the keyboard went, and by whom.
		`window.__keyboard = []; for (const kind of ["focusin", "focusout"]) addEventListener(kind, (e) => __keyboard.splice(0, __keyboard.length > 30 ? 1 : 0) && ` +
		`__keyboard.push(Math.round(performance.now()) + " " + kind + " " + e.target.outerHTML.slice(0, 60) + " " + new Error().stack.split("\n").slice(2, 6).join(" ")), true); ` + script
	tb.do(func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
		return chromedp.Void{}, err
	})
	if _, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watch}); err != nil {
		t.Fatal(err)
	}
	tb.do(chromedp.EmulateViewport(1280, 900), chromedp.Navigate(link))
	t.Cleanup(tb.judge)
	return tb
}

// as has the failures of a subtest be its own, until what it returns is called.
func (tb *tab) as(t *testing.T) func() {
	was := tb.t
	tb.t = t
	return func() { tb.t = was }
}

func (tb *tab) hear(ev any) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	switch e := ev.(type) {
	case *runtime.EventExceptionThrown:
		tb.wrong = append(tb.wrong, fmt.Sprintf("exception: %s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" {
			for _, a := range e.Args {
				tb.wrong = append(tb.wrong, "console: "+string(a.Value))
			}
		}
	case *network.EventRequestWillBeSent:
		tb.asked = append(tb.asked, e.Request.URL)
	}
}

// judge fails the test for what went wrong in the page.
func (tb *tab) judge() {
	var forbidden []string
	tb.value(`window.__forbidden`, &forbidden)
	tb.mu.Lock()
	defer tb.mu.Unlock()
	for _, f := range append(tb.wrong, forbidden...) {
		tb.t.Errorf("in the page: %s", f)
	}
	for _, url := range tb.asked {
		if !strings.HasPrefix(url, tb.base) {
			tb.t.Errorf("the page asked %s", url)
		}
	}
	if len(tb.asked) == 0 {
		tb.t.Error("no request was noticed")
	}
}

func (tb *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	tb.t.Helper()
	if err := chromedp.Do(tb.ctx, steps...); err != nil {
		tb.t.Fatal(err)
	}
}

// leftPage is what Chromium says of a page that is being left.
const leftPage = "Inspected target navigated or closed"

// value is what an expression is in the page.
func (tb *tab) value(expression string, into any) {
	tb.t.Helper()
	var text string
	var err error
	for range 10 { // asked while one page gives way to the next, it is asked of that one
		text, err = chromedp.Run(tb.ctx, chromedp.Evaluate[string]("JSON.stringify("+expression+")"))
		if err == nil || !strings.Contains(err.Error(), leftPage) {
			break
		}
		time.Sleep(30 * time.Millisecond)
	}
	if err != nil {
		tb.t.Fatalf("%s: %v", expression, err)
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		tb.t.Fatalf("%s is %s: %v", expression, text, err)
	}
}

func (tb *tab) text(selector string) string {
	tb.t.Helper()
	var s string
	tb.value(fmt.Sprintf(`[...document.querySelectorAll(%q)].map((e) => e.textContent).join("\n")`, selector), &s)
	return s
}

// until polls an expression until it is true.
func (tb *tab) until(what, expression string) {
	tb.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		var ok bool
		tb.value("!!("+expression+")", &ok)
		if ok {
			return
		}
		if time.Now().After(deadline) {
			var at, came string
			tb.value(`document.activeElement.outerHTML.slice(0, 200) + "; the tab is " + document.visibilityState`, &at)
			tb.value(`__keyboard.join("\n")`, &came)
			tb.t.Fatalf("not within %s: %s; the keyboard is at %s\nwhere it was:\n%s\n%s", patience, what, at, came, tb.text("#app, #state"))
		}
		time.Sleep(30 * time.Millisecond)
	}
}

// says waits until the page shows every text.
func (tb *tab) says(texts ...string) {
	tb.t.Helper()
	for _, s := range texts {
		tb.until(fmt.Sprintf("the page says %q", s), fmt.Sprintf(`document.body.textContent.includes(%q)`, s))
	}
}

// at goes to a page.
func (tb *tab) at(path string) {
	tb.t.Helper()
	var ok bool
	tb.value(fmt.Sprintf(`(location.hash = "#/" + %q, true)`, path), &ok)
	want, _, _ := strings.Cut(path, "?")
	want, _, _ = strings.Cut(want, "/")
	if want == "" {
		want = "overview"
	}
	tb.until("page "+want, fmt.Sprintf(`document.querySelector("h1")?.textContent.toLowerCase() === %q && !document.querySelector(".loading")`, want))
}

// look sets colours and width.
func (tb *tab) look(colours string, width int64) {
	tb.t.Helper()
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: colours}, {Name: "prefers-reduced-motion", Value: "reduce"}}
	if _, err := chromedp.Call(tb.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		tb.t.Fatal(err)
	}
	tb.do(chromedp.EmulateViewport(width, 900))
}

func axe(t *testing.T) string {
	t.Helper()
	zip, err := os.ReadFile(filepath.Join("testdata", "axe.min.js.gz"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(zip))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// look is how the page is seen.
type look struct {
	colours string
	width   int64
}

// looks have both colours and both widths; SKEIN_PROVE=1 has each with each.
func looks() []look {
	some := []look{{"light", 1280}, {"dark", 360}}
	if proving() {
		some = append(some, look{"light", 360}, look{"dark", 1280})
	}
	return some
}

// axeRun is what axe finds wrong.
const axeRun = `axe.run(document.querySelector("dialog[open]") ?? document, {resultTypes: ["violations"]}).then((r) => JSON.stringify(r.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.html.slice(0, 200) + " " + n.failureSummary).join(" | "))))`

// accessible has axe judge what the page shows.
func (tb *tab) accessible(paths []string, seen ...look) {
	tb.t.Helper()
	tb.run(axe(tb.t) + "; 1")
	for _, l := range seen {
		tb.look(l.colours, l.width)
		for _, path := range paths {
			tb.at(path)
			text, err := chromedp.Run(tb.ctx, chromedp.Evaluate[string](axeRun, chromedp.EvalAwaitPromise))
			if err != nil {
				tb.t.Fatal(err)
			}
			if text != "[]" {
				tb.t.Errorf("%s, %d px, #/%s: %s", l.colours, l.width, path, text)
			}
			var over bool
			if tb.value(`document.documentElement.scrollWidth > innerWidth`, &over); over {
				tb.t.Errorf("%s, %d px, #/%s is wider than the screen", l.colours, l.width, path)
			}
		}
	}
	tb.look("light", 1280)
}

func (tb *tab) run(script string) {
	tb.t.Helper()
	if _, err := chromedp.Run(tb.ctx, chromedp.Evaluate[int](script)); err != nil {
		tb.t.Fatal(err)
	}
}

func needBrowser(t *testing.T) {
	t.Helper()
	require.Need(t, require.Web)
}
