package report

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// Size of a chart, and of the room around its plot.
const (
	width  = 520.0
	height = 210.0
	left   = 46.0
	right  = 12.0
	top    = 12.0
	bottom = 26.0
)

// line is one series of a chart.
type line struct {
	name  string
	class string // its colour, in the style of the page
	fill  bool
	y     []float64
}

// chart has lines over time.
type chart struct {
	title, unit string
	x           []float64 // seconds
	lines       []line
	breaks      []mark
}

// mark is an instant with a name.
type mark struct {
	x    float64
	name string
}

// svg draws the chart.
func (c chart) svg() string {
	var b strings.Builder
	high, end := 0.0, 0.0
	for _, l := range c.lines {
		for _, y := range l.y {
			high = math.Max(high, y)
		}
	}
	for _, x := range c.x {
		end = math.Max(end, x)
	}
	step := nice(high / 4)
	high = math.Max(step, math.Ceil(high/step-1e-9)*step)
	px := func(x float64) float64 { return left + x/math.Max(end, 1e-9)*(width-left-right) }
	py := func(y float64) float64 { return height - bottom - y/high*(height-top-bottom) }
	fmt.Fprintf(&b, `<figure><figcaption>%s <span class="unit">%s</span>`, html.EscapeString(c.title), html.EscapeString(c.unit))
	for _, l := range c.lines {
		fmt.Fprintf(&b, `<span class="key %s">%s</span>`, l.class, html.EscapeString(l.name))
	}
	fmt.Fprintf(&b, `</figcaption><svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, width, height, html.EscapeString(c.title))
	for i := 0; ; i++ {
		y := float64(i) * step
		if y > high*(1+1e-9) {
			break
		}
		fmt.Fprintf(&b, `<path class="grid" d="M%g %.1fH%g"/><text class="tick" x="%g" y="%.1f" text-anchor="end">%s</text>`, left, py(y), width-right, left-6, py(y)+3.5, tick(y))
	}
	span := timeStep(end)
	for x := 0.0; x <= end*(1+1e-9); x += span {
		fmt.Fprintf(&b, `<text class="tick" x="%.1f" y="%g" text-anchor="middle">%s</text>`, px(x), height-8, clock(x))
	}
	for i, m := range c.breaks {
		x, anchor, dx := px(math.Min(m.x, end)), "start", 3.0
		if x > width*0.6 { // there may be no room for its name
			anchor, dx = "end", -3
		}
		y := top + 8 + 11*float64(i%8) // beside the others
		fmt.Fprintf(&b, `<path class="mark" d="M%.1f %gV%g"/><text class="tick" x="%.1f" y="%g" text-anchor="%s">%s</text>`, x, top, height-bottom, x+dx, y, anchor, html.EscapeString(clean(m.name)))
	}
	for _, l := range c.lines {
		var d strings.Builder
		for i, y := range l.y {
			letter := "L"
			if i == 0 {
				letter = "M"
			}
			fmt.Fprintf(&d, "%s%.1f %.1f", letter, px(c.x[i]), py(y))
		}
		if len(l.y) == 1 { // a point alone is a dash
			d.WriteString("h4")
		}
		if l.fill && len(l.y) > 1 {
			fmt.Fprintf(&b, `<path class="area %s" d="%sL%.1f %.1fL%.1f %.1fZ"/>`, l.class, d.String(), px(c.x[len(l.y)-1]), py(0), px(c.x[0]), py(0))
		}
		fmt.Fprintf(&b, `<path class="line %s" d="%s"/>`, l.class, d.String())
	}
	b.WriteString("</svg></figure>\n")
	return b.String()
}

// nice is the next number of 1, 2, 2.5 and 5 times a power of ten.
func nice(x float64) float64 {
	if !(x > 0) {
		return 1
	}
	p := math.Pow(10, math.Floor(math.Log10(x)))
	for _, f := range []float64{1, 2, 2.5, 5} {
		if x <= f*p*(1+1e-9) {
			return f * p
		}
	}
	return 10 * p
}

func tick(y float64) string {
	if y >= 10_000 {
		return strconv.FormatFloat(y/1000, 'g', 4, 64) + "k"
	}
	return strconv.FormatFloat(y, 'g', 4, 64)
}

// timeStep is how far apart instants are named.
func timeStep(end float64) float64 {
	for _, s := range []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400} {
		if end/s <= 8 {
			return s
		}
	}
	return 21600
}

func clock(s float64) string {
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d h", int(s)/3600, int(s)%3600/60)
	}
	return fmt.Sprintf("%d:%02d", int(s)/60, int(s)%60)
}

// bars draws how latencies are distributed: buckets of a sketch, joined until a bar
// is wide enough, on an axis of powers.
func bars(t Times) string {
	if t.Sketch == nil || len(t.Sketch.Above) == 0 {
		return ""
	}
	const most = 60
	at := func(i int) float64 { return float64(t.Sketch.Above[2*i]) * math.Exp2(float64(t.Sketch.Level)) / 32 } // in octaves
	n := len(t.Sketch.Above) / 2
	low, high := at(0)-1.0/32, at(n-1)
	if high-low < 0.5 {
		low, high = low-0.25, high+0.25
	}
	per := math.Max(1, math.Ceil((high-low)*32/most)) / 32
	counts := make([]float64, int((high-low)/per)+1)
	peak := 0.0
	for i := range n {
		k := min(int((at(i)-1.0/64-low)/per), len(counts)-1)
		counts[max(k, 0)] += float64(t.Sketch.Above[2*i+1])
		peak = math.Max(peak, counts[max(k, 0)])
	}
	var b strings.Builder
	b.WriteString(`<figure><figcaption>Distribution <span class="unit">requests by latency, ms</span></figcaption>`)
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="Distribution of latencies">`, width, height)
	px := func(octave float64) float64 {
		return left + (octave-low)/(float64(len(counts))*per)*(width-left-right)
	}
	py := func(y float64) float64 { return height - bottom - y/peak*(height-top-bottom-10) }
	fmt.Fprintf(&b, `<path class="grid" d="M%g %.1fH%g"/>`, left, py(0), width-right)
	for i, y := range counts {
		if y > 0 {
			x := px(low + float64(i)*per)
			fmt.Fprintf(&b, `<rect class="bar" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, x, py(y), math.Max(1, px(low+float64(i+1)*per)-x-1), math.Max(1, py(0)-py(y)))
		}
	}
	last := -100.0
	for _, ms := range scale(math.Exp2(low)*1e3, math.Exp2(low+float64(len(counts))*per)*1e3) {
		if x := px(math.Log2(ms / 1e3)); x-last > 34 && x >= left && x <= width-right {
			fmt.Fprintf(&b, `<text class="tick" x="%.1f" y="%g" text-anchor="middle">%s</text>`, x, height-8, strconv.FormatFloat(ms, 'g', 3, 64))
			last = x
		}
	}
	level := top + 8
	for _, m := range []mark{{t.P50, "p50"}, {t.P95, "p95"}, {t.P99, "p99"}} {
		if m.x <= 0 {
			continue
		}
		x := px(math.Log2(m.x))
		anchor, dx := "start", 3.0
		if x > width-60 {
			anchor, dx = "end", -3
		}
		fmt.Fprintf(&b, `<path class="mark" d="M%.1f %gV%g"/><text class="tick" x="%.1f" y="%g" text-anchor="%s">%s</text>`, x, top, height-bottom, x+dx, level, anchor, m.name)
		level += 11
	}
	b.WriteString("</svg></figure>\n")
	return b.String()
}

// scale are round numbers of a range that spans powers.
func scale(low, high float64) (out []float64) {
	factors := []float64{1, 2, 5}
	if high/low < 4 {
		factors = []float64{1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9}
	}
	for p := math.Pow(10, math.Floor(math.Log10(low))); p <= high && len(out) < 200; p *= 10 {
		for _, f := range factors {
			if x := p * f; x >= low && x <= high {
				out = append(out, x)
			}
		}
	}
	return out
}
