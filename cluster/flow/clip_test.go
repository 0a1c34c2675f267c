package flow

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestClip: what was cut is as long when it comes back from JSON.
func TestClip(t *testing.T) {
	for _, s := range []string{"", "abc", strings.Repeat("\u00e9", 9), strings.Repeat("\U0001f9f6", 9), "x" + strings.Repeat("\u6f22", 9), "\xff\xfe" + strings.Repeat("\xe6", 20)} {
		for most := range 20 {
			got := Clip(s, most)
			b, err := json.Marshal(got)
			var back string
			if err == nil {
				err = json.Unmarshal(b, &back)
			}
			if err != nil || back != got || len(got) > most || utf8.ValidString(s) && len(s) > most+3 && len(got) < most-3 {
				t.Errorf("%q cut to %d is %q, and then %q: %v", s, most, got, back, err)
			}
		}
	}
}
