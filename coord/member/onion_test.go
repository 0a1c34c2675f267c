package member

import (
	"errors"
	"strings"
	"testing"
)

func TestParseOnion(t *testing.T) {
	// The address of the Tor Project's site, a key that others made.
	const good = "2gzyxa5ihm7nsggfxnu52rck2vv4rvmdlkiu3zzui5du4xyclen53wid.onion"
	o, err := ParseOnion(good)
	if err != nil || o.String() != good {
		t.Fatalf("%s, %v", o, err)
	}
	for name, text := range map[string]string{
		"empty": "", "no tail": good[:56], "short": good[1:], "long": "a" + good, "upper case": strings.ToUpper(good),
		"mistyped": "3" + good[1:], "version": good[:55] + "a.onion", "character": "1" + good[1:], "newline": good[:20] + "\n" + good[20:],
		"zero": Onion{}.String(),
	} {
		if _, err := ParseOnion(text); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
