package forward

import (
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/overload"
)

// Carry has a host carry out the request of a user.
var Carry = &Op[api.Carried, api.Answered]{
	Name: "carry", At: Host, Lane: overload.Carried, Key: "carry",
	Doc: "carries out the request of a user, whose proof it checks itself", Answers: "the answer to that",
	Who: "any member; the user must have proven the request",
}
