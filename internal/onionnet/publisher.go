package onionnet

import (
	"context"
	"crypto/ecdh"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/lease"
	"github.com/skein-project/skein/publisher"
	"github.com/skein-project/skein/publisher/descriptor"
	"github.com/skein-project/skein/tor"
)

// PublisherOptions say what publisher to start.
type PublisherOptions struct {
	Key     descriptor.SecretKey
	Clients []*ecdh.PublicKey
	Tor     *tor.Tor // of the host that it runs on
	Roster  *Roster
	Term    cluster.Term
	Timing  publisher.Timing // zero: the default
	Log     zerolog.Logger
}

// Publisher publishes one address through a host's tor.
type Publisher struct {
	pub     *publisher.Publisher
	o       PublisherOptions
	cancel  context.CancelFunc
	workers sync.WaitGroup

	mu      sync.Mutex
	floors  map[descriptor.Period]uint64
	reports []publisher.Report
	uploads []Upload
	content string
	changes []change
	network *descriptor.Consensus
}

// change is one of what is published.
type change struct {
	at      time.Time
	before  uint64    // version of the descriptors then
	version uint64    // of those with it; 0: none yet
	stored  time.Time // when the last directory that took part then had it
	dirs    map[descriptor.Fingerprint]bool
	network *descriptor.Consensus
}

// Upload is one post to a directory.
type Upload struct {
	Dir  descriptor.Fingerprint
	At   time.Time // of the answer
	Took time.Duration
	Err  error
}

// StartPublisher starts a publisher that has the duty at once.
func StartPublisher(ctx context.Context, o PublisherOptions) (*Publisher, error) {
	p := &Publisher{o: o, floors: map[descriptor.Period]uint64{}}
	var err error
	p.pub, err = publisher.New(publisher.Options{
		Key: o.Key, Clients: o.Clients, Uploader: uploader{p}, Floors: (*floors)(p), Timing: o.Timing, Log: o.Log, Report: p.report,
	})
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.cancel = cancel
	p.workers.Go(func() { _ = p.pub.Run(running) })
	p.workers.Go(func() { p.feed(running) })
	o.Roster.add(p)
	p.SetDuty(true, o.Term)
	return p, nil
}

// SetDuty gives or takes the duty. No lease stands behind it.
func (p *Publisher) SetDuty(publishing bool, term cluster.Term) {
	p.pub.SetDuty(lease.Duty{Publishing: publishing, Term: term})
}

// Kill ends the publisher without a word to anybody.
func (p *Publisher) Kill() {
	p.o.Roster.remove(p)
	p.cancel()
	p.workers.Wait()
}

// Status is that of the publisher.
func (p *Publisher) Status() publisher.Status { return p.pub.Status() }

// Reports returns all that an operator would have been told.
func (p *Publisher) Reports() []publisher.Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]publisher.Report(nil), p.reports...)
}

// Uploads returns all posts that were answered.
func (p *Publisher) Uploads() []Upload {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Upload(nil), p.uploads...)
}

// Settled returns, for each change of the points that is published, the time
// until the last directory that took part then had both descriptors.
func (p *Publisher) Settled() (all []time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.changes {
		if c.version > 0 {
			all = append(all, c.stored.Sub(c.at))
		}
	}
	return all
}

func (p *Publisher) report(r publisher.Report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reports = append(p.reports, r)
}

// told notes a change of the points.
func (p *Publisher) told(at time.Time, hosts []publisher.Host) {
	version := p.pub.Status().Version
	p.mu.Lock()
	defer p.mu.Unlock()
	content := contentOf(hosts, p.network, at)
	if content == p.content || p.network == nil {
		return
	}
	first := p.content == ""
	p.content = content
	if first && version > 0 {
		return // published before it could be read here
	}
	if n := len(p.changes); n == 0 || p.changes[n-1].version > 0 {
		p.changes = append(p.changes, change{at: at, before: version, dirs: map[descriptor.Fingerprint]bool{}, network: p.network})
	}
}

// Own counts the points in each host's own descriptor, as the publisher sees
// them.
func (p *Publisher) Own() map[string]int {
	own := map[string]int{}
	for line := range strings.Lines(contentOf(slices.Collect(maps.Values(p.o.Roster.Texts())), p.Network(), time.Now())) {
		node, _, _ := strings.Cut(line, " ")
		own[node]++
	}
	return own
}

