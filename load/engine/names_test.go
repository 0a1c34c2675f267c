package engine

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/load"
)

// TestNames: a name is resolved once, again and again, or its addresses take turns, as the
// scenario says; connections to an address that is none of it any more are left.
func TestNames(t *testing.T) {
	one, two := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")
	for mode, x := range map[string]struct {
		connections string
		lookups     func(n int) bool
		first, last int // dials of each address
	}{
		"fixed":       {"user", func(n int) bool { return n == 1 }, 1, 0},
		"ttl":         {"user", func(n int) bool { return n >= 3 }, 1, 1},
		"round-robin": {"request", func(n int) bool { return n == 1 }, 45, 45},
	} {
		in(t, nil, func(t *testing.T, s *scene) {
			lookups, dials := 0, map[netip.Addr]int{}
			began := time.Now()
			s.o.Lookup = func(context.Context, string) ([]netip.Addr, error) {
				lookups++
				switch {
				case mode == "round-robin":
					return []netip.Addr{one, two}, nil
				case time.Since(began) < 40*time.Second:
					return []netip.Addr{one}, nil
				}
				return []netip.Addr{two}, nil
			}
			dial := s.o.Dial
			s.o.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
				dials[to.Addr()]++
				return dial(ctx, netip.AddrPortFrom(one, to.Port()))
			}
			r := s.run(t.Context(), t, strings.NewReplacer("MODE", mode, "HOW", x.connections).Replace(`
http = { dns = "MODE", connections = "HOW" }
traffic.main = { flow = "f", users = 1, for = "89500ms", pace = "1s" }
[[flow.f]]
get = "http://target.test/"`))
			if n := r.Whole.All().Classes[load.OK]; n != 90 || r.Whole.All().Failed() != 0 {
				t.Errorf("%s: %v", mode, r.Whole.All().Classes)
			}
			if !x.lookups(lookups) || dials[one] != x.first || dials[two] != x.last {
				t.Errorf("%s: asked %d times, dialled %v", mode, lookups, dials)
			}
		})
	}
}

// TestRowsEnd: unique rows that are used up end the traffic that has them, open or closed,
// and the report says so; another one goes on.
func TestRowsEnd(t *testing.T) {
	rows, err := load.ParseRows("u.csv", []byte("name\na\nb\nc\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{`users = 2, think = "100ms"`, "rate = 20"} {
		in(t, nil, func(t *testing.T, s *scene) {
			s.o.Plan = planOf(t, `
data.u = { file = "u.csv", pick = "unique" }
traffic.rows = { flow = "rows", for = "5s", `+how+` }
traffic.other = { flow = "other", for = "5s", users = 1, think = "1s" }
[[flow.rows]]
get = "http://target.test/echo?${u.name}"
[[flow.other]]
get = "http://target.test/"`, load.Inputs{Rows: map[string]*load.Rows{"u": rows}})
			r := s.run(t.Context(), t, "")
			if s.target.Count("/echo") != 3 || s.target.Count("/") < 5 {
				t.Errorf("%s: %d requests with rows, %d without", how, s.target.Count("/echo"), s.target.Count("/"))
			}
			if len(r.Notes) != 1 || r.Notes[0] != "traffic rows: its rows were used up" {
				t.Errorf("%s: notes %q", how, r.Notes)
			}
		})
	}
}
