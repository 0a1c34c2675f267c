package browser

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// hurried has a page wait a fiftieth of what it waits for usually, but not until nobody
// has seen it for a while: window.__unseen does that.
const hurried = `(() => {
	const set = setTimeout, clear = clearTimeout, mark = 1e9;
	window.setTimeout = (f, ms, ...rest) => ms === 30000 ? (window.__unseen = f, mark) : set(f, ms > 200 ? ms / 50 : ms, ...rest);
	window.clearTimeout = (n) => n === mark ? window.__unseen = null : clear(n);
})()`

// told is all that a daemon says after its first picture, which a watch may go on in.
type told struct {
	mu    sync.Mutex
	lines []string
	ids   []string // that a watch went on from
}

// say is the next line. A client that has it knows where it is.
func (s *told) say(event string, data any) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.lines) + 2 // the first picture is 1
	s.lines = append(s.lines, fmt.Sprintf(`{"id":"b.%d","event":%q,"data":%s}`, n, event, row(data)))
	return s.lines[n-2]
}

// place is the number of an id; 0: it is none.
func place(id string) int {
	text, _, _ := strings.Cut(strings.TrimPrefix(id, "b."), ";")
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// after is what follows an id, with the one before it once more: it is harmless, as a daemon
// tells a position at most once a second.
func (s *told) after(id string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids = append(s.ids, id)
	n := place(id)
	if n < 1 || n > len(s.lines)+1 {
		return []string{`{"event":"bye","data":{"problem":{"code":"invalid_request","detail":"no such id"}}}`}
	}
	first := []string{`{"event":"hello","data":{"api_version":"1","node":"host0","cluster":"big","boot":"b","resumed":true,"may_change":false,"topics":[]}}`}
	return append(first, s.lines[max(0, n-2):]...)
}

// from are the ids that watches went on from.
func (s *told) from() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ids)
}

// log is a line of one event of host9.
func (s *told) log(seq int) string {
	return s.say("log", fields{"cursor": fmt.Sprintf("host9/1:%d", seq), "events": []fields{{
		"source": fields{"node": "host9", "inc": 1}, "seq": seq, "hlc": (time.Now().UnixMilli() + int64(seq)) << 16, "term": 7, "kind": "worker_up",
		"text": fmt.Sprintf("event %d of Zürich", seq), "body": fields{"node": "host9"}, "hash": "00", "prev": "00",
	}}})
}

// shown is what the page shows of those events, the latest first.
const shown = `[...document.querySelectorAll(".events li a.time")].map((a) => a.getAttribute("href").split("?")[0]).filter((h) => h.includes("/host9/")).map((h) => Number(h.split("/").pop()))`

// TestStreamCut: a stream that ends in the middle of a line, wherever that is, goes on after
// the last whole one: no event is lost or there twice, no row is half, and none is asked for
// anew.
func TestStreamCut(t *testing.T) {
	needBrowser(t)
	d, said := newDouble(t, 3), &told{}
	d.resume = said.after
	p := openWith(t, d.link, hurried)
	p.says("holds the lease", "live")
	p.at("events?q=kind%3Aworker_up")
	p.until("the first picture is whole", `document.getElementById("filter")`) // from then on it knows where it is
	const cuts = 12
	for i := range cuts {
		// A change, a deletion and an event; the stream ends in the middle of one of them.
		lines := []string{
			said.say("delta", fields{"topic": "members", "set": []fields{{"node": "host2", "state": "alive", "zone": fmt.Sprintf("Zürich %d", i), "endpoints": []string{}}}}),
			said.say("delta", fields{"topic": "members", "set": []fields{{"node": fmt.Sprintf("new%d", i), "state": "alive", "endpoints": []string{}}}, "del": []string{fmt.Sprintf("new%d", i-1)}}),
			said.log(i + 1),
		}
		in := i % len(lines)
		d.watched(t, "alone", func(url.Values) bool { return true })
		d.half.Store(&half{mark: fmt.Sprintf(`"id":"b.%d"`, 2+3*i+in), aborted: i%2 == 0, keep: func(line string) int {
			switch at := strings.Index(line, "ü"); i / len(lines) {
			case 0: // in the middle of a character, where there is one
				return max(at, 2) + 1
			case 1: // all but the end of the line
				return len(line) - 1
			case 2:
				return 1
			}
			return len(line) / 2
		}})
		for _, line := range lines[:in+1] {
			d.lines <- line
		}
		p.until(fmt.Sprintf("it went on after cut %d", i+1), fmt.Sprintf(`(%s)[0] === %d && document.querySelector(".live").textContent.includes("live")`, shown, i+1))
		// What a connection that was aborted had brought before may be gone with it.
		got, whole := said.from(), 3*i+in+1
		if at := place(got[len(got)-1]); len(got) != i+1 || at > whole || at < whole && i%2 == 1 || at < whole-in-2 {
			t.Fatalf("cut %d, in line %d: it went on from %v", i+1, in+1, got)
		}
	}
	var got, want []int
	for i := range cuts {
		want = append(want, cuts-i)
	}
	if p.value(shown, &got); !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
	p.at("network?view=hosts&host=host2")
	var hosts []string
	p.value(`[...document.querySelectorAll("tbody tr")].map((r) => r.querySelector("a").textContent)`, &hosts)
	if want := []string{"host0", "host1", "host2", fmt.Sprintf("new%d", cuts-1)}; !slices.Equal(hosts, want) {
		t.Errorf("hosts %v, want %v", hosts, want)
	}
	p.says(fmt.Sprintf("Zürich %d", cuts-1))
}