// contentOf names the points of all hosts, as far as they can be read.
func contentOf(hosts []publisher.Host, network *descriptor.Consensus, now time.Time) string {
	if network == nil {
		return ""
	}
	schedule, err := network.Schedule(true)
	if err != nil {
		return ""
	}
	var all []string
	for _, h := range hosts {
		sealed, err := descriptor.Parse(h.Text, now)
		if err != nil || h.Weight == 0 {
			continue
		}
		period, err := sealed.Period(h.Address, schedule.Periods())
		if err != nil {
			continue
		}
		opened, err := sealed.Open(h.Address, period, nil, now)
		if err != nil {
			continue
		}
		for _, point := range opened.Points {
			all = append(all, fmt.Sprintf("%s %s %x", h.Node, point.Relay, point.AuthKey))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// Network returns the consensus that the publisher was last told.
func (p *Publisher) Network() *descriptor.Consensus {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.network
}

// feed tells the publisher each consensus that its tor has.
func (p *Publisher) feed(ctx context.Context) {
	sub := p.o.Tor.Subscribe(64)
	defer sub.Close()
	for {
		if err := p.look(ctx); err != nil {
			p.o.Log.Debug().Err(err).Msg("no consensus")
		}
		for again := time.After(feedTime); ; {
			select {
			case <-ctx.Done():
				return
			case <-again:
			case e := <-sub.C():
				switch e.(type) {
				case tor.NewConsensus, tor.Connected:
				default:
					continue
				}
			}
			break
		}
	}
}

func (p *Publisher) look(ctx context.Context) error {
	text, err := p.o.Tor.Consensus(ctx)
	if err != nil {
		return err
	}
	mds, err := p.o.Tor.Microdescriptors(ctx)
	if err != nil {
		return err
	}
	consensus, err := descriptor.ParseConsensus([]byte(text))
	if err != nil {
		return err
	}
	known, err := descriptor.ParseMicrodescs([]byte(mds))
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.network = consensus
	p.mu.Unlock()
	p.pub.SetNetwork(publisher.Network{Consensus: consensus, Microdescs: known, Testing: true})
	return nil
}

// floors keeps the revisions in memory: no host of this package is started
// again with what it had on disk.
type floors Publisher

// Load returns what was saved.
func (f *floors) Load() (map[descriptor.Period]uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.floors), nil
}

// Save keeps it.
func (f *floors) Save(all map[descriptor.Period]uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.floors = maps.Clone(all)
	return nil
}

// uploader reaches directories through the tor of a Publisher, and notes what
// became of it.
type uploader struct{ p *Publisher }

// Upload posts to one directory.
func (u uploader) Upload(ctx context.Context, a descriptor.Address, dir descriptor.Fingerprint, text []byte) error {
	begin := time.Now()
	results, err := u.p.o.Tor.Upload(ctx, a.String(), []string{dir.String()}, string(text))
	switch {
	case err != nil:
	case tor.Rejected(results[0].Err):
		err = fmt.Errorf("%w: %s", publisher.ErrRejected, dir)
	default:
		err = results[0].Err
	}
	u.p.posted(Upload{Dir: dir, At: time.Now(), Took: time.Since(begin), Err: err})
	return err
}

func (p *Publisher) posted(u Upload) {
	version := p.pub.Status().Version
	p.mu.Lock()
	defer p.mu.Unlock()
	p.uploads = append(p.uploads, u)
	if len(p.changes) == 0 {
		return
	}
	c := &p.changes[len(p.changes)-1]
	if c.version == 0 && version <= c.before || c.version > 0 && c.version != version {
		return
	}
	// One that a later consensus brings is no directory of this change, one that
	// was tried before is.
	if c.network == p.network {
		c.dirs[u.Dir] = true
	}
	if u.Err == nil && (c.version == 0 || c.dirs[u.Dir]) {
		c.version, c.stored = version, u.At
	}
}

// Fetch reads back what a directory has.
func (u uploader) Fetch(ctx context.Context, a descriptor.Address, dir descriptor.Fingerprint) ([]byte, error) {
	text, err := u.p.o.Tor.Fetch(ctx, a.String(), dir.String())
	return []byte(text), err
}
