package door

import "github.com/skein-project/skein/internal/bucket"

// Pace says for which limit a request counts. Those up to Invite are of a user, over
// all that this host serves the user, also what other hosts bring; the others are of
// an address.
type Pace uint8

// Paces.
const (
	Other   Pace = iota
	Submit       // of a job
	Stream       // watches and what follows something
	Invite       // of a host
	Unknown      // nobody proved to ask
	Refused      // the proof was refused
)

// paces are the limits. A burst is what a command or a page asks at once.
var paces = [...]struct {
	name string
	bucket.Rate
}{
	Other:   {"other", bucket.Rate{PerSecond: 20, Burst: 200}},
	Submit:  {"submit", bucket.Rate{PerSecond: 10, Burst: 100}},
	Stream:  {"watch", bucket.Rate{PerSecond: 50, Burst: 100}},
	Invite:  {"invite", bucket.Rate{PerSecond: 10.0 / 60, Burst: 10}},
	Unknown: {"address", bucket.Rate{PerSecond: 20, Burst: 200}},
	Refused: {"proof", bucket.Rate{PerSecond: 20.0 / 60, Burst: 20}},
}

// Paces names the limits, as metrics do.
func Paces() []string {
	var names []string
	for _, p := range paces {
		names = append(names, p.name)
	}
	return names
}

// newLimits counts by all of them, in their order.
func newLimits() *bucket.Table {
	rates := make([]bucket.Rate, len(paces))
	for i, p := range paces {
		rates[i] = p.Rate
	}
	return bucket.NewTable(rates...)
}
