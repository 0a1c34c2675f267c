package forward

import (
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/overload"
)

// Drain has a host's worker stop taking chunks, or take them again.
var Drain = &Op[api.DrainRequest, api.Drain]{
	Name: "drain", At: Host, Lane: overload.Control, Key: "drain",
	Doc: "has the worker stop taking chunks, or take them again", Answers: "what the worker still runs, once it has complied",
	Who: "any member", Quota: Quota{Name: "drain", Burst: 16, Every: 10 * time.Second},
}
