package forward

import "github.com/skein-project/skein/cluster/event"

// Group replaces the members of a group that permissions name.
var Group = &Op[event.GroupSet, None]{
	Name: "group", At: Holder,
	Doc: "replaces the members of a group that permissions name", Answers: "nothing, once it is logged",
	Who: "any member",
}
