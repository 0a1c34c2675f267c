package forward

import (
	"errors"
	"fmt"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/overload"
)

// Enrol says whose an outside worker is.
var Enrol = &Op[event.WorkerEnrolled, None]{
	Name: "enrol", At: Holder, Lane: overload.Status,
	Doc: "says whose an outside worker is, and whether it is trusted", Answers: "nothing, once it is logged",
	Who:   "the holder itself, sponsors",
	Check: event.WorkerEnrolled.Check,
	Allow: func(a Asker, _ event.WorkerEnrolled) error { return mayAppoint(a) },
}

// RevokeWorker shuts an outside worker out.
var RevokeWorker = &Op[event.WorkerRevoked, None]{
	Name: "revoke_worker", At: Holder, Lane: overload.Control,
	Doc: "shuts an outside worker out for ever", Answers: "nothing, once it is logged",
	Who:   "the holder itself, sponsors",
	Check: event.WorkerRevoked.Check,
	Allow: func(a Asker, _ event.WorkerRevoked) error { return mayAppoint(a) },
}

// Access makes an access token, of which only the hash travels.
var Access = &Op[event.AccessSet, None]{
	Name: "access", At: Holder, Lane: overload.Status,
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
	Name: "revoke_access", At: Holder, Lane: overload.Control,
	Doc: "ends an access token", Answers: "nothing, once it is logged",
	Who:   "the holder itself, sponsors",
	Check: func(t AccessToken) error { return event.CheckTokenID(t.ID) },
	Allow: func(a Asker, _ AccessToken) error { return mayAppoint(a) },
}

// OwnWorker is what a user wants of a worker of the user's own, proven by an access token:
// no gateway has to be believed for that.
type OwnWorker struct {
	Token  api.Secret     `json:"token"` // for work
	Worker cluster.NodeID `json:"worker"`
	Key    []byte         `json:"key,omitempty"`  // none: the worker is shut out
	Name   string         `json:"name,omitempty"` // what its owner calls it
}

// Enrolled is the worker as owner's.
func (w OwnWorker) Enrolled(owner string) event.WorkerEnrolled {
	return event.WorkerEnrolled{Worker: w.Worker, Key: w.Key, Owner: owner, Name: w.Name}
}

func (w OwnWorker) check() error {
	if w.Token == "" || len(w.Token) > 128 {
		return errors.New("token: it is none")
	}
	if len(w.Key) == 0 {
		return event.WorkerRevoked{Worker: w.Worker}.Check()
	}
	if err := w.Enrolled("user:x").Check(); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

// Own makes an outside worker one of the owner of an access token, or shuts it out.
var Own = &Op[OwnWorker, None]{
	Name: "own_worker", At: Holder, Lane: overload.Status,
	Doc: "makes an outside worker one of the owner of an access token, or shuts out one that is", Answers: "nothing, once it is logged",
	Who:   "any member, with the token",
	Quota: Quota{Name: "own_worker", Burst: 64, Every: time.Second},
	Check: OwnWorker.check,
}
