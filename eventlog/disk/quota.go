package disk

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
)

// ErrQuota says that a host has written more than the log takes from one.
var ErrQuota = errors.New("quota of the source exceeded")

// burstSeconds is for how long a host may exceed its rate after it has been
// quiet: others catch up with what it wrote in the past.
const burstSeconds = 8

// quota keeps one host from filling the disks of all others. It counts the
// bytes of each host's chains here, and the bytes that arrive.
type quota struct {
	rate, most int64 // per host; most 0: three quarters of the room

	mu    sync.Mutex
	hosts map[cluster.NodeID]*hostQuota
}

type hostQuota struct {
	held   int64 // bytes of its segments
	tokens float64
	at     time.Time // when tokens was true
}

func newQuota(o Options) *quota {
	return &quota{rate: o.SourceRate, most: o.SourceBytes, hosts: map[cluster.NodeID]*hostQuota{}}
}

// take admits a run of n bytes of a host, or says why not. room is how large
// the whole log may become, -1 if that is unknown.
func (q *quota) take(node cluster.NodeID, n, room int64, now time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	h := q.host(node, now)
	most := q.most
	if most == 0 && room >= 0 {
		most = room / 4 * 3
	}
	if most > 0 && h.held+n > most {
		return fmt.Errorf("%w: %d bytes of %s are here, at most %d are taken", ErrQuota, h.held, node, most)
	}
	h.tokens = min(h.tokens+now.Sub(h.at).Seconds()*float64(q.rate), burstSeconds*float64(q.rate))
	h.at = now
	// A run may be as large as the burst of a low rate: it waits for a full
	// bucket and leaves a debt.
	if h.tokens < min(float64(n), burstSeconds*float64(q.rate)) {
		return fmt.Errorf("%w: more than %d bytes a second of %s", ErrQuota, q.rate, node)
	}
	h.tokens -= float64(n)
	return nil
}

func (q *quota) host(node cluster.NodeID, now time.Time) *hostQuota {
	h := q.hosts[node]
	if h == nil {
		h = &hostQuota{tokens: burstSeconds * float64(q.rate), at: now}
		q.hosts[node] = h
	}
	return h
}

// grew notes that the chains of a host have n bytes more.
func (q *quota) grew(node cluster.NodeID, n int64, now time.Time) {
	q.mu.Lock()
	q.host(node, now).held += n
	q.mu.Unlock()
}

// set replaces what is counted by what is there.
func (q *quota) set(held map[cluster.NodeID]int64, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, h := range q.hosts {
		h.held = 0
	}
	for node, n := range held {
		q.host(node, now).held = n
	}
}

// Admit says whether a run of n bytes of a host's chain may be stored, and if
// not why: an error wraps ErrQuota.
func (d *Room) Admit(node cluster.NodeID, n int64) error {
	return d.quota.take(node, n, d.roomFor(), time.Now())
}
