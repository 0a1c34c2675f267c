package door

import (
	"strconv"
	"sync"

	"github.com/skein-project/skein/api"
)

// Places bounds what runs at once for a while, as streams and uploads do. Who asks has
// a quarter of the places at most, so that nobody takes all of them; an operator on
// the socket may. Its methods may be called from any goroutine.
type Places struct {
	what    string // in plural
	all     int
	refused func() // counts who has its share; may be nil

	mu    sync.Mutex
	taken map[string]int
	sum   int
}

// NewPlaces makes places for all of what, in plural.
func NewPlaces(what string, all int, refused func()) *Places {
	return &Places{what: what, all: all, refused: refused, taken: map[string]int{}}
}

// placeWait is how long whoever finds no place is told to wait, in seconds.
const placeWait = 2.0

// Enter takes a place for p until leave is called, which must be done once.
func (ps *Places) Enter(p Peer) (leave func(), prob *api.Problem) {
	who, share := placeOf(p), max(1, ps.all/4)
	ps.mu.Lock()
	defer ps.mu.Unlock()
	switch {
	case ps.sum >= ps.all:
		prob = api.Errorf(api.CodeOverloaded, "%d %s are served already", ps.all, ps.what)
	case who != "" && ps.taken[who] >= share:
		prob = api.Errorf(api.CodeOverloaded, "%d %s of %s are served already, of %d for all", share, ps.what, who, ps.all)
		if ps.refused != nil {
			ps.refused()
		}
	}
	if prob != nil {
		prob.RetryAfterSeconds = new(placeWait)
		return nil, prob
	}
	ps.sum++
	ps.taken[who]++
	return func() {
		ps.mu.Lock()
		defer ps.mu.Unlock()
		ps.sum--
		if ps.taken[who]--; ps.taken[who] == 0 {
			delete(ps.taken, who)
		}
	}, nil
}

// placeOf is whom a place counts for; empty: nobody.
func placeOf(p Peer) string {
	switch {
	case p.Admin:
		return ""
	case p.User != "":
		return p.User
	case p.TCP:
		return Network(p.Addr)
	}
	return "uid:" + strconv.FormatUint(uint64(p.UID), 10)
}