// TestHidden: a page that nobody has seen for a while has no stream, and asks for none
// while that lasts, whatever it waited for; once it is seen it goes on, and nothing is
// missed. One that is seen again sooner keeps its stream.
func TestHidden(t *testing.T) {
	needBrowser(t)
	d, said := newDouble(t, 3), &told{}
	d.resume = said.after
	p := openWith(t, d.link, hurried)
	p.says("holds the lease", "live")
	p.at("events?q=kind%3Aworker_up")
	p.until("the first picture is whole", `document.getElementById("filter")`) // from then on it knows where it is
	hide := func(yes bool) {
		p.run(fmt.Sprintf(`(Object.defineProperty(document, "hidden", {value: %t, configurable: true}), document.dispatchEvent(new Event("visibilitychange")), 1)`, yes))
	}
	streams := func(want int32) {
		t.Helper()
		for deadline := time.Now().Add(patience); d.streams.Load() != want; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d streams, want %d", d.streams.Load(), want)
			}
		}
	}
	shows := func(what, want string) {
		t.Helper()
		p.until(what, fmt.Sprintf(`JSON.stringify(%s) === %q && document.querySelector(".live").textContent.includes("live")`, shown, want))
	}

	hide(true)
	p.until("it waits", `window.__unseen`)
	hide(false)
	p.until("it waits no more", `!window.__unseen`)
	d.lines <- said.log(1)
	shows("it was not gone for long", "[1]")
	if got := said.from(); len(got) != 0 {
		t.Fatalf("it asked again, from %v", got)
	}

	for i, while := range []string{"it has a stream", "it waits for one"} {
		hide(true)
		if i == 1 {
			// The daemon ends the stream; before the page asks again, nobody sees it.
			p.run(`(window.__wait = window.setTimeout, window.__due = [], window.setTimeout = (f, ms, ...rest) => ms > 200 && ms !== 30000 ? (__due.push(f), 0) : __wait(f, ms, ...rest), 1)`)
			d.lines <- "cut"
			streams(0)
			p.until("it will ask again", `document.querySelector(".live").textContent.includes("stale") && __due.length`)
			p.run(`(window.setTimeout = __wait, 1)`)
		}
		p.run(`(window.__unseen(), 1)`)
		if i == 1 {
			p.run(`(__due.forEach((f) => f()), 1)`)
		}
		streams(0)
		for k := range 3 {
			said.log(2 + 3*i + k)
		}
		// What else wakes it asks for nothing either.
		p.at("jobs/j1")
		p.at("events?q=kind%3Aworker_up")
		time.Sleep(100 * time.Millisecond) // five times what a try waits for at most here
		if got := said.from(); len(got) != i {
			t.Fatalf("while %s nobody sees it, and it asked from %v", while, got)
		}
		hide(false)
		shows("what happened meanwhile, when "+while, []string{"[4,3,2,1]", "[7,6,5,4,3,2,1]"}[i])
		streams(1)
	}
	if got := said.from(); len(got) != 2 || !strings.HasPrefix(got[0], "b.2;") || !strings.HasPrefix(got[1], "b.5;") {
		t.Errorf("it went on from %v", got)
	}
}

