package api

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// EventProof is the answer of GET /v1/events/{node}/{inc}/{seq}: an event as its host
// wrote it, and what proves that to whoever knows the root key of the cluster. Head is
// signed with the key of its host, which Certs certify.
type EventProof struct {
	Header
	// Cluster is the id of the cluster, which is part of what hosts sign.
	Cluster string `json:"cluster"`
	// Events are the event that was asked for and those after it in its chain up to Head,
	// at most about a MiB of them: what is missing is asked for by the number that is next.
	Events []RawEvent `json:"events"`
	Head   event.Head `json:"head"`
	// Withheld says that the next event is not for whoever asks, who therefore cannot
	// check the chain up to Head.
	Withheld bool `json:"withheld,omitempty"`
	// Certs are the certificate of the host's key and, unless the root key signed that,
	// its sponsor's, in the form in which they travel; none: this host does not have it.
	Certs   []string `json:"certs"`
	RootKey []byte   `json:"root_key"` // Ed25519, 32 bytes
	// Checked is the last check of this host's whole log, if it came to the event; null:
	// there was none since the daemon started.
	Checked *EventCheck `json:"checked"`
}

// RawEvent is an event of which Raw is the exact bytes: Hash is
// SHA-256("evt1" || Prev || Raw).
type RawEvent struct {
	Source event.SourceID `json:"source"`
	Seq    uint64         `json:"seq"`
	Prev   cluster.Hash   `json:"prev"`
	Hash   cluster.Hash   `json:"hash"`
	Raw    []byte         `json:"raw"`
}

// EventCheck is what a check of a host's whole log found.
type EventCheck struct {
	At      time.Time `json:"at"`
	OK      bool      `json:"ok"`
	Problem string    `json:"problem,omitempty"`
}

// EventProof asks for an event as its host wrote it, and for what proves it.
func (c *Client) EventProof(ctx context.Context, src event.SourceID, seq uint64) (EventProof, error) {
	return get[EventProof](ctx, c, fmt.Sprintf("/v1/events/%s/%d/%d", url.PathEscape(string(src.Node)), src.Inc, seq))
}
