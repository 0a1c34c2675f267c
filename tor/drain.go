package tor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cretz/bine/control"
)

// quiesceTime is how often Quiesce looks: less than tor takes to make an
// introduction circuit anew, even in a network on one machine.
const quiesceTime = 20 * time.Millisecond

// Quiesce lets no client be introduced to an own service any more, until the
// context ends: it closes each circuit to an introduction point as soon as tor
// makes it. Clients are told at once that the point knows no such service and
// take another one, while those that were introduced before are served. It is
// the last step before a drained host stops: a client whose introduction tor
// took with it waits for half a minute.
func (t *Tor) Quiesce(ctx context.Context, address string) error {
	id, err := shortAddress(address)
	if err != nil {
		return fmt.Errorf("quiesce onion service: %w", err)
	}
	for {
		if err := t.closeIntros(ctx, id); err != nil && ctx.Err() == nil {
			return fmt.Errorf("quiesce %s: %w", address, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(quiesceTime):
		}
	}
}

// closeIntros closes the introduction circuits that there are now.
func (t *Tor) closeIntros(ctx context.Context, id string) error {
	text, err := t.ask(ctx, commandTime, "circuit-status")
	if err != nil {
		return err
	}
	for _, circuit := range introIDs(text, id) {
		err := t.command(ctx, "CLOSECIRCUIT", func(c *control.Conn) error { return c.CloseCircuit(circuit, nil) })
		if _, refused := errors.AsType[*ReplyError](err); err != nil && !refused { // it is closed already
			return err
		}
	}
	return nil
}

// introIDs lists the circuits to introduction points of a service, whatever
// their state.
func introIDs(text, id string) (found []string) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) > 2 && slices.Contains(fields, "PURPOSE=HS_SERVICE_INTRO") && slices.Contains(fields, "REND_QUERY="+id) {
			found = append(found, fields[0])
		}
	}
	return found
}
