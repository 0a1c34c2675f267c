package runner

import (
	"math"
	"slices"
	"testing"
)

func FuzzProgressLine(f *testing.F) {
	f.Add([]byte("skein-progress 7\nskein-progress 8\n"), uint8(3))
	f.Add([]byte("words\nskein-progress 18446744073709551616\n"), uint8(1))
	f.Fuzz(func(t *testing.T, text []byte, cut uint8) {
		var whole, parts Progress
		done, ok := whole.Scan(text)
		var last uint64
		var any bool
		for part := range slices.Chunk(text, int(cut)%16+1) {
			if n, ok := parts.Scan(part); ok {
				last, any = n, true
			}
		}
		if any != ok || last != done {
			t.Errorf("whole %d %v, in parts %d %v", done, ok, last, any)
		}
		if len(whole.line) > maxProgressLine || done == math.MaxUint64 && !ok {
			t.Errorf("kept %d bytes", len(whole.line))
		}
	})
}
