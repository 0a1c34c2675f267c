package forward

import (
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/overload"
)

// Group replaces the members of a group that permissions name.
var Group = &Op[event.GroupSet, None]{
	Name: "group", At: Holder, Lane: overload.Status,
	Doc: "replaces the members of a group that permissions name", Answers: "nothing, once it is logged",
	Who: "any member",
}
