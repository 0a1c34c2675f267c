package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRender: whatever chunks a frame is drawn in, the film is the same.
func TestRender(t *testing.T) {
	draw := func(chunk int) []byte {
		in, out, n := t.TempDir(), t.TempDir(), 0
		step := func(config string, offset, rows int) {
			t.Helper()
			env := map[string]string{"SKEIN_ITERATIONS": fmt.Sprint(rows), "SKEIN_SEED_OFFSET": fmt.Sprint(offset), "SKEIN_CHUNK_ID": "0"}
			if err := run(func(name string) string { return env[name] }, strings.NewReader(config), in, out); err != nil {
				t.Fatal(err)
			}
		}
		for frame := range 2 {
			for y := 0; y < 12; y += chunk {
				step(fmt.Sprintf(`{"item":%d,"inputs":{"width":16,"height":12}}`, frame), y, chunk)
				if err := os.Rename(filepath.Join(out, "rows"), filepath.Join(in, fmt.Sprintf("rows.%04d", n))); err != nil {
					t.Fatal(err)
				}
				n++
			}
		}
		step(`{"inputs":{"width":16,"height":12}}`, 0, 1)
		film, err := os.ReadFile(filepath.Join(out, "film.ppm"))
		if err != nil {
			t.Fatal(err)
		}
		return film
	}
	film := draw(4)
	if want := "P6\n16 24\n255\n"; !bytes.HasPrefix(film, []byte(want)) || len(film) != len(want)+3*16*24 || !bytes.Equal(film, draw(6)) {
		t.Errorf("a film of %d bytes that begins %q", len(film), film[:min(len(film), 12)])
	}
	if bytes.Count(film, []byte{0, 0, 200}) == 0 || bytes.Count(film, []byte{0, 0, 200}) > 16*20 {
		t.Error("nothing is drawn")
	}
}
