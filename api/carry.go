package api

import "github.com/skein-project/skein/cluster"

// Elsewhere says that another host must do what a user asked for: the first of Hosts
// that can. What the user asked goes there with its proof. It is Problem for whoever
// has proven nothing that could be checked there.
type Elsewhere struct {
	Hosts []cluster.NodeID
	*Problem
}

// Unwrap returns the problem.
func (e *Elsewhere) Unwrap() error { return e.Problem }

// Carried is the request of a user as it came to a host, with its proof. The host
// that acts checks the proof anew: it believes no other host who asked.
type Carried struct {
	Method string            `json:"method"`
	Host   string            `json:"host"` // to which the user sent it
	Path   string            `json:"path"` // escaped
	Query  string            `json:"query,omitempty"`
	Header map[string]string `json:"header"`
	Body   []byte            `json:"body,omitempty"`
}

// Answered is the answer to it.
type Answered struct {
	Status int               `json:"status"`
	Header map[string]string `json:"header,omitempty"`
	Body   []byte            `json:"body,omitempty"`
}
