package gateway

import (
	"net/http"

	"github.com/skein-project/skein/status/door"
)

// asUser hands h what a user asks from outside. As with workers, what is signed names the host
// of the gate, whatever a proxy made of the header Host. The gateway judges no proof of users
// itself, nor their access tokens; but where others have the same URL, what was used at one of
// them is used at all.
func asUser(h http.Handler, gate door.Gate, from func(*http.Request) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := door.Peer{TCP: true, Users: true, Addr: from(r), Gate: gate}
		r = r.WithContext(door.With(r.Context(), p))
		r.Host = gate.Host
		h.ServeHTTP(w, r)
	})
}
