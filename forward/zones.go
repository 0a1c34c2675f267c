package forward

import (
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/overload"
)

// Zones returns how the zones are, as the holder judges it.
var Zones = &Op[None, api.Zones]{
	Name: "zones", At: Holder, Lane: overload.Status, Key: "zones",
	Doc: "says how the zones are, as the scheduler sees their hosts and workers", Answers: "the first 512 of them",
	Who: "any member",
}
