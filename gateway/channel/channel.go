package channel

import (
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/bucket"
)

// Asking is how often a client asks for anything, over all its connections; who does so more
// often loses them. It is more than all that a gateway answers.
var Asking = bucket.Rate{PerSecond: 150, Burst: 300}

// Most of what a client has.
const (
	MaxMessage     = 64 << 10 // bytes of one; longer ones go by HTTP
	MaxQueue       = 4 << 20  // bytes that wait for a client: then its connection is ended
	MaxChannels    = 32       // of a connection
	MaxConnections = 4
)

// Bounds of what is listened to.
const (
	// MaxHeard is how many channels but those of workers there are at once at a gateway, and
	// MaxHeardApart for all gateways whose connections somebody else keeps.
	MaxHeard      = 1000
	MaxHeardApart = 10_000
	// Life is how long somebody may listen to one until that is looked at again.
	Life = time.Minute
)

// Kept is what is kept of a channel for who comes again.
type Kept struct {
	Messages int
	For      time.Duration
	// Recover says that who comes again is told all that it missed, as far as it is kept.
	Recover bool
}

// Kind is channels of one kind.
type Kind struct {
	Prefix string // of their names, up to ":"; empty: a name of its own
	Kept   Kept
}

// Kinds of channels.
var (
	Work    = Kind{Prefix: api.WorkChannel, Kept: Kept{Messages: 100, For: time.Minute, Recover: true}}
	Cluster = Kind{Kept: Kept{Messages: 1, For: time.Minute}}
	Job     = Kind{Prefix: api.JobChannel, Kept: Kept{Messages: 100, For: 10 * time.Minute, Recover: true}}
	User    = Kind{Prefix: "user:", Kept: Kept{Messages: 20, For: 10 * time.Minute, Recover: true}}
)

// Of is the kind of a channel; false: there is no such channel.
func Of(name string) (Kind, bool) {
	switch {
	case strings.HasPrefix(name, api.WorkChannel):
		return Work, true
	case name == api.ClusterChannel:
		return Cluster, true
	case strings.HasPrefix(name, api.JobChannel):
		_, ok := JobOf(name)
		return Job, ok
	case strings.HasPrefix(name, api.UserChannel):
		user := name[len(api.UserChannel):]
		return User, cluster.CheckUserName(user) == nil
	}
	return Kind{}, false
}

// JobOf is the job that a channel is about; false: it is about none.
func JobOf(name string) (job.ID, bool) {
	text, ok := strings.CutPrefix(name, api.JobChannel)
	if !ok {
		return "", false
	}
	id, err := job.ParseID(text)
	return id, err == nil && string(id) == text
}

// UserOf is the user whose jobs a channel is about, as an owner; false: it is about none.
func UserOf(name string) (owner string, ok bool) {
	user, ok := strings.CutPrefix(name, api.UserChannel)
	return cluster.UserPrincipal(user), ok
}

// Ear is a channel to which somebody listens. Asked is another one when somebody began.
type Ear struct {
	Name  string
	Asked uint64
}

// Error is how the protocol says that something failed.
type Error struct {
	Code      uint32 `json:"code"`
	Message   string `json:"message"`
	Temporary bool   `json:"temporary,omitempty"`
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Errors of the protocol's own.
var (
	errUnknown   = Error{Code: 102, Message: "unknown channel"}
	errForbidden = Error{Code: 103, Message: "permission denied"}
)

// Listener is who wants to listen: a worker, or by an access token with some of its roles the
// user whose it is.
type Listener struct {
	Worker cluster.NodeID
	Owner  string // "user:ann"
	Roles  []string
}

// may reports whether the user's access token is for one of roles.
func (l Listener) may(roles ...string) bool {
	return l.Worker == "" && slices.ContainsFunc(roles, func(r string) bool { return slices.Contains(l.Roles, r) })
}

// Sees reports whether the user's access token is good for listening at all.
func (l Listener) Sees() bool { return l.may("submit", "watch") }

// Listen says why somebody may not listen to a channel; nil: it may. owner is the owner
// of the job, empty if there is no such job: a stranger is told the same of that as of
// another's job.
func Listen(by Listener, name string, owner func(job.ID) string) *Error {
	kind, known := Of(name)
	if !known {
		return new(errUnknown)
	}
	ok := false
	switch kind {
	case Work:
		ok = by.Worker != "" && name == api.WorkChannel+string(by.Worker)
	case Cluster:
		ok = by.may("watch")
	case Job:
		id, _ := JobOf(name)
		ok = by.Sees() && owner(id) == by.Owner
	case User:
		of, _ := UserOf(name)
		ok = by.Sees() && of == by.Owner
	}
	if !ok {
		return new(errForbidden)
	}
	return nil
}

// ErrorOf is how the protocol says a problem: its HTTP status, and 1000.
func ErrorOf(p *api.Problem) *Error {
	return &Error{Code: uint32(1000 + p.Status), Message: p.Detail, Temporary: p.Retryable()}
}

// NoCall is the answer to a client that is not a worker and asks something over its
// connection.
func NoCall() *Error {
	return ErrorOf(api.Errorf(api.CodeForbidden, "only a worker asks for this"))
}

// Full is the answer to a client that wants to listen when too many channels are listened
// to.
func Full() *Error {
	return ErrorOf(api.Errorf(api.CodeOverloaded, "too many channels are listened to"))
}
