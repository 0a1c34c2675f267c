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

// TestIslandsApart: no host stands on the line between two of different islands, which it
// would hide, nor beyond the picture, whether the islands are beside or below each other.
func TestIslandsApart(t *testing.T) {
	needBrowser(t)
	for _, c := range []struct {
		hosts  int
		lost   []int
		widths []int64
	}{
		{3, []int{2}, []int64{1280, 360}},
		{3, []int{1, 2}, []int64{1280, 360}},
		{4, []int{3}, []int64{1280, 360}},
		{5, []int{3, 4}, []int64{1280, 360}},
		{5, []int{1, 2, 3}, []int64{1280}},
		{6, []int{4, 5}, []int64{1280}},
		{6, []int{3, 4, 5}, []int64{1280}},
	} {
		d := newDouble(t, c.hosts)
		p := open(t, d.link)
		p.says("holds the lease", "live")
		p.at("network")
		for _, i := range c.lost {
			d.lines <- fmt.Sprintf(`{"event":"delta","data":{"topic":"members","set":[{"node":"host%d","state":"suspect","endpoints":[]}]}}`, i)
		}
		for _, width := range c.widths {
			p.look("light", width)
			p.until("who is not reached", fmt.Sprintf(`document.querySelectorAll("a.node.suspect").length === %d && document.querySelector("text.island")`, len(c.lost)))
			p.until(fmt.Sprintf("%v of %d are lost, %d px: nobody hides a line", c.lost, c.hosts, width), `(() => {
				const at = [...document.querySelectorAll("a.node")].map((a) => [...["cx", "cy"].map((k) => Number(a.querySelector(".dot").getAttribute(k))), a.classList.contains("suspect")]);
				const svg = document.querySelector("svg.graph"), width = svg.width.baseVal.value, height = svg.height.baseVal.value;
				const near = ([ax, ay], [bx, by], [cx, cy]) => {
					const t = ((cx - ax) * (bx - ax) + (cy - ay) * (by - ay)) / ((bx - ax) ** 2 + (by - ay) ** 2);
					return t > 0 && t < 1 && Math.hypot(ax + t * (bx - ax) - cx, ay + t * (by - ay) - cy) < 26; // the ring of a voter has 24
				};
				return width < innerWidth && at.every(([x, y]) => x > 25 && x < width - 25 && y > 25 && y < height - 40) &&
					!at.some((a, i) => at.some((b, k) => k > i && a[2] !== b[2] && at.some((c) => c !== a && c !== b && near(a, b, c))));
			})()`)
			p.picture(fmt.Sprintf("islands %v of %d, %d px", c.lost, c.hosts, width))
		}
	}
}
