package doctor

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
)

// maxFast is how far apart voters may be where lease.profile is fast: beyond, a holder
// that fails is not replaced in time.
const maxFast = 150 * time.Millisecond

// judgeZoneHosts judges whether zones are lost, and whether voters are too far apart for
// the profile.
func judgeZoneHosts(f Cluster) verdict {
	type zone struct{ hosts, alive int }
	in := map[string]zone{}
	unzoned := 0
	for _, m := range f.View.Members {
		if m.Zone == "" {
			unzoned++
			continue
		}
		z := in[m.Zone]
		z.hosts++
		if m.Health == cluster.Alive {
			z.alive++
		}
		in[m.Zone] = z
	}
	list := tooFar(f)
	names := slices.Sorted(maps.Keys(in))
	for _, name := range names {
		switch z := in[name]; {
		case z.alive == 0:
			list = append(list, warning("zone %s: none of %d hosts is alive", name, z.hosts).
				advise("is the site cut off? Jobs go on in other zones, those that name only this one wait (docs/zones.md)"))
		case 2*z.alive < z.hosts:
			list = append(list, warning("zone %s: %d of %d hosts alive", name, z.alive, z.hosts).advise("`skein members` names the others"))
		}
	}
	switch {
	case len(names) == 0:
		return worse(list, good("no host names a zone"))
	case unzoned > 0:
		return worse(list, good("%d, and %d hosts in none", len(names), unzoned))
	}
	return worse(list, good("%d: %s", len(names), strings.Join(names[:min(len(names), 8)], ", ")))
}

// tooFar finds voters that are too far apart for profile fast.
func tooFar(f Cluster) []verdict {
	if f.Profile != cluster.ProfileFast || !f.View.Lease.Config.Has(f.View.Self) {
		return nil
	}
	far := slices.DeleteFunc(f.others(), func(m coord.MemberView) bool {
		return !f.View.Lease.Config.Has(m.Node) || m.Health != cluster.Alive || m.RTT <= maxFast
	})
	if len(far) == 0 {
		return nil
	}
	worst := slices.MaxFunc(far, func(a, b coord.MemberView) int { return cmp.Compare(a.RTT, b.RTT) })
	return []verdict{failure("lease.profile is fast, and %s, which votes too, is %s away", worst.Node, worst.RTT.Round(time.Millisecond)).
		advise("lease.profile = \"lan\" on all hosts: with voters more than 150 ms apart a holder that fails may not be replaced in time")}
}
