package daemon

import (
	"strings"
	"sync"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// maxActor bounds the name of who asked on another host, in bytes.
const maxActor = 64

// actorName is what another host may call who asked there: the part of s
// before any "@", printable ASCII without blanks, and never empty.
func actorName(s string) string {
	s, _, _ = strings.Cut(s[:min(len(s), maxActor)], "@")
	s = strings.Map(func(c rune) rune {
		if c <= ' ' || c > '~' {
			return '?'
		}
		return c
	}, s)
	if s == "" {
		return "?"
	}
	return s
}

// actorOf is who asked for what member from forwards. The host is always the
// one that is authenticated; who on it, only that host knows. The owner of a
// job has no host: the same key names the same job wherever it is submitted.
func actorOf(from cluster.NodeID, req remoteRequest) string {
	name := actorName(req.Actor)
	if req.Submit != nil {
		return name
	}
	return name + "@" + string(from)
}

// favour is a kind of request by which one member changes what all rely on.
type favour byte

const (
	favourStepDown favour = iota // the lease goes to another
	favourDepart                 // a voter goes
	favourRemove                 // a key ends
	favourConflict               // a contradiction is written down
	favourVoters                 // others vote
	favourCheck                  // this host reads its whole log
	favourDrain                  // this host takes no work
	favourOnion                  // this host gets a key, or is out of the descriptors
)

// favours are how many of a kind a member gets at once, and how long until it
// may have one more.
var favours = [...]struct {
	burst int
	every time.Duration
}{
	favourStepDown: {5, 20 * time.Second},
	favourDepart:   {16, 20 * time.Second},
	favourRemove:   {16, 20 * time.Second},
	favourConflict: {16, time.Minute},
	favourVoters:   {8, 20 * time.Second},
	favourCheck:    {8, 30 * time.Second},
	favourDrain:    {16, 10 * time.Second},
	favourOnion:    {16, 10 * time.Second},
}

// maxFavourKeys bounds the memory of favourLimits. Only members get there, so
// that more are names of long ago, and all start afresh.
const maxFavourKeys = 4096

// favourLimits counts what members asked for. The zero value is ready.
type favourLimits struct {
	mu   sync.Mutex
	used map[favourKey]favourUse
}

type favourKey struct {
	from cluster.NodeID
	what favour
}

type favourUse struct {
	n  int
	at time.Duration // up to which n is counted
}

// take counts one favour for from at now, and refuses one too many.
func (l *favourLimits) take(from cluster.NodeID, what favour, now time.Duration) *api.Problem {
	l.mu.Lock()
	defer l.mu.Unlock()
	rule := favours[what]
	key := favourKey{from: from, what: what}
	u, ok := l.used[key]
	if !ok {
		u.at = now
	}
	if gone := int((now - u.at) / rule.every); gone >= u.n {
		u = favourUse{at: now}
	} else {
		u.n, u.at = u.n-gone, u.at+time.Duration(gone)*rule.every
	}
	if u.n >= rule.burst {
		p := api.Errorf(api.CodeOverloaded, "%s asked for too many changes", from).
			WithHint("wait %s, or ask on another host", rule.every)
		p.RetryAfterSeconds = new(rule.every.Seconds())
		return p
	}
	if l.used == nil || len(l.used) >= maxFavourKeys {
		l.used = make(map[favourKey]favourUse)
	}
	u.n++
	l.used[key] = u
	return nil
}

// spare asks whether from may have one more favour; this host always may.
func (n *node) spare(from cluster.NodeID, what favour) *api.Problem {
	if from == n.id.Node {
		return nil
	}
	return n.favours.take(from, what, n.now())
}
