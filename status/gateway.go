package status

import (
	"net/http"
	"slices"
)

// ofUsers are the paths that a gateway serves to users: their jobs, what these need, and
// what a client asks first.
var ofUsers = []string{"/v1/jobs", "/v1/jobs/{id}", "/v1/jobs/{id}/stop", "/v1/jobs/{id}/watch", "/v1/artefacts", "/v1/whoami", "/v1/version"}

// ForUsers serves the routes of ofUsers, as the listeners for users do, to whoever the
// context of a request says asks: that must be a Peer of which Users is set. Streams end
// with Run.
func (s *Server) ForUsers() http.Handler {
	return s.answers.routes(slices.DeleteFunc(s.handlers.table(), func(rt route) bool { return !slices.Contains(ofUsers, rt.path) }))
}
