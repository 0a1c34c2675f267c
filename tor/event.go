package tor

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/cretz/bine/control"
	"github.com/prometheus/client_golang/prometheus"
)

// Event is what a Subscription delivers: one of the types of this file.
type Event interface {
	fmt.Stringer
	event()
}

// Connected begins a connection to tor. What happened before it was not seen:
// read anew all that events report.
type Connected struct{ Version string }

// Disconnected ends it.
type Disconnected struct{ Err error }

// Actions of HSDesc.
const (
	ActionCreated   = "CREATED"
	ActionUpload    = "UPLOAD"
	ActionUploaded  = "UPLOADED"
	ActionFailed    = "FAILED"
	ActionRequested = "REQUESTED"
	ActionReceived  = "RECEIVED"
	ActionIgnore    = "IGNORE"
)

// HSDesc is news of an onion service's descriptor. Uploads carry no id of the
// descriptor.
type HSDesc struct {
	Action  string
	Address string // 56 characters and .onion; empty if tor did not say
	HSDir   string // 40 hexadecimal digits; empty if none or unknown
	DescID  string
	Reason  string
}

// HSDescContent is a descriptor that tor fetched; Text is empty if there was
// none.
type HSDescContent struct {
	Address string
	HSDir   string
	DescID  string
	Text    string
}

// NewConsensus says that tor has a new one, see Tor.Consensus.
type NewConsensus struct{}

// StatusEvent is news of tor's own state, as CLOCK_SKEW or CIRCUIT_ESTABLISHED.
type StatusEvent struct {
	Severity string
	Action   string
	Args     map[string]string
}

// WrongMaster says that clients of another master address were sent to this host's
// service, or its ob_config names a master whose descriptor lists points of
// another. They hang until it is right.
type WrongMaster struct{ Log string }

func (Connected) event()     {}
func (Disconnected) event()  {}
func (HSDesc) event()        {}
func (HSDescContent) event() {}
func (NewConsensus) event()  {}
func (StatusEvent) event()   {}
func (WrongMaster) event()   {}

func (e Connected) String() string    { return "connected to tor " + e.Version }
func (e Disconnected) String() string { return fmt.Sprintf("disconnected: %v", e.Err) }
func (e HSDesc) String() string {
	return strings.TrimSpace(fmt.Sprintf("descriptor %s %s %s %s", e.Action, e.Address, e.HSDir, e.Reason))
}

func (e HSDescContent) String() string {
	return fmt.Sprintf("descriptor of %s from %s, %d bytes", e.Address, e.HSDir, len(e.Text))
}
func (NewConsensus) String() string  { return "new consensus" }
func (e StatusEvent) String() string { return "status " + e.Severity + " " + e.Action }
func (e WrongMaster) String() string { return "wrong master address: " + e.Log }

// subscribed is what tor is asked to tell.
func subscribed() []control.EventCode {
	return []control.EventCode{
		control.EventCodeHSDesc, control.EventCodeHSDescContent, control.EventCodeStatusGeneral,
		control.EventCodeStatusClient,
	}
}

// translate turns bine's event into ours; nil: not one of ours.
func translate(e control.Event) Event {
	switch e := e.(type) {
	case *control.HSDescEvent:
		return HSDesc{
			Action: e.Action, Address: withOnion(e.Address), HSDir: relayID(e.HSDir), DescID: e.DescID, Reason: e.Reason,
		}
	case *control.HSDescContentEvent:
		text := e.Descriptor
		if text != "" {
			text += "\n" // bine cuts the last line feed off, the digest needs it
		}
		return HSDescContent{Address: withOnion(e.Address), HSDir: relayID(e.HSDir), DescID: e.DescID, Text: text}
	case *control.StatusEvent:
		if e.Action == "CONSENSUS_ARRIVED" {
			return NewConsensus{} // NEWCONSENSUS tells megabytes, and bine loses it
		}
		return StatusEvent{Severity: e.Severity, Action: e.Action, Args: e.Arguments}
	}
	return nil
}

// withOnion completes an address that tor names without its ending.
func withOnion(a string) string {
	if full := a + ".onion"; onionAddress.MatchString(full) {
		return full
	}
	return ""
}

// relayID takes the fingerprint out of $FINGERPRINT~nickname.
func relayID(s string) string {
	id, ok := strings.CutPrefix(s, "$")
	if !ok || len(id) < 40 || strings.Trim(id[:40], "0123456789ABCDEF") != "" {
		return ""
	}
	return id[:40]
}

// Subscription is one reader of events. When it is full the oldest event is
// dropped and counted.
type Subscription struct {
	b *bus
	c chan Event // closed by nobody
	// mu makes dropping and adding one step.
	mu sync.Mutex
}

// Subscribe starts a subscription that holds up to size events. Close it.
func (t *Tor) Subscribe(size int) *Subscription {
	b := t.events
	s := &Subscription{b: b, c: make(chan Event, max(size, 1))}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subs[s] = struct{}{}
	return s
}

// C is where the events come.
func (s *Subscription) C() <-chan Event { return s.c }

// Next waits for the next event.
func (s *Subscription) Next(ctx context.Context) (Event, error) {
	select {
	case e := <-s.c:
		return e, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	delete(s.b.subs, s)
}

func (s *Subscription) put(e Event) (dropped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		select {
		case s.c <- e:
			return dropped
		default:
		}
		select {
		case <-s.c:
			dropped++
		default:
		}
	}
}

// bus knows the subscriptions.
type bus struct {
	dropped prometheus.Counter

	mu   sync.Mutex
	subs map[*Subscription]struct{}
}

// publish hands an event to every subscription and never waits.
func (b *bus) publish(e Event) {
	b.mu.Lock()
	subs := make([]*Subscription, 0, len(b.subs))
	for s := range b.subs {
		subs = append(subs, s)
	}
	b.mu.Unlock()
	for _, s := range subs {
		b.dropped.Add(float64(s.put(e)))
	}
}
