package forward

import (
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/overload"
)

// User says who a user is.
var User = &Op[event.UserSet, None]{
	Name: "user", At: Holder, Lane: overload.Status,
	Doc: "says who a user is, what the user may do, and by which keys the user is known", Answers: "nothing, once it is logged",
	Who:   "the holder itself, sponsors",
	Check: event.UserSet.Check,
	Allow: func(a Asker, _ event.UserSet) error { return mayAppoint(a) },
}

// HostOwner says whose a host is.
var HostOwner = &Op[event.HostOwnerSet, None]{
	Name: "host_owner", At: Holder, Lane: overload.Status,
	Doc: "says whose a host is", Answers: "nothing, once it is logged",
	Who:   "the holder itself, sponsors",
	Check: event.HostOwnerSet.Check,
	Allow: func(a Asker, _ event.HostOwnerSet) error { return mayAppoint(a) },
}

// mayAppoint refuses a plain member: one that was taken over must make no operator, and
// give itself no private jobs.
func mayAppoint(a Asker) error {
	if a.Own() || a.Sponsor() {
		return nil
	}
	return api.Errorf(api.CodeForbidden, "%s is no sponsor: it may not say who users are, whose hosts are, and who is let in from outside", a.From).
		WithHint("do it on the holder, %s, or on a sponsor: see `skein members -o wide`", a.Self)
}
