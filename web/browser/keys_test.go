package browser

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/skein-project/skein/api"
)

// unseen is why whoever uses the keyboard does not see where it is; empty: it is seen.
const unseen = `(() => {
	const e = document.activeElement;
	if (!e || e === document.body) return "the keyboard is nowhere";
	const style = getComputedStyle(e), box = e.getBoundingClientRect();
	// A shape has a line around it: a bar any, a host a thick one.
	const drawn = (of, width) => { const s = e.querySelector(of) && getComputedStyle(e.querySelector(of)); return s && s.stroke !== "none" && parseFloat(s.strokeWidth) >= width; };
	const marked = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0 || e.matches(".node") && drawn(".dot", 6) || e.matches(".bar") && drawn("rect", 2);
	return marked && box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight ? "" : "not marked, or out of sight: " + e.outerHTML.slice(0, 200);
})()`

func (tb *tab) press(keys ...string) {
	tb.t.Helper()
	for _, key := range keys {
		tb.do(chromedp.KeyEvent(key))
	}
}

// pressSlowly lets the page act on the key before what the key types comes.
func (tb *tab) pressSlowly(key string) {
	tb.t.Helper()
	for i, e := range kb.Encode([]rune(key)[0]) {
		if i > 0 {
			var frame int
			tb.value(`(drawn = 0, requestAnimationFrame(() => requestAnimationFrame(() => { drawn = 1; })))`, &frame)
			tb.until("it was drawn", `drawn`)
		}
		tb.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, input.DispatchKeyEvent, *e)
			return err
		}))
	}
}

// tabTo presses Tab until the expression is true of the element e that has the keyboard,
// which is seen all the way.
func (tb *tab) tabTo(what, of string) {
	tb.t.Helper()
	for range 200 {
		tb.press(kb.Tab)
		var why string
		if tb.value(unseen, &why); why != "" && why != "the keyboard is nowhere" { // it went round the window
			tb.t.Fatalf("on the way to %s: %s", what, why)
		}
		var there bool
		if tb.value(fmt.Sprintf(`((e) => !!(%s))(document.activeElement)`, of), &there); there {
			return
		}
	}
	tb.t.Fatalf("Tab does not come to %s", what)
}

// on waits until the expression is true of the element e that has the keyboard, and is seen.
func (tb *tab) on(what, of string) {
	tb.t.Helper()
	tb.until("the keyboard is at "+what, fmt.Sprintf(`((e) => %s)(document.activeElement)`, of))
	var why string
	if tb.value(unseen, &why); why != "" {
		tb.t.Errorf("at %s: %s", what, why)
	}
}

