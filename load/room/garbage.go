package room

import (
	"runtime/debug"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/pace"
)

// Of many users most memory would be garbage: of a handshake of TLS tens of kilobytes are, and
// they begin together. Their requests leave none behind, so to leave half as much as Go does by
// itself costs nothing then.
const (
	many = 200
	part = 50 // percent of what is kept
)

// Thrift bounds the garbage of a process that sends for the users of a plan.
func Thrift(p *load.Plan) {
	if _, users := pace.Peak(p); users >= many {
		debug.SetGCPercent(part)
	}
}
