package tally

import (
	"sync"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/stat"
)

// Shard is where some of the users count. Two banks take turns.
type Shard struct {
	mu         sync.Mutex
	cur, spare *stat.Bank
}

// New makes one for so many series and checks.
func New(series, checks int) *Shard {
	return &Shard{cur: stat.NewBank(series, checks), spare: stat.NewBank(series, checks)}
}

// Record counts a request.
func (s *Shard) Record(x *stat.Sample) {
	s.mu.Lock()
	s.cur.Record(x)
	s.mu.Unlock()
}

// Iteration counts one that has ended.
func (s *Shard) Iteration() {
	s.mu.Lock()
	s.cur.Iterations++
	s.mu.Unlock()
}

// Drop counts an arrival that nobody took.
func (s *Shard) Drop(series int) {
	s.mu.Lock()
	s.cur.Series[series].Classes[load.Dropped]++
	s.mu.Unlock()
}

// Swap returns what was counted since the last time, good until the next one. Whoever has
// it resets it.
func (s *Shard) Swap() *stat.Bank {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cur, s.spare = s.spare, s.cur
	return s.spare
}
