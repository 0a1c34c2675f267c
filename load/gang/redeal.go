package gang

import (
	"errors"
	"fmt"

	"github.com/skein-project/skein/cluster/event"
)

// Loss is what becomes of a run when a host is lost.
const (
	LossContinue     = "continue" // its share is not sent
	LossAbort        = "abort"
	LossRedistribute = "redistribute" // the others send it, as far as they may
)

// Redeal has a slice do, from a time of the run on, what others that are lost do not.
type Redeal struct {
	Run    event.LoadID `json:"run"`
	Turn   int          `json:"turn"` // how many are lost by then; told again it changes nothing
	From   int          `json:"from"` // in windows of the run
	Shares []int        `json:"shares"`
	Index  int          `json:"index"`
}

// Check reports what is wrong with the request.
func (r Redeal) Check() error {
	if r.Turn < 1 || r.From < 0 || r.Index < 0 || r.Index >= len(r.Shares) || len(r.Shares) > event.MaxLoadHosts+1 {
		return errors.New("a slice that is none, or of no time")
	}
	for _, s := range r.Shares {
		if s < 1 || s > event.MaxLoadShare {
			return fmt.Errorf("a share of %d, want 1-%d", s, event.MaxLoadShare)
		}
	}
	return Named{r.Run}.Check()
}

// parts is in how many parts a plan is cut that is dealt anew.
const parts = 512

// Redistribute deals a plan to those who go on, whose shares were old ones of a sum: as they
// were among each other, as far as each may. What they may not send is the share behind
// theirs, of nobody; rest is which part of the plan that is.
func Redistribute(p Plan, hosts []Host, old []int, sum int) (shares []int, rest float64) {
	most, part := make([]float64, len(hosts)), make([]float64, len(hosts))
	for i, h := range hosts {
		if most[i] = min(1, limits(h).part(p)); h.Why != "" {
			most[i] = 0
		}
		most[i] = max(most[i], float64(old[i])/float64(sum)) // which it has already
	}
	rest = 1
	for range hosts { // each time all of it is dealt, or somebody is full
		open := 0
		for i := range hosts {
			if part[i] < most[i] {
				open += old[i]
			}
		}
		if open == 0 || rest < 1e-9 {
			break
		}
		deal := rest
		for i := range hosts {
			if part[i] < most[i] {
				more := min(most[i]-part[i], deal*float64(old[i])/float64(open))
				part[i], rest = part[i]+more, rest-more
			}
		}
	}
	if rest < 1e-9 {
		rest = 0
	}
	left := parts
	for _, x := range part {
		n := max(1, int(x*parts+1e-6))
		shares, left = append(shares, n), left-n
	}
	if rest > 0 {
		shares = append(shares, max(1, left))
	}
	return shares, rest
}
