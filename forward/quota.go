package forward

import (
	"sync"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// maxUses bounds the memory of limits. Only members are counted, so more
// entries than that are mostly former members: all counts are reset.
const maxUses = 4096

// limits counts what each member asked for, per quota.
type limits struct {
	now func() time.Duration

	mu   sync.Mutex
	used map[useKey]use
}

type useKey struct {
	from  cluster.NodeID
	quota string
}

type use struct {
	n  int
	at time.Duration // up to which n is counted
}

// take counts one use by from, or refuses it if the quota is used up.
func (l *limits) take(from cluster.NodeID, q Quota) error {
	if q.Burst == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	key := useKey{from: from, quota: q.Name}
	u, ok := l.used[key]
	if !ok {
		u.at = now
	}
	if gone := int((now - u.at) / q.Every); gone >= u.n {
		u = use{at: now}
	} else {
		u.n, u.at = u.n-gone, u.at+time.Duration(gone)*q.Every
	}
	if u.n >= q.Burst {
		p := api.Errorf(api.CodeOverloaded, "%s asked for too many changes", from).
			WithHint("wait %s, or ask on another host", q.Every)
		p.RetryAfterSeconds = new(q.Every.Seconds())
		return p
	}
	if l.used == nil || len(l.used) >= maxUses {
		l.used = make(map[useKey]use)
	}
	u.n++
	l.used[key] = u
	return nil
}
