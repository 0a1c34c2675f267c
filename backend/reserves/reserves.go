package reserves

import (
	"context"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/forward"
)

// Desk shows and changes reservations.
type Desk struct {
	log   interface{ View(func(*state.State)) }
	sched interface {
		Set(ctx context.Context, b event.Register) error
	}
	remote *forward.Router
	at     func(actor string) string // who asks, with this host's name
}

// New returns a Desk. log is the event log, and sched logs what is reserved, on the holder.
func New(log interface{ View(func(*state.State)) }, sched interface {
	Set(ctx context.Context, b event.Register) error
}, remote *forward.Router, at func(actor string) string,
) *Desk {
	return &Desk{log: log, sched: sched, remote: remote, at: at}
}

// Handle registers what this host carries out for others.
func (d *Desk) Handle(r *forward.Router) { forward.Handle(r, forward.Reserve, d.reserve) }

// Reservations implements status.JobControl.
func (d *Desk) Reservations(context.Context) (api.Reservations, error) {
	out := api.Reservations{Reservations: []api.Reservation{}}
	d.log.View(func(s *state.State) {
		for _, r := range s.Reservations(time.Now()) {
			out.Reservations = append(out.Reservations, api.Reservation{
				Name: r.Name, Owner: r.Owner, Zone: r.Zone, Slots: r.Slots, Until: time.Unix(r.Until, 0).UTC(), Actor: r.Actor, At: r.At.Time(),
			})
		}
	})
	return out, nil
}

// SetReservation implements status.JobControl.
func (d *Desk) SetReservation(ctx context.Context, actor string, set event.ReservationSet) (api.Reservation, error) {
	if _, err := forward.AskHolder(ctx, d.remote, forward.Reserve, d.at(actor), set); err != nil {
		return api.Reservation{}, err
	}
	return api.Reservation{Name: set.Name, Owner: set.Owner, Zone: set.Zone, Slots: set.Slots, Until: time.Unix(set.Until, 0).UTC()}, nil
}

// reserve has this host's scheduler log a reservation; this host is the holder.
func (d *Desk) reserve(ctx context.Context, by forward.Asker, set event.ReservationSet) (forward.None, error) {
	set.Actor = by.Actor
	return forward.None{}, d.sched.Set(ctx, set)
}
