package forward

import (
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/overload"
)

// Reserve keeps slots of a zone for somebody's jobs.
var Reserve = &Op[event.ReservationSet, None]{
	Name: "reserve", At: Holder, Lane: overload.Status,
	Doc: "keeps slots of a zone for the jobs of one owner, or ends that", Answers: "nothing, once it is logged",
	Who:   "the holder itself, sponsors",
	Check: event.ReservationSet.Check,
	Allow: func(a Asker, _ event.ReservationSet) error { return mayAppoint(a) },
}
