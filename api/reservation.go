package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Reservations answers GET /v1/reservations: those that have not ended, by name.
type Reservations struct {
	Header
	Reservations []Reservation `json:"reservations"`
}

// Reservation is so many slots of a zone that are kept for the jobs of one owner. It answers
// PUT /v1/reservations/{name}, too.
type Reservation struct {
	Name  string    `json:"name"`
	Owner string    `json:"owner"` // whose jobs, "user:ann"
	Zone  string    `json:"zone"`
	Slots int       `json:"slots"`
	Until time.Time `json:"until"`
	Actor string    `json:"actor,omitempty"` // who set it
	At    time.Time `json:"at,omitzero"`     // when
}

// ReservationRequest is the body of PUT /v1/reservations/{name}.
type ReservationRequest struct {
	Owner string    `json:"owner"`
	Zone  string    `json:"zone"`
	Slots int       `json:"slots"` // at most half of those of the zone, all reservations together
	Until time.Time `json:"until"`
}

// Reservations lists what is reserved.
func (c *Client) Reservations(ctx context.Context) (Reservations, error) {
	return get[Reservations](ctx, c, "/v1/reservations")
}

// Reserve keeps slots of a zone for somebody.
func (c *Client) Reserve(ctx context.Context, name string, req ReservationRequest) (Reservation, error) {
	return send[Reservation](ctx, c, http.MethodPut, "/v1/reservations/"+url.PathEscape(name), req)
}

// Unreserve ends a reservation.
func (c *Client) Unreserve(ctx context.Context, name string) error {
	_, err := send[struct{}](ctx, c, http.MethodDelete, "/v1/reservations/"+url.PathEscape(name), nil)
	return err
}
