package transport

import (
	"maps"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/bucket"
)

// rateKey names who shares a bucket: one member, or all senders of a class.
type rateKey struct {
	node  cluster.NodeID // empty: all of the class share a bucket
	class class
}

// class is a kind of senders with its own rate.
type class byte

const (
	classMember    class = iota // each member for itself
	classStranger               // hosts that are no members yet: by the member whose address they use, else together
	classOtherBoot              // each member, as long as it names another boot than the one heard
)

// rates are datagrams per second and at once, by class.
var rates = [...]bucket.Rate{
	classMember:    {PerSecond: 50, Burst: 100},
	classStranger:  {PerSecond: 20, Burst: 64},
	classOtherBoot: {PerSecond: 5, Burst: 20},
}

// limiter holds one bucket per key. Keys are members and classes, never
// what a stranger wrote, so that it is bounded. It has one owner.
type limiter map[rateKey]*bucket.Bucket

// take takes one token of key if there is one.
func (l limiter) take(key rateKey, now time.Duration) bool {
	b := l[key]
	if b == nil {
		b = &bucket.Bucket{}
		l[key] = b
	}
	return b.Take(rates[key.class], now)
}

// forget drops the buckets of hosts that are no longer members.
func (l limiter) forget(dir *Directory) {
	maps.DeleteFunc(l, func(key rateKey, _ *bucket.Bucket) bool {
		_, ok := dir.member[key.node]
		return key.node != "" && !ok
	})
}
