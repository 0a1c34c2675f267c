package room

import (
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/load"
)

// TestCheck: users that each have a connection need files, and ports where all of them go to one
// address; of several processes each has its part.
func TestCheck(t *testing.T) {
	const closed = "traffic.a = { flow = \"f\", users = 1000, for = \"1s\" }\n"
	for _, c := range []struct {
		text string
		part float64
		l    Limits
		want string
	}{
		{closed, 1, Limits{Files: 1064, Ports: 1000}, ""},
		{closed, 1, Limits{Files: 1063}, "1000 users with a connection each, this process may have 1063 files open"},
		{closed, 0.25, Limits{Files: 314, Ports: 250}, ""},
		{closed, 0.25, Limits{Files: 313}, "250 users"},
		{closed, 1, Limits{Ports: 999}, "this machine has 999 ports"},
		{closed, 1, Limits{}, ""},
		{"http.connections = \"shared\"\n" + closed, 1, Limits{Files: 100}, ""},
		{"traffic.a = { flow = \"f\", rate = 5, for = \"1s\", max_users = 1000 }\n", 1, Limits{Files: 100}, ""},
	} {
		s, err := load.Parse(c.text + "[[flow.f]]\nget = \"http://127.0.0.1/\"\n")
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.Compile(load.Inputs{})
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(p, c.part, c.l); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %g %+v: %v, want %q", c.text, c.part, c.l, err, c.want)
		}
	}
	s, err := load.Parse(closed + "[[flow.f]]\nget = \"http://x.example.org/\"\n")
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Compile(load.Inputs{})
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(p, 1, Limits{Ports: 5}); err != nil {
		t.Errorf("a name may have several addresses: %v", err)
	}
}

// TestThrift: of many users less is left behind than Go does by itself, of few as much.
func TestThrift(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	for users, want := range map[int]int{50: 100, 1000: part} {
		s, err := load.FromURL("http://127.0.0.1/", 0, users, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.Compile(load.Inputs{})
		if err != nil {
			t.Fatal(err)
		}
		Thrift(p)
		if got := debug.SetGCPercent(100); got != want {
			t.Errorf("%d users: %d %%, want %d %%", users, got, want)
		}
	}
}
