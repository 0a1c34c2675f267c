package reserves

import (
	"context"
	"net/http"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/status/door"
)

// Keeper keeps slots for somebody. A reservation of no slots ends.
type Keeper interface {
	Reservations(ctx context.Context) (api.Reservations, error)
	SetReservation(ctx context.Context, actor string, set event.ReservationSet) (api.Reservation, error)
}

// Set keeps slots of a zone for somebody; known refuses an owner that there is not.
func Set(k Keeper, known func(owner string) error) func(*http.Request, api.ReservationRequest) (api.Reservation, error) {
	return func(r *http.Request, req api.ReservationRequest) (api.Reservation, error) {
		set := event.ReservationSet{Name: r.PathValue("name"), Owner: req.Owner, Zone: req.Zone, Slots: req.Slots, Until: req.Until.Unix()}
		if err := set.Check(); err != nil {
			return api.Reservation{}, api.Errorf(api.CodeInvalidRequest, "%v", err)
		}
		if set.Slots < 1 || !time.Now().Before(req.Until) {
			return api.Reservation{}, api.Errorf(api.CodeInvalidRequest, "%d slots until %s: want 1 or more, and a time to come", set.Slots, req.Until.Format(time.RFC3339))
		}
		if err := known(set.Owner); err != nil {
			return api.Reservation{}, err
		}
		return k.SetReservation(r.Context(), door.Of(r.Context()).Actor(), set)
	}
}

// Remove ends a reservation.
func Remove[N any](k Keeper) func(*http.Request, N) (N, error) {
	return func(r *http.Request, _ N) (none N, err error) {
		all, err := k.Reservations(r.Context())
		if err != nil {
			return none, err
		}
		for _, have := range all.Reservations {
			if have.Name == r.PathValue("name") {
				_, err := k.SetReservation(r.Context(), door.Of(r.Context()).Actor(), event.ReservationSet{Name: have.Name, Owner: have.Owner, Zone: have.Zone})
				return none, err
			}
		}
		return none, api.Errorf(api.CodeNotFound, "no reservation %.64q", r.PathValue("name")).WithHint("see `skein reserve ls`")
	}
}
