package runner

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
)

func FuzzProgressLine(f *testing.F) {
	f.Add([]byte("skein-progress 7\nskein-progress 8\n"), uint8(3))
	f.Add([]byte("words\nskein-progress 18446744073709551616\n"), uint8(1))
	f.Add([]byte("skein-checkpoint\r\n skein-checkpoint\nskein-checkpoint 1\n"), uint8(5))
	f.Add([]byte("skein-extend 1e9 one more\nskein-extend nan\n"), uint8(2))
	f.Fuzz(func(t *testing.T, text []byte, cut uint8) {
		var whole, parts Progress
		want := whole.Scan(text)
		var last Told
		for part := range slices.Chunk(text, int(cut)%16+1) {
			told := parts.Scan(part)
			if told.Moved {
				last.Done, last.Moved = told.Done, true
			}
			if told.Ask != nil {
				last.Ask = told.Ask
			}
			last.Saved = last.Saved || told.Saved
		}
		if !reflect.DeepEqual(last, want) {
			t.Errorf("whole %+v, in parts %+v", want, last)
		}
		if len(whole.line) > maxLine || want.Done == math.MaxUint64 && !want.Moved {
			t.Errorf("kept %d bytes", len(whole.line))
		}
		if a := want.Ask; a != nil && (!(a.Seconds > 0) || math.IsInf(a.Seconds, 0) || len(a.Reason) > cluster.MaxReason) {
			t.Errorf("asked for %+v", a)
		}
	})
}

// TestAsks has the lines that ask for more time, and those that are words.
func TestAsks(t *testing.T) {
	for line, want := range map[string]*Ask{
		"skein-extend 30 the last frame is large":                  {Seconds: 30, Reason: "the last frame is large"},
		"skein-extend 0.5":                                         {Seconds: 0.5},
		"skein-extend 1e9 for ever\r":                              {Seconds: 1e9, Reason: "for ever"},
		"skein-extend  7   spaces  ":                               {Seconds: 7, Reason: "spaces"},
		"skein-extend 7 " + strings.Repeat("é", cluster.MaxReason): {Seconds: 7, Reason: strings.Repeat("é", cluster.MaxReason/2)},
		"skein-extend 7 \xff":                                      {Seconds: 7, Reason: "?"},
		"skein-extend 0 none":                                      nil,
		"skein-extend -1":                                          nil,
		"skein-extend nan":                                         nil,
		"skein-extend +Inf":                                        nil,
		"skein-extend 1e999":                                       nil,
		"skein-extend":                                             nil,
		"skein-extend soon":                                        nil,
		"a skein-extend 7":                                         nil,
	} {
		var p Progress
		if got := p.Scan([]byte(line + "\n")); !reflect.DeepEqual(got, Told{Ask: want}) {
			t.Errorf("%.60q: %+v, want %+v", line, got.Ask, want)
		}
	}
}

// TestGuestAsks: a request of a guest goes with the progress before it, however short ago
// that was told.
func TestGuestAsks(t *testing.T) {
	var told []Reply
	w := guestWords{tell: func(r Reply) error { told = append(told, r); return nil }}
	for _, line := range []string{"skein-progress 5\n", "skein-progress 6\n", "skein-extend 30 a large frame\n"} {
		if _, err := w.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	w.end()
	if len(told) != 2 || told[0].Progress != 5 || told[1].Progress != 6 || told[1].Ask == nil || *told[1].Ask != (Ask{30, "a large frame"}) || !told[1].Between() {
		t.Errorf("%+v", told)
	}
}
