package crew

import (
	"net"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/internal/crewtest"
)

// both lets a Crew be one that gateways share.
type both struct {
	*Crew
	*crewtest.Heard
}

func (b both) Why() error { return nil }

func (b both) Attach(a desk.Attach) (desk.Seat, desk.State, error) {
	s, st, err := b.Crew.Attach(a)
	if err != nil {
		return nil, st, err
	}
	go func() {
		for over := false; !over; {
			select {
			case <-s.Ready():
			case <-s.Over():
				over = true
			}
			for _, p := range s.Take() {
				b.Note(p)
			}
		}
	}()
	return s, st, nil
}

func (b both) Seat(w cluster.NodeID, session uint64) (desk.Seat, error) {
	s, err := b.Crew.Seat(w, session)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// TestSuite is what every store of outside workers does.
func TestSuite(t *testing.T) {
	crewtest.Run(t, func(t *testing.T, results int) *crewtest.Crew {
		c := newCrew(t, func(o *Options) { o.Desk.ResultBytes = 400 * results })
		b := both{c, crewtest.NewHeard()}
		return &crewtest.Crew{Doors: [2]desk.Crew{b, b}, Heard: b.Heard, Dial: func(holder cluster.NodeID) net.Conn {
			ours, theirs := net.Pipe()
			go c.Serve(t.Context(), holder, theirs)
			return ours
		}}
	})
}
