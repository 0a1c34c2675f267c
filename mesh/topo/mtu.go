package topo

// Bytes that WireGuard adds to a packet, with the outer headers.
const (
	Overhead4 = 60 // over IPv4
	Overhead6 = 80 // over IPv6
)

// Path is a way to an endpoint on the underlay.
type Path struct {
	MTU int  // of the link or the route, whichever is less
	V6  bool // whether the outer packets are IPv6
}

// MTU returns the size of packets inside the mesh that fits every path, within
// MinMTU and MaxMTU; DefaultMTU if there is no path.
func MTU(paths []Path) int {
	if len(paths) == 0 {
		return DefaultMTU
	}
	mtu := MaxMTU
	for _, p := range paths {
		if p.V6 {
			mtu = min(mtu, p.MTU-Overhead6)
		} else {
			mtu = min(mtu, p.MTU-Overhead4)
		}
	}
	return max(mtu, MinMTU)
}

// StepDown returns the next smaller MTU to try when packets of this one are
// swallowed on the way; ok is false if there is none.
func StepDown(mtu int) (next int, ok bool) {
	for _, next := range []int{1380, 1320, MinMTU} {
		if next < mtu {
			return next, true
		}
	}
	return mtu, false
}
