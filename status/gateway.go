package status

import (
	"net/http"
	"slices"

	"github.com/skein-project/skein/realtime"
)

// ofUsers are the paths that a gateway serves to users: their jobs and workflows, what these
// need, and what a client asks first.
var ofUsers = []string{
	"/v1/jobs", "/v1/jobs/{id}", "/v1/jobs/{id}/stop", "/v1/jobs/{id}/watch",
	"/v1/jobs/{id}/outputs", "/v1/jobs/{id}/outputs/{chunk}/{name}",
	"/v1/workflows", "/v1/workflows/{id}", "/v1/workflows/{id}/stop", "/v1/workflows/{id}/retry", "/v1/artefacts", "/v1/whoami", "/v1/version",
}

// ForUsers serves the routes of ofUsers, as the listeners for users do, to whoever the
// context of a request says asks: that must be a Peer of which Users is set. Streams end
// with Run.
func (s *Server) ForUsers() http.Handler {
	return s.answers.routes(slices.DeleteFunc(s.handlers.table(), func(rt route) bool { return !slices.Contains(ofUsers, rt.path) }))
}

// Watch begins a stream for whoever is told of the cluster by other ways than this package's.
func (s *Server) Watch(r realtime.Request) *realtime.Watch { return s.hub.Watch(r) }
