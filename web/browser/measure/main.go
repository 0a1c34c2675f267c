package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/profiler"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// noBrowser is the exit code when there is no Chromium.
const noBrowser = 3

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// measuring is what is measured, and how much.
type measuring struct {
	rounds, hosts, events int
	span                  time.Duration
	module, scripts       string
	got                   map[string][]float64
}

func run(ctx context.Context, args []string) int {
	m := measuring{got: map[string][]float64{}}
	flags := flag.NewFlagSet("measure", flag.ContinueOnError)
	flags.IntVar(&m.rounds, "rounds", 5, "how often")
	flags.IntVar(&m.hosts, "hosts", 500, "of the large cluster")
	flags.IntVar(&m.events, "events", 100_000, "that the page knows")
	flags.DurationVar(&m.span, "for", 3*time.Second, "for how long frames are counted, or iterations")
	flags.StringVar(&m.module, "module", "", "file of the guest")
	flags.StringVar(&m.scripts, "scripts", "../worker/dist", "folder of the scripts that run it")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.Headless, chromedp.DisableGPU)
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	alloc, stop := chromedp.NewExecAllocator(ctx, options...)
	defer stop()
	browser, end := chromedp.NewContext(alloc)
	defer end()
	if err := chromedp.Do(browser); err != nil {
		fmt.Fprintln(os.Stderr, "measure: start Chromium:", err)
		return noBrowser
	}
	var err error
	if flags.Arg(0) == "follow" {
		err = follow(browser, flags.Arg(1), os.Stdin, os.Stdout)
	} else {
		err = m.all(browser, flags.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		return 1
	}
	return 0
}

