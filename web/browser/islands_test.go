package browser

import (
	"fmt"
	"testing"

	"github.com/skein-project/skein/api"
)

// parted is an expression that is true while the picture shows as islands what is said,
// each as the names of its hosts, that of the host that is asked first.
func parted(islands string) string {
	return fmt.Sprintf(`(() => {
		const label = document.querySelector("text.island"), others = document.querySelectorAll("text.island").length;
		const at = [...document.querySelectorAll("a.node")].map((a) => [a.dataset.node, Number(a.querySelector(".dot").getAttribute("cx"))]);
		if (!label) return others + ": " + at.map(([n]) => n).sort().join(" ");
		// A label stands above the middle of its island, which has a part of the picture to itself.
		const far = (x) => x > document.querySelector("svg.graph").width.baseVal.value * 0.62;
		const of = (there) => at.filter(([, x]) => far(x) === there).map(([n]) => n).sort().join(" ");
		return far(Number(label.getAttribute("x"))) && others + ": " + of(false) + " | " + of(true);
	})() === %q`, islands)
}

// testIslands cuts n3 off. The page of n2 shows it apart, that of n3 the two others, each
// with how long ago it was heard; when the cut is healed both are whole again, and no page
// was loaded anew.
func testIslands(t *testing.T, p *tab, hosts []*host) {
	defer p.as(t)()
	alone := open(t, hosts[2].ui(t))
	alone.says("all 3 hosts are alive", "seen from n3")
	for _, tb := range []*tab{p, alone} {
		tb.run(`window.loadedOnce = 1`)
		tb.at("network")
		tb.until("one island", parted("0: n1 n2 n3"))
	}
	hosts[2].off(true)
	defer hosts[2].off(false)
	p.until("n3 stands apart", parted("1: n1 n2 | n3"))
	alone.until("n1 and n2 stand apart", parted("1: n3 | n1 n2"))
	p.until("since when", `/^n3, suspect, .*seen \d+(\.\d)?s ago$/.test(document.querySelector("a.node[data-node=n3]").getAttribute("aria-label"))`)
	p.until("the line between those that reach each other is whole", `document.querySelectorAll(".edge line.half.up").length === 2`)
	alone.until("nothing leads to them that is up", `!document.querySelector(".edge line.half.up")`)
	p.until("n1 holds the lease", `document.querySelector("[data-crown]")?.dataset.crown === "n1"`)
	p.says("n3 suspect")

	hosts[2].off(false)
	for _, h := range hosts {
		h.await(t, "whole again", func(s api.Status) error {
			if s.Members.Alive != 3 {
				return fmt.Errorf("%d alive", s.Members.Alive)
			}
			return nil
		})
	}
	for _, tb := range []*tab{p, alone} {
		tb.until("one island again", parted("0: n1 n2 n3"))
		tb.until("all links are up", `document.querySelectorAll(".edge line.half.up").length === 6 && document.querySelectorAll(".edge line.half").length === 6`)
		tb.until("it was loaded once", `window.loadedOnce === 1`)
	}
}

// TestNarrowIslands: on a small screen islands stand below each other, and no host on the
// line between two others, which it would hide.
func TestNarrowIslands(t *testing.T) {
	needBrowser(t)
	for _, lost := range [][]string{{"host2"}, {"host1", "host2"}} {
		d := newDouble(t, 3)
		p := open(t, d.link)
		p.says("holds the lease", "live")
		p.look("light", 360)
		p.at("network")
		for _, node := range lost {
			d.lines <- fmt.Sprintf(`{"event":"delta","data":{"topic":"members","set":[{"node":%q,"state":"suspect","endpoints":[]}]}}`, node)
		}
		p.until("who is not reached", fmt.Sprintf(`document.querySelectorAll("a.node.suspect").length === %d && document.querySelector("text.island")`, len(lost)))
		p.until("nobody hides a line", `(() => {
			const at = [...document.querySelectorAll("a.node .dot")].map((e) => ["cx", "cy"].map((k) => Number(e.getAttribute(k))));
			const [a, b, c] = at, twice = Math.abs((b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1]));
			const longest = Math.max(...[[a, b], [b, c], [a, c]].map(([p, q]) => Math.hypot(p[0] - q[0], p[1] - q[1])));
			const width = document.querySelector("svg.graph").width.baseVal.value;
			return at.length === 3 && twice / longest > 40 && at.every(([x, y]) => x > 25 && x < width - 25 && y > 25);
		})()`)
	}
}
