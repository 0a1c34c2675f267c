package here

import (
	"sync"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/gateway/guard"
	"github.com/skein-project/skein/internal/bucket"
)

// maxNonces bounds how many are remembered.
const maxNonces = 200_000

// Memory is a guard.Guard, which is never down.
type Memory struct {
	now func() time.Duration

	mu     sync.Mutex // for what follows
	table  *bucket.Table
	nonces *access.Nonces
	open   map[guard.Hash]claim
	of     map[cluster.NodeID]guard.Hash
}

type claim struct {
	guard.Claim
	ends time.Duration
}

// New returns a Memory that knows nothing of before began; now is a clock that goes on in
// suspend.
func New(now func() time.Duration, began time.Time) *Memory { return newMemory(now, began, maxNonces) }

func newMemory(now func() time.Duration, began time.Time, nonces int) *Memory {
	var rates []bucket.Rate
	for _, l := range guard.Limits() {
		rates = append(rates, l.Rate())
	}
	return &Memory{
		now: now, table: bucket.NewTable(rates...), nonces: access.NewNonces(nonces, began),
		open: map[guard.Hash]claim{}, of: map[cluster.NodeID]guard.Hash{},
	}
}

// Count implements guard.Guard.
func (m *Memory) Count(asks ...guard.Ask) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range asks {
		if err := m.count(a); err != nil {
			return err
		}
	}
	return nil
}

// Early says which of asks is one too many; it counts nothing.
func (m *Memory) Early(asks ...guard.Ask) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range asks {
		a.Look = true
		if err := m.count(a); err != nil {
			return err
		}
	}
	return nil
}

func (m *Memory) count(a guard.Ask) error {
	do := m.table.Take
	if a.Look {
		do = m.table.Wait
	}
	if wait := do(int(a.Limit), a.Who, m.now()); wait > 0 {
		return &guard.LateError{Limit: a.Limit, Wait: wait}
	}
	return nil
}

// owe has somebody wait.
func (m *Memory) owe(l guard.Limit, who string, wait time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.table.Owe(int(l), who, wait, m.now())
}

// Use implements guard.Guard.
func (m *Memory) Use(p access.Proof, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.nonces.Use(p, now)
}

// Forget implements guard.Guard.
func (m *Memory) Forget(p access.Proof) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nonces.Forget(p)
}

// First implements guard.Guard: it knows itself when it began.
func (m *Memory) First() error { return nil }

// Open implements guard.Guard.
func (m *Memory) Open(code guard.Hash, c guard.Claim) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(m.of[c.Worker])
	m.tidy()
	if len(m.open) >= guard.MaxClaims {
		return guard.ErrRoom
	}
	m.keep(code, c)
	return nil
}

// tidy forgets codes that have ended, where there is no room.
func (m *Memory) tidy() {
	if len(m.open) < guard.MaxClaims {
		return
	}
	for h, c := range m.open {
		if c.ends <= m.now() {
			m.drop(h)
		}
	}
}

func (m *Memory) keep(code guard.Hash, c guard.Claim) {
	m.open[code], m.of[c.Worker] = claim{Claim: c, ends: m.now() + c.Left}, code
}

func (m *Memory) drop(code guard.Hash) {
	if c, ok := m.open[code]; ok {
		delete(m.open, code)
		delete(m.of, c.Worker)
	}
}

// Take implements guard.Guard.
func (m *Memory) Take(code guard.Hash, by string) (guard.Claim, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.count(guard.Ask{Limit: guard.Guess, Who: by, Look: true}); err != nil {
		return guard.Claim{}, err
	}
	c, ok := m.open[code]
	m.drop(code)
	if c.Left = c.ends - m.now(); !ok || c.Left <= 0 {
		_ = m.count(guard.Ask{Limit: guard.Guess, Who: by}) // there was room, see above
		return guard.Claim{}, guard.ErrNoClaim
	}
	return c.Claim, nil
}

// Back implements guard.Guard.
func (m *Memory) Back(code guard.Hash, c guard.Claim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, newer := m.of[c.Worker]; !newer && len(m.open) < guard.MaxClaims {
		m.keep(code, c)
	}
}

// Waiting implements guard.Guard.
func (m *Memory) Waiting(worker cluster.NodeID) (key []byte, ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.open[m.of[worker]]
	return c.Key, ok && m.now() < c.ends, nil
}

// Claims implements guard.Guard.
func (m *Memory) Claims() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.open)
}
