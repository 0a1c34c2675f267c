package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image"
	"image/color"
	"image/png"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestDrawScreen: characters stand where they stood, in their colours, and nothing that
// the screen says becomes a part of the picture.
func TestDrawScreen(t *testing.T) {
	svg := string(drawScreen(" a \x1b[32malive\x1b[39m  b\n\x1b[7m> n1 <&\x1b[0m\n\x1b[31"))
	for _, want := range []string{
		`<text x="10" y="24" textLength="27">\u00a0a\u00a0</text>`,
		`<text x="37" y="24" textLength="45" fill="#7ee787">alive</text>`,
		`<text x="82" y="24" textLength="27">\u00a0\u00a0b</text>`,
		`<rect x="10" y="28" width="63" height="18"/>`,
		`fill="#0d1117">&gt;\u00a0n1\u00a0&lt;&amp;</text>`,
	} {
		if want = strings.ReplaceAll(want, `\u00a0`, "\u00a0"); !strings.Contains(svg, want) {
			t.Errorf("no %s in\n%s", want, svg)
		}
	}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestSmaller: a picture of more colours than are kept stays a picture of its size.
func TestSmaller(t *testing.T) {
	from := image.NewRGBA(image.Rect(0, 0, 60, 40))
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range from.Pix {
		from.Pix[i] = byte(rng.Uint32()) | 0xc0
	}
	for x := range 60 {
		from.Set(x, 7, color.RGBA{255, 0, 0, 255})
	}
	var b bytes.Buffer
	if err := png.Encode(&b, from); err != nil {
		t.Fatal(err)
	}
	small, err := smaller(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	to, err := png.Decode(bytes.NewReader(small))
	if err != nil || to.Bounds() != from.Bounds() || len(small) >= b.Len() {
		t.Fatalf("%v, %d of %d bytes, %v", to.Bounds(), len(small), b.Len(), err)
	}
	if r, g, bl, _ := to.At(30, 7).RGBA(); r != 0xffff || g != 0 || bl != 0 {
		t.Errorf("the most frequent colour is %x %x %x", r, g, bl)
	}
}
