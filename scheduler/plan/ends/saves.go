package ends

import (
	"time"

	"github.com/skein-project/skein/cluster"
)

// saveLeast is the least time between two checkpoints of an attempt that are logged: less
// than hosts leave between them, as the last one before an attempt's end comes when it does.
const saveLeast = 2 * time.Second

// Said is what an attempt said beside how far it is.
type Said struct {
	Asks  Asks
	Saves Saves
}

// Saves is which checkpoint of an attempt was taken. The zero value is ready.
type Saves struct {
	last cluster.Hash
	at   time.Duration
}

// Take takes in which checkpoint a worker names, and says whether it is to be logged: it is
// another one than before, and does not come too soon after that. Workers name their latest
// again and again.
func (s *Saves) Take(h cluster.Hash, now time.Duration) bool {
	if h == s.last || !s.last.IsZero() && now-s.at < saveLeast {
		return false
	}
	s.last, s.at = h, now
	return true
}
