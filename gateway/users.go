package gateway

import (
	"net/http"

	"github.com/skein-project/skein/status/door"
)

// asUser hands h what a user asks from outside. As with workers, what is signed names
// host, the gateway's own, whatever a proxy made of the header Host. The gateway judges no
// proof of users itself, nor their access tokens.
func asUser(h http.Handler, host string, from func(*http.Request) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := door.Peer{TCP: true, Users: true, Addr: from(r), Host: host}
		r = r.WithContext(door.With(r.Context(), p))
		r.Host = host
		h.ServeHTTP(w, r)
	})
}
