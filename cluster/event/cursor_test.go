package event

import (
	"errors"
	"strings"
	"testing"
)

func TestCursor(t *testing.T) {
	c := Cursor{{Node: "n2", Inc: 1}: 7, {Node: "n1", Inc: 10}: 4, {Node: "n1", Inc: 3}: 1}
	if c.String() != "n1/3:1,n1/10:4,n2/1:7" {
		t.Errorf("%s", c)
	}
	c.Advance(SourceID{Node: "n2", Inc: 1}, 5)
	c.Advance(SourceID{Node: "n1", Inc: 3}, 2)
	if c.String() != "n1/3:2,n1/10:4,n2/1:7" {
		t.Errorf("advanced to %s", c)
	}
	var many strings.Builder
	for i := range MaxCursorSources + 1 {
		many.WriteString("," + SourceID{Node: "n1", Inc: uint64(i + 1)}.String() + ":1")
	}
	for _, bad := range []string{",", "n1", "n1/1", "n1:1", "N/1:1", "n1/x:1", "n1/1:-1", "n1/0:1", "n1/1:1,n1/1:2", many.String()[1:]} {
		if _, err := ParseCursor(bad); !errors.Is(err, ErrCursor) {
			t.Errorf("%.40q: %v", bad, err)
		}
	}
}

func FuzzParseCursor(f *testing.F) {
	for _, s := range []string{"", "n1/3:1,n2/1:7", "n1/18446744073709551615:18446744073709551615", "a/1:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCursor(text)
		if err != nil {
			if !errors.Is(err, ErrCursor) {
				t.Fatal(err)
			}
			return
		}
		again, err := ParseCursor(c.String())
		if err != nil || again.String() != c.String() || len(again) != len(c) {
			t.Fatalf("%q: %v, %v", text, again, err)
		}
	})
}
