package api

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
