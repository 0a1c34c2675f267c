package proof

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/store"
)

const (
	// most bounds the bytes of the events of an answer, but for the first.
	most = 1 << 20
	// fresh is for how long records that were read serve for further answers: they come
	// from the loop that also keeps the lease.
	fresh = 10 * time.Second
)

// Log is the event log of this host.
type Log interface {
	Head(src event.SourceID) event.Head
	Reader(src event.SourceID, from uint64) *store.Reader
}

// Options are what a Proofs is made of. All must be set.
type Options struct {
	Cluster member.ClusterID
	RootKey ed25519.PublicKey
	// Head is the end of a chain, Group the frames from an event of it to the next head,
	// see store.Reader.Run.
	Head  func(src event.SourceID) event.Head
	Group func(src event.SourceID, from uint64) ([]byte, error)
	// Records are those of the membership, Checked the last check of the whole log; nil:
	// there was none.
	Records func(context.Context) (member.Records, error)
	Checked func() *api.LogCheck
}

// Proofs answers what proves an event. Its methods may be called from any goroutine.
type Proofs struct {
	o Options

	mu      sync.Mutex
	records member.Records
	readAt  time.Time
}

// New returns a Proofs.
func New(o Options) *Proofs { return &Proofs{o: o} }

// Of returns what Options.Group is of a log.
func Of(log Log) func(event.SourceID, uint64) ([]byte, error) {
	return func(src event.SourceID, from uint64) ([]byte, error) {
		r := log.Reader(src, from)
		defer r.Close()
		frames, _, err := r.Run(1)
		return frames, err
	}
}

// Proof implements status/proof.Log.
func (p *Proofs) Proof(ctx context.Context, src event.SourceID, seq uint64) (api.EventProof, error) {
	if end := p.o.Head(src); seq > end.Seq {
		return api.EventProof{}, absent(src, seq, end.Seq)
	}
	frames, err := p.o.Group(src, seq)
	if gone, ok := errors.AsType[*store.CompactedError](err); ok {
		return api.EventProof{}, api.Errorf(api.CodeCompacted, "%v", gone).WithHint("another host may keep it, or its archive")
	}
	if errors.Is(err, io.EOF) {
		return api.EventProof{}, absent(src, seq, 0)
	}
	if err != nil {
		return api.EventProof{}, err
	}
	out := api.EventProof{Cluster: p.o.Cluster.String(), RootKey: p.o.RootKey, Certs: []string{}}
	if out.Events, out.Head, err = unpack(frames); err != nil {
		return api.EventProof{}, fmt.Errorf("event %d of %s: %w", seq, src, err)
	}
	if out.Certs, err = p.certs(ctx, out.Head); err != nil {
		return api.EventProof{}, err
	}
	out.Checked = checked(p.o.Checked(), src, seq)
	return out, nil
}

func absent(src event.SourceID, seq, end uint64) *api.Problem {
	if end == 0 {
		return api.Errorf(api.CodeNotFound, "this host has no event of %s", src)
	}
	return api.Errorf(api.CodeNotFound, "no event %d of %s: this host has %d of them", seq, src, end)
}

// unpack takes the events out of the frames of a group, as many as an answer has, and
// the head at their end.
func unpack(frames []byte) (events []api.RawEvent, head event.Head, err error) {
	size := 0
	for len(frames) > 0 {
		f, n, err := record.ParseFrame(frames)
		if err != nil {
			return nil, head, err
		}
		frames = frames[n:]
		switch size += len(f.Payload); {
		case f.Type == record.TypeHead:
			if head, err = record.DecodeHead(f.Payload); err != nil {
				return nil, head, err
			}
		case len(events) == 0 || size <= most:
			e, err := record.DecodeEvent(f.Payload)
			if err != nil {
				return nil, head, err
			}
			events = append(events, api.RawEvent{Source: e.Source, Seq: e.Seq, Prev: e.Prev, Hash: e.Hash, Raw: f.Payload})
		}
	}
	if len(events) == 0 || head.Seq == 0 {
		return nil, head, errors.New("no head stands after it")
	}
	return events, head, nil
}

// certs are those of the key that signed a head, up to the one that the root key
// signed. Whoever gets them checks them; none: the key is certified by no record that
// is here.
func (p *Proofs) certs(ctx context.Context, head event.Head) ([]string, error) {
	records, err := p.read(ctx)
	if err != nil {
		return nil, err
	}
	out := []string{}
	var issuer ed25519.PublicKey
	for _, s := range records.Certs {
		c, err := member.ParseCert(s)
		if err == nil && c.Node == head.Source.Node && record.VerifyHead(p.o.Cluster.String(), head, c.IDPub) == nil {
			out, issuer = append(out, s.String()), c.Issuer
			break
		}
	}
	if len(out) == 0 || issuer.Equal(p.o.RootKey) {
		return out, nil
	}
	i := slices.IndexFunc(records.Certs, func(s member.Signed) bool {
		c, err := member.ParseCert(s)
		return err == nil && c.IDPub.Equal(issuer) && c.Sponsor()
	})
	if i < 0 {
		return []string{}, nil
	}
	return append(out, records.Certs[i].String()), nil
}

func (p *Proofs) read(ctx context.Context) (member.Records, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.readAt.IsZero() && time.Since(p.readAt) < fresh {
		return p.records, nil
	}
	records, err := p.o.Records(ctx)
	if err == nil {
		p.records, p.readAt = records, time.Now()
	}
	return p.records, err
}

// checked is what the last check of the whole log says of an event; nil: it did not
// come to it.
func checked(c *api.LogCheck, src event.SourceID, seq uint64) *api.EventCheck {
	if c == nil || c.EndedAt == nil || c.Result == nil {
		return nil
	}
	at := slices.IndexFunc(c.Result.Sources, func(s api.LogSource) bool { return s.Source == src && s.Seq >= seq })
	if bad := c.Bad(); bad != "" || at >= 0 {
		return &api.EventCheck{At: *c.EndedAt, OK: bad == "", Problem: bad}
	}
	return nil
}
