// Command render is the job of each step of render.toml, a workflow that draws the frames
// of a film into the Mandelbrot set: each frame is a job, each of its chunks draws some
// rows of the picture into a file, and the last step puts all files together.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/skein-project/skein/examples/skeinwasm"
)

func main() {
	if err := run(os.Getenv, os.Stdin, "/in", "/out"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// document is the config of a step with inputs.
type document struct {
	Item   *float64 `json:"item"` // the frame to draw; none: put all together
	Inputs struct {
		Width  int `json:"width"`
		Height int `json:"height"` // of one frame
	} `json:"inputs"`
}

func run(getenv func(string) string, stdin io.Reader, in, out string) error {
	chunk, err := skeinwasm.ChunkFromEnv(getenv)
	if err != nil {
		return err
	}
	config, err := io.ReadAll(stdin)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	var d document
	if err := json.Unmarshal(config, &d); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	if w, h := d.Inputs.Width, d.Inputs.Height; w < 1 || w > 4096 || h < 1 || h > 4096 {
		return fmt.Errorf("config: a frame of %d x %d pixels", w, h)
	}
	if d.Item == nil {
		return film(in, filepath.Join(out, "film.ppm"), d.Inputs.Width, d.Inputs.Height)
	}
	var rows bytes.Buffer
	for i := range chunk.Iterations {
		row(&rows, *d.Item, int(chunk.Offset+i), d.Inputs.Width, d.Inputs.Height)
		skeinwasm.Progress(i + 1)
	}
	return os.WriteFile(filepath.Join(out, "rows"), rows.Bytes(), 0o600)
}

// row draws one row of a frame, three bytes for each pixel. Each frame is closer to a
// place at the edge of the set.
func row(to *bytes.Buffer, frame float64, y, width, height int) {
	const re, im, most = -0.743643887, 0.131825904, 200
	scale := 3 / float64(width) * math.Pow(0.6, frame)
	for x := range width {
		a, b := re+float64(x-width/2)*scale, im+float64(y-height/2)*scale
		u, v, n := 0.0, 0.0, 0
		for ; n < most && u*u+v*v < 4; n++ {
			u, v = u*u-v*v+a, 2*u*v+b
		}
		shade := byte(0)
		if n < most {
			shade = byte(255 - n*255/most)
		}
		to.Write([]byte{shade, shade / 2, byte(n)})
	}
}

// film puts the rows of all frames below each other, in the order of their names.
func film(in, out string, width, height int) error {
	names, err := filepath.Glob(filepath.Join(in, "rows.*"))
	if err != nil {
		return err
	}
	var all bytes.Buffer
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		all.Write(b)
	}
	frame := 3 * width * height
	if all.Len() == 0 || all.Len()%frame != 0 {
		return fmt.Errorf("%d bytes are no frames of %d bytes each", all.Len(), frame)
	}
	head := fmt.Sprintf("P6\n%d %d\n255\n", width, height*(all.Len()/frame))
	fmt.Fprintf(os.Stderr, "%d frames of %d files\n", all.Len()/frame, len(names))
	return os.WriteFile(out, append([]byte(head), all.Bytes()...), 0o600)
}
