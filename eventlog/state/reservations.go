package state

import (
	"maps"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state/canon"
)

// reservations are registers, by name; one of no slots is none.
type reservations map[string]canon.Register[event.ReservationSet]

// Reservation is so many slots of a zone that are kept for somebody's jobs.
type Reservation struct {
	event.ReservationSet
	At cluster.HLC // when it was set
}

// set folds what is reserved; the latest event decides.
func (rs reservations) set(e *event.Event, b event.ReservationSet) bool {
	if b.Check() != nil {
		return false
	}
	b.Actor = canon.Clip(b.Actor, maxActor)
	r := rs[b.Name]
	r.Set(canon.KeyOf(e), b)
	rs[b.Name] = r
	return true
}

// Reservations lists those that have not ended at now, by name.
func (rs reservations) Reservations(now time.Time) (out []Reservation) {
	for _, name := range slices.Sorted(maps.Keys(rs)) {
		if r := rs[name]; r.V.Slots > 0 && now.Unix() < r.V.Until {
			out = append(out, Reservation{ReservationSet: r.V, At: r.At.HLC})
		}
	}
	return out
}

func (rs reservations) write(w *canon.Writer) {
	w.Count(len(rs))
	for _, name := range slices.Sorted(maps.Keys(rs)) {
		r := rs[name]
		w.Text(name)
		w.Key(r.At)
		w.Text(r.V.Owner)
		w.Text(r.V.Zone)
		w.Count(r.V.Slots)
		w.Num(uint64(r.V.Until))
		w.Text(r.V.Actor)
		w.Flush()
	}
}

func (rs reservations) read(r *canon.Reader) {
	for n := r.Count(); n > 0 && r.OK(); n-- {
		b := event.ReservationSet{Name: r.Text(cluster.MaxGroupName)}
		at := r.Key()
		b.Owner, b.Zone, b.Slots, b.Until, b.Actor = r.Text(cluster.MaxPrincipal), r.Text(cluster.MaxZoneName), r.Int(), int64(r.Num()), r.Text(maxActor)
		r.Check(b.Check() == nil, "reservation")
		rs[b.Name] = canon.Register[event.ReservationSet]{At: at, V: b}
	}
}
