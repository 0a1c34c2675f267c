package join

import (
	"time"

	"github.com/skein-project/skein/coord/member"
)

// Roster judges records as the running coordination would. What it refuses is
// left out; coordination reports it.
func (id *Identity) Roster(records member.Records) member.Roster {
	t := member.NewTable(id.Verifier())
	_, _ = t.Restore(records, time.Now()) // see above
	return t.Roster()
}
