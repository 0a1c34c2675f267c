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
	asked := map[string]time.Time{}
	for {
		circuits, err := t.intros(ctx, address)
		if err == nil {
			err = t.closeIntros(ctx, circuits, asked)
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

// intros are the introduction circuits of an own service that there are now.
func (t *Tor) intros(ctx context.Context, address string) ([]introCircuit, error) {
	text, err := t.ask(ctx, commandTime, "circuit-status")
	return slices.DeleteFunc(introCircuits(text), func(c introCircuit) bool { return c.Address != address }), err
}

// closeIntros has the points close introduction circuits, or closes them. Asked
// says since when points are asked to, by circuit.
func (t *Tor) closeIntros(ctx context.Context, circuits []introCircuit, asked map[string]time.Time) error {
	for _, c := range circuits {
		at, again := asked[c.id]
		if again && time.Since(at) < pointCloses {
			continue
		}
		var err error
		done := false
		if c.established && c.before != "" && !again {
			asked[c.id] = time.Now()
			done, err = t.try(ctx, "EXTENDCIRCUIT", func(conn *control.Conn) error {
				_, err := conn.ExtendCircuit(c.id, []string{"$" + c.before}, "")
				return err
			})
		}
		if err == nil && !done {
			_, err = t.try(ctx, "CLOSECIRCUIT", func(conn *control.Conn) error { return conn.CloseCircuit(c.id, nil) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// try is a command that tor may refuse: the circuit may be gone.
func (t *Tor) try(ctx context.Context, name string, f func(*control.Conn) error) (done bool, err error) {
	err = t.command(ctx, name, f)
	if _, refused := errors.AsType[*ReplyError](err); refused {
		return false, nil
	}
	return err == nil, err
}
