package forward

import (
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/overload"
)

// Snapshot takes a snapshot of the log.
var Snapshot = &Op[None, api.LogSnapshot]{
	Name: "snapshot", At: Holder, Lane: overload.Status, Key: "snapshot",
	Doc: "takes a snapshot of the log", Answers: "the snapshot, once it is signed and logged",
	Who: "any member",
}
