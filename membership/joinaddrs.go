package membership

import (
	"errors"
	"net/netip"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/join/token"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/publisher/descriptor"
)

const (
	// maxTokenMasters bounds the addresses of the cluster in a token.
	maxTokenMasters = 3
	masterPort      = 80
)

// JoinAddrs finds where newcomers reach this host.
type JoinAddrs struct {
	Listen netip.AddrPort
	About  func() (join.About, error)
	// Onion is the address of this host's own onion service, empty if it has none.
	Onion func() string
	// View shows the state that the log folds to.
	View func(func(*state.State))
}

// List returns the addresses of one kind.
func (a JoinAddrs) List(via api.TokenVia) ([]string, error) {
	switch via {
	case api.ViaOnion:
		own := a.Onion()
		if own == "" {
			return nil, api.Errorf(api.CodeConflict, "this host has no onion service of its own").WithHint("set tor.enabled and start the daemon again")
		}
		return []string{own}, nil
	case api.ViaMaster:
		masters := a.masters()
		if len(masters) == 0 {
			return nil, api.Errorf(api.CodeConflict, "the cluster serves no onion address that is open to all").WithHint("see `skein token create --via onion`")
		}
		return masters, nil
	}
	direct, err := a.direct()
	if own := a.Onion(); own != "" {
		return append(direct[:min(len(direct), maxDirectAddrs)], own), nil
	}
	return direct, err
}

// maxDirectAddrs leaves room for the onion address in a token.
const maxDirectAddrs = 7

// masters are the cluster's onion addresses that anybody can find.
func (a JoinAddrs) masters() []string {
	var out []string
	a.View(func(s *state.State) {
		for _, o := range s.Onions() {
			if len(o.Clients) == 0 && len(out) < maxTokenMasters {
				out = append(out, token.Door(descriptor.Address(o.Key).String(), masterPort))
			}
		}
	})
	return out
}

func (a JoinAddrs) direct() ([]string, error) {
	if !a.Listen.Addr().IsUnspecified() {
		return []string{a.Listen.String()}, nil
	}
	about, err := a.About()
	if err != nil {
		return nil, err
	}
	var out []string
	seen := map[netip.Addr]bool{}
	for _, e := range about.Endpoints {
		if !seen[e.Addr()] {
			seen[e.Addr()] = true
			out = append(out, netip.AddrPortFrom(e.Addr(), a.Listen.Port()).String())
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no address of this host is known: set mesh.advertise")
	}
	return out, nil
}
