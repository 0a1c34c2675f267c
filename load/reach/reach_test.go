package reach

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/guard"
	"github.com/skein-project/skein/load/h1"
)

// dialled is what a connection of any kind was made to.
type dialled struct {
	to      netip.AddrPort
	release func()
}

// way is a network whose names have these addresses, and an origin in it.
func way(t *testing.T, o Options, name string, addrs ...string) (*Network, *Origin) {
	t.Helper()
	o.Lookup = func(context.Context, string) (out []netip.Addr, err error) {
		for _, a := range addrs {
			out = append(out, netip.MustParseAddr(a))
		}
		return out, nil
	}
	n := New(o)
	at, err := n.Origin(load.Origin{Host: name + ":443", Name: name, Port: 443, TLS: true})
	if err != nil {
		t.Fatal(err)
	}
	return n, at
}

// TestWhateverTheProtocol: what no connection may lead to, nobody is asked to dial, and what cannot
// be dialled leaves the turn to the next address.
func TestWhateverTheProtocol(t *testing.T) {
	listed, err := guard.ParseList(map[string]guard.Limits{"10.0.0.0/24:443": {}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		o     Options
		addrs []string
		fail  string // cannot be dialled
		want  []string
		class load.Class
	}{
		"metadata":         {Options{}, []string{"169.254.169.254"}, "", nil, load.Blocked},
		"as IPv6":          {Options{}, []string{"::ffff:169.254.169.254"}, "", nil, load.Blocked},
		"not on the list":  {Options{Listed: true, List: listed}, []string{"10.0.1.1"}, "", nil, load.Blocked},
		"free":             {Options{}, []string{"10.0.0.1", "10.0.0.2"}, "", []string{"10.0.0.1:443", "10.0.0.1:443"}, load.OK},
		"the next address": {Options{}, []string{"10.0.0.1", "10.0.0.2"}, "10.0.0.1:443", []string{"10.0.0.1:443", "10.0.0.2:443", "10.0.0.2:443"}, load.OK},
		"in turns":         {Options{Turns: true}, []string{"10.0.0.1", "10.0.0.2"}, "", []string{"10.0.0.1:443", "10.0.0.2:443"}, load.OK},
		"none":             {Options{}, nil, "", nil, load.DNS},
	} {
		t.Run(name, func(t *testing.T) {
			n, o := way(t, c.o, "target.test", c.addrs...)
			var asked []string
			for range 2 {
				_, _, _, err := To(t.Context(), n, o, time.Now().Add(time.Minute), func(_ context.Context, to netip.AddrPort, _ func()) (dialled, error) {
					asked = append(asked, to.String())
					if to.String() == c.fail {
						return dialled{}, errors.New("no")
					}
					return dialled{to: to}, nil
				})
				if class := classOf(err); class != c.class {
					t.Errorf("%s, %v", class, err)
				}
			}
			if !slices.Equal(asked, c.want) {
				t.Errorf("dialled %v, want %v", asked, c.want)
			}
		})
	}
}

func classOf(err error) load.Class {
	if err == nil {
		return load.OK
	}
	return h1.ClassOf(err)
}

// TestRoom: as many connections at a time as the list says, each until it is released; one that was
// not made takes no room.
func TestRoom(t *testing.T) {
	list, err := guard.ParseList(map[string]guard.Limits{"target.test:443": {Connections: 1}})
	if err != nil {
		t.Fatal(err)
	}
	n, o := way(t, Options{Listed: true, List: list}, "target.test", "192.0.2.1")
	dial := func(broken bool, wait time.Duration) (dialled, error) {
		d, _, _, err := To(t.Context(), n, o, time.Now().Add(wait), func(_ context.Context, to netip.AddrPort, release func()) (dialled, error) {
			if broken {
				return dialled{}, errors.New("no")
			}
			return dialled{to, release}, nil
		})
		return d, err
	}
	if _, err := dial(true, time.Minute); err == nil {
		t.Error("a connection that was not made")
	}
	first, err := dial(false, time.Minute)
	if err != nil || first.release == nil {
		t.Fatal(err)
	}
	if _, err := dial(false, 20*time.Millisecond); classOf(err) != load.Generator || !n.Full() {
		t.Errorf("a second one: %v", err)
	}
	first.release()
	first.release()
	if _, err := dial(false, time.Minute); err != nil {
		t.Error(err)
	}
}
