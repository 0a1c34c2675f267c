package present

import (
	"fmt"

	"github.com/skein-project/skein/api"
)

// Zones shows how the zones are.
func Zones(list api.Zones) Table {
	type Z = api.Zone
	return tableOf(list.Zones,
		col("ZONE", Text, 0, func(x Z) Cell { return word(x.Zone) }),
		col("HEALTH", State, 0, func(x Z) Cell { return word(x.Health) }),
		col("HOSTS", Text, 1, func(x Z) Cell { return Cell{Text: fmt.Sprintf("%d/%d", x.Alive, x.Hosts)} }),
		col("SLOTS", Number, 3, func(x Z) Cell { return whole(x.Slots) }),
		col("FREE", Number, 2, func(x Z) Cell { return whole(x.Free) }),
		more("QUEUED", Number, func(x Z) Cell { return whole(x.Queued) }),
		more("DRAINED", Number, func(x Z) Cell { return whole(x.Drained) }),
		col("VOTERS", Number, 4, func(x Z) Cell { return whole(x.Voters) }),
		col("RTT", Time, 5, func(x Z) Cell { return span(x.RTTSeconds) }),
		col("FROM", Text, 7, func(x Z) Cell { return word(x.RTTFrom) }),
		col("FOR", Time, 6, func(x Z) Cell { return span(&x.ForSeconds) }),
		col("WHY", Text, 1, func(x Z) Cell { return word(x.Why) }),
	)
}
