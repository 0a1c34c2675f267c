package onion

import (
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/tor"
)

// TestWithFormer: an instance for other addresses than those of now stays until
// no client can know it any more, shortly if one of them is removed.
func TestWithFormer(t *testing.T) {
	node, a, ab, b, c, d := tor.Service{Dir: "node"}, instanceOf("a"), instanceOf("a", "b"), instanceOf("b"), instanceOf("c"), instanceOf("d")
	now := time.Unix(1000, 0)
	announced := map[string]time.Time{}
	list := func(s ...tor.Service) []tor.Service { return s }
	have := list(node)
	// Each step is asked for twice, before tor has it and a moment later. Its
	// instance is then told until the next one.
	told := ""
	step := func(what string, passed time.Duration, want, expect []tor.Service) {
		t.Helper()
		now = now.Add(passed)
		if told != "" {
			announced[told] = now
		}
		for range 2 {
			got := withFormer(want, have, announced, now)
			if services, _ := sameServices(got, expect); !services {
				t.Errorf("%s: %v, want %v", what, got, expect)
			}
			now = now.Add(time.Millisecond)
		}
		have = expect
		if told = ""; len(have) > 1 {
			told = have[1].Dir
		}
	}
	step("the first", 0, list(node, a), list(node, a))
	step("one more", time.Hour, list(node, ab), list(node, ab, a))
	step("later", descriptorLife-time.Second, list(node, ab), list(node, ab, a))
	step("unknown to all clients", time.Second, list(node, ab), list(node, ab))
	step("one less", 0, list(node, b), list(node, b, ab))
	step("and back", removedLife-time.Second, list(node, ab), list(node, ab, b))
	step("less again", 0, list(node, b), list(node, b, ab))
	step("the removed one is gone", removedLife, list(node, b), list(node, b))
	step("others", 0, list(node, c), list(node, c, b))
	step("and others", 0, list(node, d), list(node, d, c, b))
	step("many", 0, list(node, a), list(node, a, d, c, b))
	step("too many", 0, list(node, ab), list(node, ab, a, d, c))
	told = ""
	step("never announced", 0, list(node, b), list(node, b, a, d, c))
	step("none", 0, list(node), list(node))
}

func instanceOf(masters ...string) tor.Service {
	return tor.Service{Dir: strings.Join(masters, "+"), Masters: masters}
}

func TestSameServices(t *testing.T) {
	a := []tor.Service{{Dir: "node", Clients: map[string]string{"x": "1"}, IntroPoints: 3}, {Dir: "host", Masters: []string{"m"}}}
	b := []tor.Service{{Dir: "node", Clients: map[string]string{"x": "1"}, IntroPoints: 5}, {Dir: "host", Masters: []string{"m"}}}
	if services, clients := sameServices(a, b); !services || !clients {
		t.Errorf("another number of points is a change: %t %t", services, clients)
	}
	b[0].Clients = map[string]string{"x": "2"}
	if services, clients := sameServices(a, b); !services || clients {
		t.Errorf("another client: %t %t", services, clients)
	}
	if services, _ := sameServices(a, a[:1]); services {
		t.Error("one less is the same")
	}
}
