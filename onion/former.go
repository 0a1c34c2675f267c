package onion

import (
	"maps"
	"slices"
	"time"

	"github.com/skein-project/skein/tor"
)

const (
	maxFormer   = 3           // former instances at a time, each for descriptorLife since it was last announced
	removedLife = time.Minute // or this, of one that answers for an address that is removed
)

// withFormer is want and, behind it, the instances that tor has for other
// addresses than those of now, or had before a rotation, latest first: clients
// know them from descriptors. announced says when each was last in this host's
// share, by directory; no client knows one that never was.
func withFormer(want, have []tor.Service, announced map[string]time.Time, now time.Time) []tor.Service {
	i := slices.IndexFunc(want, isInstance)
	if i < 0 {
		return want
	}
	current, kept := want[i], 0
	for _, h := range have {
		last, known := announced[h.Dir]
		if !isInstance(h) || h.Dir == current.Dir || !known || kept == maxFormer {
			continue
		}
		life := descriptorLife
		if slices.ContainsFunc(h.Masters, func(m string) bool { return !slices.Contains(current.Masters, m) }) {
			life = removedLife
		}
		if now.Sub(last) < life {
			kept++
			want = append(want, h)
		}
	}
	return want
}

func isInstance(s tor.Service) bool { return len(s.Masters) > 0 }

// keepPoints leaves the services that stay as many points as they have. A tor
// that gets another number of them at a reload replaces no point and posts no
// descriptor until it has that many.
func keepPoints(want, have []tor.Service) {
	for i, s := range want {
		if k := slices.IndexFunc(have, func(h tor.Service) bool { return h.Dir == s.Dir }); k >= 0 {
			want[i].IntroPoints = have[k].IntroPoints
		}
	}
}

// sameServices compares two lists, and then who finds the services. It ignores
// how many points one keeps: hosts come and go, and a change costs all points.
func sameServices(a, b []tor.Service) (services, clients bool) {
	clients = true
	services = slices.EqualFunc(a, b, func(x, y tor.Service) bool {
		clients = clients && maps.Equal(x.Clients, y.Clients)
		return x.Dir == y.Dir && slices.Equal(x.Masters, y.Masters) && slices.Equal(x.Ports, y.Ports)
	})
	return services, clients
}
