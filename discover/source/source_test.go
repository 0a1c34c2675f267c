package source

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for s, want := range map[string]string{
		"dns:mesh.example.org": "", "dns:mesh.example.org:51821": "", "dns:a:51820": "dns:a", "srv:_skein._udp.example.org.": "", "file:/etc/skein/hosts": "",
		"dns:": "-", "dns:a:0": "-", "dns:a:65536": "-", "dns:a:x": "-", "dns:a..b": "-", "dns:a b": "-", "dns:" + strings.Repeat("a", 64): "-",
		"dns:" + strings.Repeat("a.", 127) + "a": "-", "srv:skein.udp.a": "-", "srv:_skein.a": "-", "file:hosts": "-", "file:": "-", "http://a": "-", "a": "-", "": "-",
	} {
		got, err := Parse(s)
		if (err != nil) != (want == "-") {
			t.Errorf("%q: %+v, %v", s, got, err)
			continue
		}
		if want == "" {
			want = s
		}
		if err == nil && got.String() != want {
			t.Errorf("%q: %q", s, got)
		}
	}
}

// TestCache has when a source is asked again.
func TestCache(t *testing.T) {
	s, at := Source{Kind: DNS, Name: "a"}, []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:1")}
	for ttl, want := range map[time.Duration]time.Duration{0: DefaultTTL, time.Second: LeastTTL, time.Minute: time.Minute, time.Hour: MostTTL} {
		var c Cache
		if c.Put(s, at, ttl, time.Hour); c.Due(s, time.Hour+want-1) || !c.Due(s, time.Hour+want) || c.Next([]Source{s}, time.Hour) != time.Hour+want {
			t.Errorf("ttl %s: next at %s", ttl, c.Next([]Source{s}, time.Hour)-time.Hour)
		}
	}
	var c Cache
	if c.Put(s, nil, time.Hour, 0); c.Due(s, NoneTTL-1) || !c.Due(s, NoneTTL) {
		t.Error("none is asked again at another time")
	}
	c.Put(s, at, 0, 0)
	now := time.Hour
	for i := range 9 {
		pause := min(firstPause<<i, mostPause)
		for _, rnd := range []float64{0, 0.999} {
			again := c
			again.of = map[Source]entry{s: c.of[s]}
			again.Fail(s, now, rnd)
			if next := again.Next([]Source{s}, now) - now; next < pause/2 || next > pause {
				t.Errorf("failure %d: %s, want up to %s", i, next, pause)
			}
		}
		c.Fail(s, now, 0.5)
		now += time.Minute
	}
	if len(c.Endpoints([]Source{s, s})) != 1 {
		t.Error("a failure takes away what was said before, or it is there twice")
	}
}

func FuzzReadFile(f *testing.F) {
	f.Add("192.0.2.1\n[::1]:5\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, at := range Usable(ReadFile(text, 1), func(netip.AddrPort) bool { return false }) {
			if !at.IsValid() || at.Port() == 0 {
				t.Errorf("%v", at)
			}
		}
	})
}