// testKeys does with keys alone all that the page does.
func testKeys(t *testing.T, p *tab, hosts []*host, id string) {
	defer p.as(t)()
	title := func(s string) {
		t.Helper()
		p.until("page "+s, fmt.Sprintf(`document.querySelector("h1").textContent === %q && !document.querySelector(".loading")`, s))
	}
	drawer, none := `document.querySelector("aside.drawer")`, `!document.querySelector("aside.drawer")`

	p.at("")
	for i, s := range []string{"Overview", "Network", "Events", "Lease", "Jobs", "Workflows", "Workers", "Onion"} {
		p.press(fmt.Sprint(i + 1))
		title(s)
		p.press("1")
		title("Overview")
		p.tabTo("the link to "+s, fmt.Sprintf(`e.matches("header nav a") && e.textContent.includes(%q)`, s))
		p.press(kb.Enter)
		title(s)
		p.on("its link", fmt.Sprintf(`e.matches("header nav a[aria-current=page]") && e.textContent.includes(%q)`, s))
	}

	// A host in the picture: arrows walk, Enter opens, Escape and the close link go back.
	p.press("2")
	title("Network")
	p.tabTo("a host", `e.matches("a.node[data-node=n1]")`)
	p.press(kb.ArrowRight)
	p.on("the next one", `e.dataset.node === "n2"`)
	p.press(kb.ArrowLeft, kb.ArrowLeft)
	p.on("the last one, around", `e.dataset.node === "n3"`)
	p.press(kb.Enter)
	p.on("what is known of it", `e.matches("aside.drawer") && e.textContent.startsWith("n3")`)
	p.press(kb.Escape)
	p.until("it is closed", none)
	p.on("the host again", `e.dataset.node === "n3"`)
	p.press(kb.Enter)
	p.on("what is known of it", `e.matches("aside.drawer")`)
	p.press(kb.Tab)
	p.on("its close link", `e.matches("aside a.x")`)
	p.press(kb.Enter)
	p.until("it is closed", none)
	p.on("the host again", `e.dataset.node === "n3"`)

	// The same from a row, beside another page than the one where it is closed.
	p.press("7")
	title("Workers")
	p.press("j", "j", "k")
	p.on("the first row", `e.matches("tbody tr:first-child a")`)
	p.press(kb.Enter)
	p.until("a host", drawer)
	p.on("what is known of it", `e.matches("aside.drawer")`)
	p.press("j", "j") // from beside one host to another one
	p.on("the second row", `e.matches("tbody tr:nth-child(2) a")`)
	p.press(kb.Enter)
	p.on("what is known of that one", `e.matches("aside.drawer") && e.textContent.startsWith("n2")`)
	p.press("5")
	title("Jobs")
	p.press(kb.Escape)
	p.until("it is closed", none)

	// A job.
	p.press("j")
	p.on("the first job", `e.matches("tbody tr a")`)
	p.press(kb.Enter)
	p.says("12 accepted")
	p.until("the keyboard is in its page", fmt.Sprintf(`location.hash === "#/jobs/" + %q && document.activeElement.matches("#main")`, id))
	p.tabTo("what leads back", `e.matches("#main a") && e.textContent === "all jobs"`)
	p.press(kb.Enter)
	p.until("all jobs", `location.hash === "#/jobs"`)

	// Looking back.
	p.press("1")
	title("Overview")
	p.tabTo("as of", `e.matches(".tools button[aria-pressed=false]") && e.textContent === "as of"`)
	p.press(kb.Enter)
	p.until("the log was read", `document.querySelector("#replay")`)
	var from string
	back := func() {
		p.tabTo("the slider", `e.matches(".asof input[type=range]")`)
		p.value(`location.hash`, &from)
		p.press(kb.ArrowLeft)
		p.until("an earlier moment", fmt.Sprintf(`location.hash < %q && document.querySelector("#replay") && document.querySelector(".live").textContent.includes("as of")`, from))
		p.on("the slider still", `e.matches(".asof input[type=range]")`)
	}
	const now, live = `e.closest(".asof") && e.textContent === "now"`, `!document.querySelector(".asof") && document.querySelector(".live").textContent.includes("live")`
	back()
	p.tabTo("now", now)
	p.pressSlowly(kb.Enter)
	p.until("it is live", live)
	p.on("as of again", `e.matches(".tools button[aria-pressed=false]") && e.textContent === "as of"`)
	p.press(kb.Enter)
	p.until("the log was read", `document.querySelector("#replay")`)
	back()
	p.tabTo("play", `e.matches(".asof button") && e.textContent.includes("×1")`)
	p.press(kb.Enter)
	p.until("it plays", `document.activeElement.getAttribute("aria-pressed") === "true"`)
	p.press(kb.Enter)
	p.until("it stands", `document.activeElement.getAttribute("aria-pressed") === "false" || !document.querySelector(".asof")`)
	if p.value(`document.querySelector(".asof") ? "past" : "now"`, &from); from == "past" { // it had not come to what is
		p.tabTo("now", now)
		p.press(kb.Enter)
	}
	p.until("it is live", live)
	p.on("as of again", `e.matches(".tools button[aria-pressed=false]") && e.textContent === "as of"`)

	// An action, and what confirms it.
	p.press("7")
	title("Workers")
	button := `e.matches("#main tbody button") && e.closest("tr").textContent.startsWith("n3") && e.textContent === `
	p.tabTo("a button", button+`"Drain"`)
	p.press(kb.Enter)
	p.on("what is to be typed", `e.matches("dialog[open] input")`)
	p.says("skein worker drain n3")
	p.press(kb.Escape)
	p.until("nothing is asked", `!document.querySelector("dialog")`)
	p.on("the button again", button+`"Drain"`)
	p.press(kb.Enter)
	p.on("what is to be typed", `e.matches("dialog[open] input")`)
	p.press("n", "2", kb.Enter)
	p.until("another name confirms nothing", `document.querySelector("dialog button[type=submit]").disabled && !document.querySelector("dialog [role=status]").textContent`)
	p.press(kb.Backspace, "3")
	p.tabTo("what cancels", `e.matches("dialog button") && e.textContent === "Cancel"`)
	p.tabTo("what is typed", `e.matches("dialog input")`)
	p.press(kb.Enter)
	p.until("it is done", `document.querySelector("dialog [role=status]").textContent.includes("Done")`)
	hosts[2].await(t, "draining", func(s api.Status) error {
		if !s.Worker.Draining {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	p.until("a link to its event", `/^#\/events\/n3\/\d+\/\d+$/.test(document.querySelector("dialog p a")?.getAttribute("href"))`)
	p.tabTo("what closes", `e.matches("dialog .buttons button") && e.textContent === "Close"`)
	p.press(kb.Enter)
	p.until("it is closed", `!document.querySelector("dialog")`)
	p.on("the button, which undoes it now", button+`"Undo drain"`)

	// The events.
	p.press("1")
	title("Overview")
	p.press("/")
	p.on("the filter", `e.id === "filter"`)
	p.press("k", "i", "n", "d", ":", "worker_drained", kb.Enter)
	p.until("the event", `location.hash.includes("worker_drained") && document.querySelectorAll(".events li").length === 1 && document.querySelector(".events li").textContent.includes("worker n3 finishes what it has")`)
	p.on("the filter still", `e.id === "filter"`)
	p.press(kb.Escape, "j")
	p.on("the event", `e.matches(".events li a")`)
	p.press("p")
	p.until("it is paused", `[...document.querySelectorAll("main button")].some((b) => b.textContent.startsWith("Follow"))`)
	p.press("p")
	p.until("it follows", `[...document.querySelectorAll("main button")].some((b) => b.textContent === "Pause")`)
	p.press("?")
	p.until("help", `document.querySelector("dialog[open]")`)
	p.press("3", kb.Escape)
	p.until("no help, and no key went through it", `!document.querySelector("dialog") && location.hash.includes("worker_drained")`)
	p.on("the event again", `e.matches(".events li a")`)
}
