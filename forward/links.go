package forward

import (
	"github.com/skein-project/skein/overload"
	"github.com/skein-project/skein/realtime/links"
)

// WatchLinks says which half-edges of a host are wanted.
type WatchLinks struct {
	// Few leaves out those that are well.
	Few bool `json:"few,omitempty"`
}

// Links sends the half-edges of a host, all of them and then what changes.
var Links = &Stream[WatchLinks, links.Report]{
	Name: "links", At: Host, Lane: overload.List,
	Doc: "says how the host sees the others", Answers: "its half-edges, then what changes in them, until the asker closes it",
	Who: "any member",
}
