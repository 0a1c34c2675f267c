package tor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cretz/bine/control"
)

// quiesceTime is how often Quiesce looks: less than tor takes to make an
// introduction circuit anew, even in a network on one machine.
const quiesceTime = 20 * time.Millisecond

// pointCloses is how long an introduction point has to close its circuit itself.
const pointCloses = 1500 * time.Millisecond

// Quiesce lets no client be introduced to an own service any more, until the
// context ends. Clients are told at once that the point knows no such service
// and take another one, while those that were introduced before are served. It
// is the last step before a drained host stops, or tor loses the service: a client
// whose introduction it took with it waits for half a minute.
//
// The same would happen to one whose introduction is on its way down a circuit
// that is closed from this end. So the point is made to close it: it is asked to
// extend the circuit back to where it came from, which relays refuse by closing,
// behind all that they sent before. Circuits that have no client yet, and those
// that a point leaves open, are closed from here.
func (t *Tor) Quiesce(ctx context.Context, address string) error {
	if _, err := shortAddress(address); err != nil {
		return fmt.Errorf("quiesce onion service: %w", err)
	}
	cl := newClosing(t, address)
	for {
		circuits, err := cl.intros(ctx)
		if err == nil {
			err = cl.close(ctx, circuits)
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("quiesce %s: %w", address, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(quiesceTime):
		}
	}
}

// closing has the introduction circuits of one own service closed.
type closing struct {
	tor     *Tor
	address string
	asked   map[string]time.Time // when its point was asked to, by circuit
}

func newClosing(t *Tor, address string) *closing {
	return &closing{tor: t, address: address, asked: map[string]time.Time{}}
}

// intros are the service's introduction circuits now.
func (cl *closing) intros(ctx context.Context) ([]introCircuit, error) {
	text, err := cl.tor.ask(ctx, commandTime, "circuit-status")
	return slices.DeleteFunc(introCircuits(text), func(c introCircuit) bool { return c.Address != cl.address }), err
}

// close has the points close these circuits, or closes them.
func (cl *closing) close(ctx context.Context, circuits []introCircuit) error {
	for _, c := range circuits {
		at, again := cl.asked[c.id]
		if again && time.Since(at) < pointCloses {
			continue
		}
		var err error
		done := false
		if c.established && c.before != "" && !again {
			cl.asked[c.id] = time.Now()
			done, err = cl.try(ctx, "EXTENDCIRCUIT", func(conn *control.Conn) error {
				_, err := conn.ExtendCircuit(c.id, []string{"$" + c.before}, "")
				return err
			})
		}
		if err == nil && !done {
			_, err = cl.try(ctx, "CLOSECIRCUIT", func(conn *control.Conn) error { return conn.CloseCircuit(c.id, nil) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// try is a command that tor may refuse: the circuit may be gone.
func (cl *closing) try(ctx context.Context, name string, f func(*control.Conn) error) (done bool, err error) {
	err = cl.tor.command(ctx, name, f)
	if _, refused := errors.AsType[*ReplyError](err); refused {
		return false, nil
	}
	return err == nil, err
}