func (m *measuring) all(browser context.Context, what []string) error {
	known := map[string]func(context.Context) error{"paint": m.paint, "network": m.network, "events": m.log, "guest": m.guest}
	for _, name := range what {
		f := known[name]
		if f == nil {
			return fmt.Errorf("nothing is called %q", name)
		}
		for range m.rounds {
			if err := f(browser); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return json.NewEncoder(os.Stdout).Encode(m.got)
}

func (m *measuring) note(name string, v float64) { m.got[name] = append(m.got[name], v) }

// open opens a link in a browser profile of its own. The script runs before the page's.
func open(browser context.Context, link, script string) (context.Context, func(), error) {
	ctx, end := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
	if err == nil {
		err = chromedp.Do(ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(link))
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	return ctx, end, nil
}

// of evaluates an expression, or waits for the promise that it is.
func of[T any](ctx context.Context, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// until waits until an expression is true.
func until(ctx context.Context, expression string) error {
	_, err := of[bool](ctx, `new Promise((done, failed) => { const end = Date.now() + 60000, look = () => {
		if (`+expression+`) done(true); else if (Date.now() > end) failed(new Error("not within a minute: " + document.body.textContent.slice(0, 500))); else setTimeout(look, 20); }; look(); })`)
	return err
}

// paint is how long a first look takes: until something is drawn, and until the picture is
// that of the cluster.
func (m *measuring) paint(browser context.Context) error {
	link, end, err := newDouble(3).serve()
	if err != nil {
		return err
	}
	defer end()
	ctx, close, err := open(browser, link, `new MutationObserver(() => { if (!window.__synced && document.body?.textContent.includes("holds the lease")) window.__synced = performance.now(); }).observe(document, {subtree: true, childList: true, characterData: true})`)
	if err != nil {
		return err
	}
	defer close()
	if err := until(ctx, `window.__synced && performance.getEntriesByName("first-contentful-paint")[0]`); err != nil {
		return err
	}
	times, err := of[[]float64](ctx, `[performance.getEntriesByName("first-contentful-paint")[0].startTime, window.__synced]`)
	if err != nil {
		return err
	}
	m.note("first paint", times[0])
	m.note("synced", times[1])
	return nil
}

// network is how the picture of a large cluster moves: rows change ten times a second, and
// the pointer is on another host with each frame, which marks its links.
func (m *measuring) network(browser context.Context) error {
	d := newDouble(m.hosts)
	d.more = func(ctx context.Context, say func(string) error) error {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
			}
			var set []fields
			for k := range min(20, m.hosts) {
				set = append(set, member((i*20+k)%m.hosts, float64(i)))
			}
			if err := say(message("delta", fields{"topic": "members", "set": set, "del": []string{}})); err != nil {
				return err
			}
		}
	}
	link, end, err := d.serve()
	if err != nil {
		return err
	}
	defer end()
	ctx, close, err := open(browser, link, "")
	if err != nil {
		return err
	}
	defer close()
	if err := until(ctx, `(location.hash === "#/" && (location.hash = "#/network"), document.querySelectorAll("a.node").length === `+fmt.Sprint(m.hosts)+`)`); err != nil {
		return err
	}
	// The sampling costs time itself: frames are counted without it.
	frames, _, err := m.cross(ctx)
	if err != nil {
		return err
	}
	_, err = chromedp.Call(ctx, profiler.Enable, cdp.Empty{})
	if err == nil {
		_, err = chromedp.Call(ctx, profiler.SetSamplingInterval, profiler.SetSamplingIntervalParams{Interval: 200})
	}
	if err == nil {
		_, err = chromedp.Call(ctx, profiler.Start, cdp.Empty{})
	}
	if err != nil {
		return err
	}
	_, n, err := m.cross(ctx)
	if err != nil {
		return err
	}
	got, err := chromedp.Call(ctx, profiler.Stop, cdp.Empty{})
	if err != nil {
		return err
	}
	m.note("network frames", frames)
	m.note("network script", script(got.Profile)/n)
	return nil
}

// cross has the pointer on another host with each frame, and returns how many frames there
// were, a second and in all.
func (m *measuring) cross(ctx context.Context) (perSecond, all float64, err error) {
	got, err := of[[]float64](ctx, fmt.Sprintf(`new Promise((done, failed) => {
		const all = [...document.querySelectorAll("a.node")], began = performance.now();
		let n = 0, marked = 0;
		const frame = (now) => {
			if (document.querySelector(".edge.dimmed")) marked++;
			if (now - began > %d && n > 0) {
				if (marked) done([n / (now - began) * 1000, n]); else failed(new Error("no link was marked"));
				return;
			}
			all[n %% all.length].dispatchEvent(new MouseEvent("mouseleave"));
			all[++n %% all.length].dispatchEvent(new MouseEvent("mouseenter"));
			requestAnimationFrame(frame);
		};
		requestAnimationFrame(frame);
	})`, m.span.Milliseconds()))
	if err != nil {
		return 0, 0, err
	}
	return got[0], got[1], nil
}

// script is for how many milliseconds scripts ran, with the collection of what they left:
// what Performance.getMetrics calls so lacks what runs between two tasks, as this page's
// drawing does.
func script(p *profiler.Profile) float64 {
	runs := map[int64]bool{}
	for _, n := range p.Nodes {
		switch n.CallFrame.FunctionName {
		case "(root)", "(idle)", "(program)":
		default:
			runs[n.ID] = true
		}
	}
	total := int64(0)
	for i, id := range p.Samples {
		if runs[id] && i < len(p.TimeDeltas) {
			total += p.TimeDeltas[i]
		}
	}
	return float64(total) / 1000
}

// log is how the page of the events is with very many of them.
func (m *measuring) log(browser context.Context) error {
	d := newDouble(3)
	d.more = func(_ context.Context, say func(string) error) error { return log(m.events, say) }
	link, end, err := d.serve()
	if err != nil {
		return err
	}
	defer end()
	ctx, close, err := open(browser, link, "")
	if err != nil {
		return err
	}
	defer close()
	newest := fmt.Sprintf(`document.querySelector("a.time[href='#/events/%s/1/%d']")`, host((m.events-1)%5), 1+(m.events-1)/5)
	if err := until(ctx, newest+` && performance.getEntriesByType("resource").some((e) => e.name.includes("/assets/rest-"))`); err != nil {
		return err
	}
	if _, err := of[bool](ctx, `new Promise((done) => setTimeout(() => done(true), 1000))`); err != nil {
		return err
	}
	// From the change of the address until the rows are there, with the frame that shows them.
	shows := func(hash, ok string) (float64, error) {
		return of[float64](ctx, `new Promise((done, failed) => {
			const began = performance.now();
			location.hash = "`+hash+`";
			const look = () => {
				const rows = [...document.querySelectorAll("main .events li a.kind")].map((e) => e.textContent);
				if (document.querySelector("h1")?.textContent === "Events" && rows.length > 10 && `+ok+`) requestAnimationFrame(() => done(performance.now() - began));
				else if (performance.now() - began > 30000) failed(new Error(rows.length + " rows: " + rows.slice(0, 5)));
				else setTimeout(look, 1);
			};
			look();
		})`)
	}
	load, err := shows("#/events", newest)
	if err != nil {
		return err
	}
	rows, err := of[[]float64](ctx, fmt.Sprintf(`new Promise((done) => {
		const began = performance.now();
		let n = 0, most = 0, blank = 0;
		const frame = (now) => {
			most = Math.max(most, document.querySelectorAll("main .events li").length);
			if (!document.elementFromPoint(innerWidth / 2, innerHeight / 2)?.closest("li")?.querySelector(".kind")) blank++;
			if (now - began > %d) { done([n / (now - began) * 1000, most, blank, n, scrollY]); return; }
			n++;
			scrollBy(0, 120);
			requestAnimationFrame(frame);
		};
		scrollTo(0, document.querySelector(".events").offsetTop);
		requestAnimationFrame(frame);
	})`, m.span.Milliseconds()))
	if err != nil {
		return err
	}
	if rows[2] > rows[3]/4+1 || rows[4] <= 0 {
		return fmt.Errorf("of %.0f frames %.0f show no event, scrolled by %.0f", rows[3], rows[2], rows[4])
	}
	filter, err := shows("#/events?q=kind%3Alease*", `rows.every((k) => k === "lease_released")`)
	if err != nil {
		return err
	}
	if _, err := chromedp.Call(ctx, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
		return err
	}
	heap, err := chromedp.Call(ctx, runtime.GetHeapUsage, cdp.Empty{})
	if err != nil {
		return err
	}
	m.note("events load", load)
	m.note("events filter", filter)
	m.note("events scroll", rows[0])
	m.note("events rows", rows[1])
	m.note("events heap", (heap.UsedSize+heap.BackingStorageSize)/1e6)
	return nil
}

// follow notes when each event was shown: with the first frame after it is in the page.
func follow(browser context.Context, link string, in io.Reader, out io.Writer) error {
	ctx, close, err := open(browser, link, "")
	if err != nil {
		return err
	}
	defer close()
	if err := until(ctx, `(document.body?.textContent.includes("holds the lease") && (location.hash = "#/events"), document.querySelector(".events li"))`); err != nil {
		return err
	}
	if _, err := of[bool](ctx, `(() => {
		window.__shown = {};
		const look = () => {
			const fresh = [...document.querySelectorAll(".events li a.time")].map((a) => a.getAttribute("href").split("?")[0]).filter((k) => !(k in __shown));
			for (const k of fresh) __shown[k] = 0;
			if (fresh.length) requestAnimationFrame(() => setTimeout(() => { for (const k of fresh) __shown[k] = performance.timeOrigin + performance.now(); }));
		};
		look();
		new MutationObserver(look).observe(document.body, {subtree: true, childList: true});
		return true;
	})()`); err != nil {
		return err
	}
	fmt.Fprintln(out, "following")
	_, _ = io.Copy(io.Discard, in) // its end is the sign
	shown, err := of[string](ctx, `JSON.stringify(__shown)`)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, shown)
	return err
}
