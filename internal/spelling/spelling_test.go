package spelling

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"zone", "zones", "name"}
	for typed, want := range map[string]string{"zone": "zone", "zoen": "zone", "zons": "zone", "nmae": "name", "weight": "", "": ""} {
		if got := Nearest(typed, known, 1); got != want {
			t.Errorf("%q: %q, want %q", typed, got, want)
		}
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"", "äö", 2}, {"kitten", "sitting", 3}, {"ab", "ba", 1}, {"zürich", "zurich", 1}} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
