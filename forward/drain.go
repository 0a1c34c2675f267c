package forward

import (
	"time"

	"github.com/skein-project/skein/api"
)

// Drain has a host's worker take no more chunks, or take them again.
var Drain = &Op[api.DrainRequest, api.Drain]{
	Name: "drain", At: Host, Key: "drain",
	Doc: "has the worker take no more chunks, or take them again", Answers: "what the worker still does, once it has obeyed",
	Who: "any member", Quota: Quota{Name: "drain", Burst: 16, Every: 10 * time.Second},
}
