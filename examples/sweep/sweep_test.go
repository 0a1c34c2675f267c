package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/skein-project/skein/examples/skeinwasm"
)

// TestSweep: an option without a barrier is worth more, and one with more volatility too;
// the report finds the highest.
func TestSweep(t *testing.T) {
	c := skeinwasm.Chunk{Iterations: 20000, Seed: 1}
	free, held, wild := price(c, 0.2, 0, 1), price(c, 0.2, 0.95, 1), price(c, 0.4, 0, 1)
	if !(held.Mean < free.Mean && free.Mean < wild.Mean) || free.Mean < 0.07 || free.Mean > 0.09 {
		t.Errorf("with a barrier %g, without %g, with more volatility %g", held.Mean, free.Mean, wild.Mean)
	}
	got, err := compute(skeinwasm.Chunk{Iterations: 1}, []byte(`{"params":{},"inputs":{"means":[1,3,2]}}`))
	if err != nil || got["best"].Mean != 1 || got["highest"].Mean != 3 || got["spread"].Mean != 2 {
		t.Errorf("%v %v", got, err)
	}
	dir := t.TempDir()
	if err := refine(dir, []float64{0.1, 0.5}, 1); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "refine")); err != nil || string(text) != "[0.45,0.55]" {
		t.Errorf("%s %v", text, err)
	}
	if err := refine(dir, nil, 1); err == nil {
		t.Error("a best that there is not is refined")
	}
	if _, err := compute(c, []byte(`{}`)); err == nil {
		t.Error("a config without an item or means is taken")
	}
}
