// Package onion runs real tors on one private network that all its tests
// share: what a host, its publisher and their clients do together, end to end.
// Nothing here can reach the public network, see internal/tornet.
//
// SKEIN_PROVE=1 runs the full durations and counts and holds the figures to
// their bounds; else durations are reduced and times are printed only, because
// the race detector and other tests share the processors.
package onion

import (
	"os"
	"testing"
	"time"

	"github.com/skein-project/skein/internal/clusterslot"
	"github.com/skein-project/skein/internal/tornet"
	"github.com/skein-project/skein/internal/tornet/tornettest"
)

var network tornettest.Shared

func TestMain(m *testing.M) { os.Exit(network.Main(m)) }

// sharedNetwork is the network of all tests, on which the test may start what it
// needs.
func sharedNetwork(t *testing.T) *tornet.Network {
	t.Helper()
	n := network.Get(t)
	clusterslot.Take(t)
	return n
}

// limit bounds every wait on the private network.
const limit = 2 * time.Minute
