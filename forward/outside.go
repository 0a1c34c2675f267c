package forward

import (
	"errors"

	"github.com/skein-project/skein/cluster/event"
)

// Enrol says whose an outside worker is.
var Enrol = &Op[event.WorkerEnrolled, None]{
	Name: "enrol", At: Holder,
	Doc: "says whose an outside worker is, and whether it is trusted", Answers: "nothing, once it is logged",
	Who:   "the holder itself, sponsors",
	Check: event.WorkerEnrolled.Check,
	Allow: func(a Asker, _ event.WorkerEnrolled) error { return mayAppoint(a) },
}

// RevokeWorker shuts an outside worker out.
var RevokeWorker = &Op[event.WorkerRevoked, None]{
	Name: "revoke_worker", At: Holder,
	Doc: "shuts an outside worker out for ever", Answers: "nothing, once it is logged",
	Who:   "the holder itself, sponsors",
	Check: event.WorkerRevoked.Check,
	Allow: func(a Asker, _ event.WorkerRevoked) error { return mayAppoint(a) },
}

// Access makes an access token, of which only the hash travels.
var Access = &Op[event.AccessSet, None]{
	Name: "access", At: Holder,
	Doc: "makes an access token, of which only the hash travels", Answers: "nothing, once it is logged",
	Who: "the holder itself, sponsors",
	Check: func(b event.AccessSet) error {
		if len(b.Roles) == 0 {
			return errors.New("roles: a token is for something")
		}
		return b.Check()
	},
	Allow: func(a Asker, _ event.AccessSet) error { return mayAppoint(a) },
}

// AccessToken names an access token.
type AccessToken struct {
	ID string `json:"id"`
}

// RevokeAccess ends an access token.
var RevokeAccess = &Op[AccessToken, None]{
	Name: "revoke_access", At: Holder,
	Doc: "ends an access token", Answers: "nothing, once it is logged",
	Who:   "the holder itself, sponsors",
	Check: func(t AccessToken) error { return event.CheckTokenID(t.ID) },
	Allow: func(a Asker, _ AccessToken) error { return mayAppoint(a) },
}
