package onion

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/lease"
	"github.com/skein-project/skein/publisher"
	"github.com/skein-project/skein/publisher/descriptor"
)

// publishers runs a publisher for each address whose key is here. The loop owns
// it, but for last.
type publishers struct {
	dir   string // of the revisions
	keys  *keyring
	tor   directoryTor
	base  zerolog.Logger // of publishers
	log   zerolog.Logger
	m     *metrics
	limit *repeats
	note  func(event.Kind, any)
	group *sync.WaitGroup

	running map[descriptor.Address]*publishing
	last    atomic.Uint64 // seconds since the epoch when something was published; 0: never
}

// publishing is the publisher of one address.
type publishing struct {
	p       *publisher.Publisher
	clients []event.OnionClient // what it was made with
	cancel  context.CancelFunc
	done    chan struct{}
	given   bool // it has an order
	order   order
	noted   uint64 // version of the last publish_done
}

// order is what a publisher is to do, and with what.
type order struct {
	duty    lease.Duty
	hosts   []publisher.Host
	solo    bool
	network *publisher.Network // nil: not known yet
	version uint64             // of network
}

// keep runs publishers for these addresses and no others.
func (p *publishers) keep(ctx context.Context, settings []state.Onion) {
	for a, pub := range p.running {
		i := slices.IndexFunc(settings, func(s state.Onion) bool { return s.Key == a })
		ended := false
		select {
		case <-pub.done:
			ended = true
		default:
		}
		if i < 0 || ended || !sameClients(settings[i].Clients, pub.clients) {
			pub.cancel()
			<-pub.done // it ends with its context, at once
			delete(p.running, a)
		}
	}
	for _, s := range settings {
		if p.running[s.Key] != nil {
			continue
		}
		key, ok := p.keys.get(s.Key)
		if !ok {
			continue
		}
		pub, err := p.start(ctx, key, s)
		if err != nil {
			if p.limit.first("publisher: " + err.Error()) {
				p.log.Error().Err(err).Msg("onion address cannot be published")
			}
			continue
		}
		p.running[s.Key] = pub
	}
}

func sameClients(a, b []event.OnionClient) bool {
	return slices.EqualFunc(a, b, func(x, y event.OnionClient) bool { return x.Name == y.Name && bytes.Equal(x.Key, y.Key) })
}

// start runs the publisher of an address until ctx ends.
func (p *publishers) start(ctx context.Context, key descriptor.SecretKey, s state.Onion) (*publishing, error) {
	pub := &publishing{clients: s.Clients, done: make(chan struct{})}
	opts := publisher.Options{
		Key: key, Uploader: uploader{p.tor}, Log: p.base,
		Floors: floorsFile{filepath.Join(p.dir, key.Address().ID()+".json")},
		Report: func(r publisher.Report) { p.report(pub, r) },
	}
	for _, c := range s.Clients {
		k, err := clientKey(c.Key)
		if err != nil {
			return nil, fmt.Errorf("client %s of %s: %w", c.Name, key.Address(), err)
		}
		opts.Clients = append(opts.Clients, k)
	}
	var err error
	if pub.p, err = publisher.New(opts); err != nil {
		return nil, err
	}
	ctx, pub.cancel = context.WithCancel(ctx)
	p.group.Go(func() {
		defer close(pub.done)
		if err := pub.p.Run(ctx); err != nil && p.limit.first(err.Error()) {
			p.log.Error().Err(err).Msg("publisher ended")
		}
	})
	return pub, nil
}

// give has the publisher of an address do what it should by now. ok is false if
// there is none.
func (p *publishers) give(a descriptor.Address, next order) (st publisher.Status, ok bool) {
	pub := p.running[a]
	if pub == nil {
		return st, false
	}
	if next.network != nil && (!pub.given || next.version != pub.order.version) {
		pub.p.SetNetwork(*next.network)
	}
	if !pub.given || !slices.EqualFunc(next.hosts, pub.order.hosts, sameHost) {
		pub.p.SetHosts(next.hosts)
	}
	if next.solo != pub.order.solo {
		pub.p.SetSolo(next.solo)
	}
	if !pub.given || next.duty != pub.order.duty {
		pub.p.SetDuty(next.duty)
	}
	pub.given, pub.order = true, next
	return pub.p.Status(), true
}

func sameHost(a, b publisher.Host) bool {
	return a.Node == b.Node && a.Address == b.Address && a.Weight == b.Weight && a.Reserve == b.Reserve &&
		bytes.Equal(a.Text, b.Text) && slices.Equal(a.Relays, b.Relays)
}

// report takes what a publisher found; it is called by the publisher's
// goroutine.
func (p *publishers) report(pub *publishing, r publisher.Report) {
	a, st := r.Address.String(), pub.p.Status()
	switch {
	case r.Published != nil:
		p.last.Store(uint64(max(0, time.Now().Unix())))
		p.m.posts.WithLabelValues("done").Inc()
		p.m.published.Set(float64(time.Now().Unix()))
		if pub.noted == r.Published.Version {
			return // the other period's
		}
		pub.noted = r.Published.Version
		points := map[cluster.NodeID]int{}
		maps.Copy(points, st.Points)
		p.note(event.KindPublishDone, event.PublishDone{
			Address: a, Term: r.Published.Term, Points: points, Stored: r.Published.Stored, Asked: r.Published.Asked, NextAt: r.Next.Unix(),
		})
	case r.Unpublished != nil:
		p.m.posts.WithLabelValues("failed").Inc()
		if p.limit.first("unpublished " + a) {
			p.note(event.KindPublishFailed, event.PublishFailed{
				Address: a, Term: st.Term, Stored: r.Unpublished.Stored, Asked: r.Unpublished.Asked, Reason: "too few directories have it",
			})
		}
	case r.Failed != nil:
		p.m.posts.WithLabelValues("unmade").Inc()
		if p.limit.first("failed " + a + r.Failed.Error()) {
			p.note(event.KindPublishFailed, event.PublishFailed{Address: a, Term: st.Term, Reason: clipReason(r.Failed.Error())})
		}
	case r.Fenced != nil:
		p.m.posts.WithLabelValues("fenced").Inc()
		p.note(event.KindPublishFenced, event.PublishFenced{Address: a, Term: r.Fenced.Own, Later: r.Fenced.Later})
	case r.Foreign != nil:
		p.m.posts.WithLabelValues("foreign").Inc()
		p.note(event.KindPublishForeign, event.PublishForeign{Address: a, Revision: r.Foreign.Revision, Dir: r.Foreign.Dir.String()})
	case r.Refused != nil:
		p.refused(a, *r.Refused)
	}
}

// refused reports a host whose share or descriptor cannot be used.
func (p *publishers) refused(address string, r publisher.Refused) {
	p.m.posts.WithLabelValues("refused").Inc()
	if !p.limit.first("refused " + address + string(r.Node) + r.Err.Error()) {
		return
	}
	p.log.Warn().Err(r.Err).Str("peer", string(r.Node)).Msg("share of the onion addresses refused")
	p.note(event.KindPublishRefused, event.PublishRefused{Address: address, Node: r.Node, Reason: clipReason(r.Err.Error())})
}

func clipReason(s string) string { return s[:min(len(s), cluster.MaxReason)] }
