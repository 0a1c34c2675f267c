package tor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// serviceSet is what the own tor is to serve, and what it serves.
type serviceSet struct {
	mu   sync.Mutex
	o    Options   // o.Services are those of the next start or reload
	told []Service // that the process knows
}

// options are those of the next process.
func (ss *serviceSet) options() Options {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.o
}

// SetServices replaces the onion services of the own tor. They hold from its
// next start on, or from the next Reload.
func (t *Tor) SetServices(services []Service) error {
	if !t.Own() {
		return errors.New("set onion services: this tor is attached to, not started by skein (hint: configure them where it runs)")
	}
	o := t.services.options()
	o.Services = slices.Clone(services)
	if err := o.check(); err != nil {
		return err
	}
	t.services.mu.Lock()
	defer t.services.mu.Unlock()
	t.services.o.Services = o.Services
	return nil
}

// Services are those that the own tor was last told of.
func (t *Tor) Services() []Service {
	t.services.mu.Lock()
	defer t.services.mu.Unlock()
	return t.services.told
}

func (ss *serviceSet) tell(services []Service) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.told = services
}

// Reload has the own tor read its services again. Those that stay keep their
// introduction points; one that becomes the instance of a further address
// answers for that only from its next descriptor on. A tor that does not run
// reads them when it starts.
func (t *Tor) Reload(ctx context.Context) error {
	if !t.Own() {
		return errors.New("reload tor: this tor is attached to, not started by skein (hint: reload it where it runs)")
	}
	o := t.services.options()
	if err := o.prepareServices(); err != nil {
		return err
	}
	if err := t.signal(ctx, "RELOAD"); err != nil {
		return fmt.Errorf("reload tor: %w", err)
	}
	t.services.tell(o.Services)
	return nil
}
