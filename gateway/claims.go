package gateway

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/gateway/auth"
)

// claimLife is how long a claim code is good, and maxClaims how many are open at once.
const (
	claimLife = 15 * time.Minute
	maxClaims = 10_000
)

// claim is a worker that asks for an owner.
type claim struct {
	worker cluster.NodeID
	key    []byte
	name   string
	ends   time.Duration
}

// claims are those that are open. A worker has one code, the latest.
type claims struct {
	secret []byte // a code is kept under a hash with it

	mu   sync.Mutex
	open map[[sha256.Size]byte]claim
	of   map[cluster.NodeID][sha256.Size]byte
}

func newClaims() *claims {
	c := &claims{secret: make([]byte, 32), open: map[[sha256.Size]byte]claim{}, of: map[cluster.NodeID][sha256.Size]byte{}}
	rand.Read(c.secret)
	return c
}

// add makes a code for a worker; false: there is no room.
func (c *claims) add(x claim, now time.Duration) (auth.Code, bool) {
	var b [8]byte
	rand.Read(b[:])
	code := auth.NewCode(binary.BigEndian.Uint64(b[:]))
	x.ends = now + claimLife
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(c.of[x.worker])
	if len(c.open) >= maxClaims {
		for h, y := range c.open {
			if y.ends <= now {
				c.drop(h)
			}
		}
	}
	if len(c.open) >= maxClaims {
		return "", false
	}
	h := code.Hash(c.secret)
	c.open[h], c.of[x.worker] = x, h
	return code, true
}

func (c *claims) drop(h [sha256.Size]byte) {
	if x, ok := c.open[h]; ok {
		delete(c.open, h)
		delete(c.of, x.worker)
	}
}

// take uses a code up; false: it is wrong, was used, or its time is over.
func (c *claims) take(code auth.Code, now time.Duration) (claim, bool) {
	h := code.Hash(c.secret)
	c.mu.Lock()
	defer c.mu.Unlock()
	x, ok := c.open[h]
	c.drop(h)
	return x, ok && now < x.ends
}

// key is that of a worker which waits for its owner.
func (c *claims) key(worker cluster.NodeID, now time.Duration) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x, ok := c.open[c.of[worker]]
	return x.key, ok && now < x.ends
}

// back gives a code back that was taken and did nothing.
func (c *claims) back(code auth.Code, x claim) {
	h := code.Hash(c.secret)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, newer := c.of[x.worker]; !newer && len(c.open) < maxClaims {
		c.open[h], c.of[x.worker] = x, h
	}
}

// len is how many there are.
func (c *claims) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}
