package cookies

import (
	"testing"
	"time"

	"github.com/skein-project/skein/load"
)

// TestJar: what a target said goes back to it, and to nobody whom it does not speak for.
func TestJar(t *testing.T) {
	now := time.Unix(1e9, 0)
	shop := load.Origin{Name: "shop.example.org", TLS: true}
	for _, c := range []struct {
		field  string
		to     load.Origin
		target string
		after  time.Duration
		want   string
	}{
		{"a=1", shop, "/x", 0, "a=1"},
		{"a=1", load.Origin{Name: "example.org"}, "/", 0, ""},
		{"a=1; Domain=example.org", load.Origin{Name: "pay.example.org"}, "/", 0, "a=1"},
		{"a=1; Domain=org", load.Origin{Name: "other.org"}, "/", 0, ""},
		{"a=1; Domain=other.org", load.Origin{Name: "other.org"}, "/", 0, ""},
		{"a=1; Path=/x", shop, "/x/y?z", 0, "a=1"},
		{"a=1; Path=/x", shop, "/xy", 0, ""},
		{"a=1; Secure", load.Origin{Name: "shop.example.org"}, "/", 0, ""},
		{"a=1; Max-Age=5", shop, "/", 6 * time.Second, ""},
		{"a=1; Max-Age=5", shop, "/", 4 * time.Second, "a=1"},
		{"a=1; Max-Age=-1", shop, "/", 0, ""},
	} {
		var j Jar
		j.Set(shop, c.field, now)
		if got := string(j.Append(nil, c.to, []byte(c.target), now.Add(c.after))); got != c.want {
			t.Errorf("%s to %s%s: %q, want %q", c.field, c.to.Name, c.target, got, c.want)
		}
	}
	var j Jar
	for i := range 2 * maxCookies {
		j.Set(shop, string(rune('a'+i%26))+string(rune('a'+i/26))+"=1", now)
	}
	if len(j.list) != maxCookies || j.Empty() {
		t.Errorf("%d are remembered", len(j.list))
	}
	if j.Clear(); !j.Empty() {
		t.Error("not empty")
	}
}