// TestStaleAge: a page that cannot reach its daemon says for how long, however often it
// tries again.
func TestStaleAge(t *testing.T) {
	needBrowser(t)
	d := newDouble(t, 3)
	p := openWith(t, d.link, hurried+`; window.__ahead = 0; { const now = Date.now; Date.now = () => now() + window.__ahead }`)
	p.says("holds the lease", "live")
	d.close()
	p.until("it says so", `document.querySelector(".banner")?.textContent.startsWith("Stale")`)
	var before int
	tries := `performance.getEntriesByType("resource").filter((e) => e.name.includes("/v1/watch")).length`
	p.value(tries, &before)
	p.run(`(window.__ahead = 900000, 1)`)
	p.until("it has tried again", fmt.Sprintf(`%s > %d`, tries, before+1))
	p.until("for how long", `/for 1\dm\./.test(document.querySelector(".banner").textContent)`)
}

// TestManyEvents: of 100 000 events those that are seen are in the document, the others can
// be scrolled to, and a filter looks at all of them.
func TestManyEvents(t *testing.T) {
	needBrowser(t)
	const most, atOnce = 100_000, 1000
	d := newDouble(t, 3)
	events := most - 5 // that are in its first picture already
	began := time.Now().Add(-time.Hour).UnixMilli()
	for from := 0; from < events; from += atOnce {
		var list []fields
		for i := from; i < min(events, from+atOnce); i++ {
			kind := "chunk_accepted"
			if i%25_000 == 7 {
				kind = "worker_up"
			}
			list = append(list, fields{"source": fields{"node": "host9", "inc": 1}, "seq": i + 1, "hlc": (began + int64(i)*30) << 16, "term": 7, "kind": kind, "text": fmt.Sprintf("event %d", i+1), "body": fields{}, "hash": "00", "prev": "00"})
		}
		d.watch("log", fields{"events": list})
	}
	p := open(t, d.link)
	p.says("holds the lease", "live")
	p.at("events")
	setSize := func(n int) string { return fmt.Sprintf(`document.querySelector(".events li[aria-setsize='%d']")`, n) }
	p.until("all of them", setSize(most))
	// Their numbers, which follow each other: none that is seen is missing.
	inOrder := func(what, where string) {
		t.Helper()
		p.until(what, fmt.Sprintf(`(() => {
			const rows = [...document.querySelectorAll(".events li[aria-posinset]")], at = rows.map((r) => Number(r.getAttribute("aria-posinset")));
			const seen = rows.filter((r) => { const b = r.getBoundingClientRect(); return b.bottom > 0 && b.top < innerHeight; });
			return seen.length > 5 && at.every((n, i) => i === 0 || n === at[i - 1] + 1) && (%s);
		})()`, where))
		var rows int
		if p.value(`document.querySelectorAll(".events li").length`, &rows); rows > 100 {
			t.Errorf("%s: %d rows in the document", what, rows)
		}
	}
	inOrder("the latest", `at[0] === 1`)
	p.run(`(scrollTo(0, document.documentElement.scrollHeight / 2), 1)`)
	inOrder("those of the middle", `at[0] > 10000 && at[0] < 90000`)
	p.run(`(scrollTo(0, document.documentElement.scrollHeight), 1)`)
	inOrder("the first", `document.querySelector(".events li a.time[href='#/events/host9/1/1']")`)
	p.at("events?q=kind%3Aworker_up")
	p.until("a filter", fmt.Sprintf(`JSON.stringify(%s) === "[75008,50008,25008,8]"`, shown))
	// The oldest go, a tenth at once.
	d.lines <- (&told{}).log(most)
	p.at("events")
	p.until("room was made", setSize(most-most/10))
}
