package forward

import "github.com/skein-project/skein/api"

// Snapshot takes a snapshot of the log.
var Snapshot = &Op[None, api.LogSnapshot]{
	Name: "snapshot", At: Holder, Key: "snapshot",
	Doc: "takes a snapshot of the log", Answers: "the snapshot, once it is signed and logged",
	Who: "any member",
}
