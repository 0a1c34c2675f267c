package web

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"sync"
	"time"
)

const (
	// CodeLife is how long a code can be traded.
	CodeLife = 2 * time.Minute
	// maxTries is how many wrong codes a gate takes before it shuts.
	maxTries = 10
)

// Gate trades a code that is used once for a bearer, which opens the API. Its
// methods may be called from any goroutine.
type Gate struct {
	now   func() time.Time
	until time.Time // of the code
	code  [sha256.Size]byte
	shut  chan struct{} // closed by the try that was too many, by nobody else

	mu     sync.Mutex
	bearer [sha256.Size]byte // of nothing before the code was traded
	traded bool
	wrong  int
}

// NewGate returns a gate and its code.
func NewGate(now func() time.Time) (*Gate, string) {
	code := secret()
	return &Gate{now: now, until: now().Add(CodeLife), code: sha256.Sum256([]byte(code)), shut: make(chan struct{})}, code
}

// NewStanding returns a gate that knows a secret for as long as it is there: no code is
// traded for it.
func NewStanding() (*Gate, string) {
	secret := secret()
	return &Gate{now: time.Now, shut: make(chan struct{}), traded: true, bearer: sha256.Sum256([]byte(secret))}, secret
}

// Knows is Admits; what is wrong counts as a try.
func (g *Gate) Knows(secret string) bool {
	if g.Admits(secret) {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tryLocked()
	return false
}

// tryLocked counts a wrong code.
func (g *Gate) tryLocked() {
	if g.wrong++; g.wrong == maxTries {
		close(g.shut)
	}
}

// Trade answers the bearer for the code. A code that was used, is late or is wrong
// has none; they are not told apart.
func (g *Gate) Trade(code string) (bearer string, ok bool) {
	sum := sha256.Sum256([]byte(code))
	g.mu.Lock()
	defer g.mu.Unlock()
	good := subtle.ConstantTimeCompare(sum[:], g.code[:]) == 1
	if g.wrong >= maxTries || !good || g.traded || !g.now().Before(g.until) {
		g.tryLocked()
		return "", false
	}
	g.traded, bearer = true, secret()
	g.bearer = sha256.Sum256([]byte(bearer))
	return bearer, true
}

// Admits reports whether bearer is the one that was handed out.
func (g *Gate) Admits(bearer string) bool {
	sum := sha256.Sum256([]byte(bearer))
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.traded && g.wrong < maxTries && subtle.ConstantTimeCompare(sum[:], g.bearer[:]) == 1
}

// Opened reports whether the code was traded.
func (g *Gate) Opened() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.traded
}

// Shut is closed when too many wrong codes came: somebody guesses.
func (g *Gate) Shut() <-chan struct{} { return g.shut }

// secret is 256 random bits.
func secret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}
