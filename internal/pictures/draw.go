package main

import (
	"bytes"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The terminal of the picture, and the size of a character.
const (
	columns, rows = 80, 14
	wide, high    = 9, 18
	edge          = 10
)

// ink is the colour of the characters that tmux names by a number.
var ink = map[int]string{31: "#ff7b72", 32: "#7ee787", 33: "#e3b341", 34: "#79c0ff"}

const (
	paper = "#0d1117"
	plain = "#e6edf3"
)

// style is how characters look.
type style struct {
	color    int // 0: as the rest
	inverted bool
}

func (s style) apply(codes string) style {
	for c := range strings.SplitSeq(codes, ";") {
		switch n, _ := strconv.Atoi(c); { // none is 0
		case n == 0:
			s = style{}
		case n == 7:
			s.inverted = true
		case n == 27:
			s.inverted = false
		case n == 39:
			s.color = 0
		case n >= 30 && n <= 37:
			s.color = n
		}
	}
	return s
}

// drawScreen makes an SVG of a screen with its escape sequences of colour.
func drawScreen(screen string) []byte {
	var b bytes.Buffer
	w, h := columns*wide+2*edge, rows*high+2*edge
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="skein top on a terminal">`+"\n", w, h, w, h)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="6" fill="%s"/>`+"\n", w, h, paper)
	fmt.Fprintf(&b, `<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="15" fill="%s">`+"\n", plain)
	var s style
	for y, line := range strings.Split(strings.TrimRight(screen, "\n"), "\n") {
		x := 0
		for line != "" {
			rest, escaped := strings.CutPrefix(line, "\x1b[")
			if escaped {
				codes, after, found := strings.Cut(rest, "m")
				if !found {
					break
				}
				s, line = s.apply(codes), after
				continue
			}
			text, _, _ := strings.Cut(line, "\x1b[")
			line = line[len(text):]
			writeText(&b, s, x, y, text)
			x += utf8.RuneCountInString(text)
		}
	}
	b.WriteString("</g>\n</svg>\n")
	return b.Bytes()
}

func writeText(b *bytes.Buffer, s style, x, y int, text string) {
	n := utf8.RuneCountInString(text)
	fill := ink[s.color]
	if s.inverted {
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d"/>`+"\n", edge+x*wide, edge+y*high, n*wide, high)
		fill = paper
	}
	if strings.TrimSpace(text) == "" {
		return
	}
	if fill != "" {
		fill = ` fill="` + fill + `"`
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" textLength="%d"%s>%s</text>`+"\n", edge+x*wide, edge+y*high+14, n*wide, fill, strings.ReplaceAll(html.EscapeString(text), " ", "\u00a0")) // others are taken together
}

// smaller has a picture's most frequent colours only, and compresses it well.
func smaller(text []byte) ([]byte, error) {
	from, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	count := map[color.RGBA]int{}
	all := from.Bounds()
	for y := all.Min.Y; y < all.Max.Y; y++ {
		for x := all.Min.X; x < all.Max.X; x++ {
			count[color.RGBAModel.Convert(from.At(x, y)).(color.RGBA)]++ //nolint:errcheck,forcetypeassert // what the model makes
		}
	}
	colors := make([]color.RGBA, 0, len(count))
	for c := range count {
		colors = append(colors, c)
	}
	slices.SortFunc(colors, func(a, b color.RGBA) int { return count[b] - count[a] })
	var palette color.Palette
	for _, c := range colors[:min(len(colors), 48)] {
		palette = append(palette, c)
	}
	to := image.NewPaletted(all, palette)
	draw.Draw(to, all, from, all.Min, draw.Src)
	var b bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, to)
	return b.Bytes(), err
}
