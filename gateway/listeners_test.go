package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/centrifugal/centrifuge-go"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/registry"
	"github.com/skein-project/skein/gateway/relay"
	"github.com/skein-project/skein/realtime"
)

// cinema is what the host of a gateway shows to watchers.
type cinema struct {
	realtime.Source // what nobody asks for

	mu      sync.Mutex // for what follows
	jobs    []api.Job  // the newest first
	lease   api.LeaseSummary
	changed chan struct{}
}

func (c *cinema) Jobs(context.Context) (api.Jobs, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return api.Jobs{Jobs: slices.Clone(c.jobs)}, nil
}

func (c *cinema) Lease(context.Context) (api.Lease, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return api.Lease{LeaseSummary: c.lease}, nil
}

func (c *cinema) Events(context.Context, api.Cursor, time.Time, event.Subject) iter.Seq2[event.Event, error] {
	return func(func(event.Event, error) bool) {}
}
func (c *cinema) Oldest() api.Cursor { return api.Cursor{} }
func (c *cinema) Cursor() api.Cursor { return api.Cursor{} }
func (c *cinema) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// show has something be another way.
func (c *cinema) show(change func(*cinema)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
	close(c.changed)
	c.changed = make(chan struct{})
}

func newCinema() *cinema {
	return &cinema{changed: make(chan struct{}), lease: api.LeaseSummary{Holder: "n2", Term: 5}}
}

// at has a gateway watch it.
func (c *cinema) at(o *Options) {
	h := realtime.New(realtime.Options{Boot: "b", Source: c, Log: c, Header: func() api.Header { return api.Header{} }, Logger: zerolog.Nop()})
	o.Watch = func(r realtime.Request) relay.Watch { return h.Watch(r) }
}

// submits has a user have a job.
func (f *floor) submits(user, key string) api.Job {
	f.t.Helper()
	owner := cluster.UserPrincipal(user)
	spec := f.spec()
	spec.Key = key
	j := api.Job{ID: job.NewID(owner, key), Name: key, State: job.Running, Owner: owner, SubmittedAt: f.clock(), Chunks: api.ChunkCounts{Total: 8, Pending: 8}, Iterations: api.IterationCounts{Total: 1 << 60}}
	f.add("n1", event.KindJobSubmitted, event.JobSubmitted{Job: j.ID, Spec: spec, Owner: owner, Chunks: 8})
	f.cinema.show(func(c *cinema) { c.jobs = append([]api.Job{j}, c.jobs...) })
	return j
}

// becomes has a job be another way.
func (f *floor) becomes(id job.ID, change func(*api.Job)) {
	f.cinema.show(func(c *cinema) {
		for i := range c.jobs {
			if c.jobs[i].ID == id {
				change(&c.jobs[i])
			}
		}
	})
}

// listener is who listens by an access token.
type listener struct {
	*centrifuge.Client
	t     *testing.T
	token string
	ended chan uint32
	said  chan uint32 // of channels: 0 is that it listens
	again chan centrifuge.SubscribedEvent
	heard chan string
	size  chan int
}

// short is the token that an access token gets to listen with.
func (f *floor) short(access string) (out api.RealtimeToken) {
	f.t.Helper()
	if status, p := f.ask("POST", "/v1/realtime/token", access, nil, &out); status != 200 {
		f.t.Fatalf("%d %+v", status, p)
	}
	return out
}

// hearer connects by an access token.
func (f *floor) hearer(access string) *listener {
	f.t.Helper()
	l := &listener{
		t: f.t, token: f.short(access).Token.Reveal(), ended: make(chan uint32, 10), said: make(chan uint32, 10), again: make(chan centrifuge.SubscribedEvent, 10),
		heard: make(chan string, 1000), size: make(chan int, 1000),
	}
	l.Client = centrifuge.NewJsonClient(f.realtime(), centrifuge.Config{Token: l.token, HandshakeTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second})
	f.t.Cleanup(l.Close)
	l.OnDisconnected(func(e centrifuge.DisconnectedEvent) { l.ended <- e.Code })
	if err := l.Connect(); err != nil {
		f.t.Fatal(err)
	}
	return l
}

// to has it listen to a channel, or be refused.
func (l *listener) to(name string, want uint32) *centrifuge.Subscription {
	l.t.Helper()
	sub, err := l.NewSubscription(name)
	if err != nil {
		l.t.Fatal(err)
	}
	sub.OnSubscribed(func(e centrifuge.SubscribedEvent) { l.said <- 0; l.again <- e })
	sub.OnUnsubscribed(func(e centrifuge.UnsubscribedEvent) { l.said <- e.Code })
	sub.OnPublication(func(e centrifuge.PublicationEvent) {
		l.heard <- name + " " + inShort(l.t, e.Data)
		l.size <- len(e.Data)
	})
	if err := sub.Subscribe(); err != nil {
		l.t.Fatal(err)
	}
	if got := within(l.t, "listening to "+name, l.said); got != want {
		l.t.Fatalf("listening to %s: %d, want %d", name, got, want)
	}
	return sub
}

func within[T any](t *testing.T, what string, from <-chan T) (x T) {
	t.Helper()
	select {
	case x = <-from:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: nothing", what)
	}
	return x
}

// inShort is a message in short.
func inShort(t *testing.T, text []byte) string {
	var p api.ChannelPush
	if err := json.Unmarshal(text, &p); err != nil || p.V != 1 || p.At.IsZero() {
		t.Errorf("%s: %v", text, err)
	}
	list := []string{p.Type}
	if p.Cluster != nil {
		list = append(list, fmt.Sprint("term ", p.Cluster.Term))
		if p.Cluster.Held {
			list = append(list, "held")
		}
	}
	if p.Job != nil {
		p.Jobs = append(p.Jobs, *p.Job)
	}
	for _, j := range p.Jobs {
		list = append(list, j.Name+" "+string(j.State))
	}
	return strings.Join(list, ", ")
}

// hears waits until it hears all of these, in any order; what else it hears is as it may be.
func (l *listener) hears(want ...string) {
	l.t.Helper()
	var had []string
	for end := time.After(20 * time.Second); ; {
		select {
		case x := <-l.heard:
			had = append(had, x)
		case <-end:
			l.t.Fatalf("heard %q, want %q", had, want)
		}
		if !slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(had, w) }) {
			return
		}
	}
}

func (p *pair) listens() {
	theirs := p.submits("bob", "theirs")
	first, second := p.submits("ann", "first"), p.submits("ann", "second")
	watch := p.short(p.world.token("user:ann", "watch"))
	if watch.Channel != "user:#u:ann" || watch.WSURL != p.o.Centrifugo.Clients || watch.ExpiresAt.Sub(p.clock()).Round(time.Minute) != 10*time.Minute {
		p.t.Errorf("%+v", watch)
	}
	l := p.hearer(p.world.token("user:ann", "watch"))
	l.to("user:#u:ann", 0)
	l.to("job:"+string(first.ID), 0)
	l.to("cluster", 0)
	// How things are, to who begins to listen.
	l.hears("user:#u:ann jobs, first running, second running", "job:"+string(first.ID)+" job, first running", "cluster cluster, term 5, held")
	// What changes.
	p.becomes(theirs.ID, func(j *api.Job) { j.State = job.Completed })
	p.becomes(second.ID, func(j *api.Job) { j.State = job.Completed })
	l.hears("user:#u:ann jobs, second completed")
	p.becomes(first.ID, func(j *api.Job) { j.State = job.Failed })
	l.hears("user:#u:ann jobs, first failed", "job:"+string(first.ID)+" job, first failed")
	p.cinema.show(func(c *cinema) { c.lease.Holder = "" })
	l.hears("cluster cluster, term 5")
	p.cinema.show(func(c *cinema) { c.jobs, c.lease = nil, api.LeaseSummary{Holder: "n1", Term: 6} })
	l.hears("cluster cluster, term 6, held", "job:"+string(first.ID)+" gone")
	for len(l.heard) > 0 {
		if x := <-l.heard; strings.Contains(x, "theirs") {
			p.t.Errorf("another's job: %s", x)
		}
	}
}

func (p *pair) misses() {
	j := p.submits("ann", "missed")
	name := "job:" + string(j.ID)
	submits := p.world.token("user:ann", "submit")
	stays, goes := p.hearer(submits), p.hearer(submits)
	stays.to(name, 0)
	goes.to(name, 0)
	<-goes.again
	stays.hears(name + " job, missed running")
	goes.hears(name + " job, missed running")
	if err := goes.Disconnect(); err != nil {
		p.t.Fatal(err)
	}
	within(p.t, "it is away", goes.ended)
	p.becomes(j.ID, func(j *api.Job) { j.State = job.Completed })
	stays.hears(name + " job, missed completed")
	if err := goes.Connect(); err != nil {
		p.t.Fatal(err)
	}
	if e := within(p.t, "it listens again", goes.again); !e.WasRecovering || !e.Recovered {
		p.t.Errorf("%+v", e)
	}
	goes.hears(name + " job, missed completed")
}

func (p *pair) bounded() {
	long := strings.Repeat("é", 3000)
	for i := range 60 {
		j := p.submits("bob", "many"+string(rune('a'+i)))
		p.becomes(j.ID, func(j *api.Job) { j.Reason, j.State = long, job.Failed })
	}
	l := p.hearer(p.world.token("user:bob", "watch"))
	j := p.submits("bob", "one")
	p.becomes(j.ID, func(j *api.Job) { j.Name, j.Reason = long, long })
	l.to("job:"+string(j.ID), 0)
	l.to("user:#u:bob", 0)
	for range 2 {
		if n := within(p.t, "how it is", l.size); n > 4<<10 {
			p.t.Errorf("%d bytes", n)
		}
	}
}

func (p *pair) alone() {
	ours, theirs := p.submits("ann", "ours"), p.submits("bob", "theirs")
	l := p.hearer(p.world.token("user:ann", "submit"))
	for name, want := range map[string]uint32{
		"job:" + string(theirs.ID): 103, "job:" + string(job.NewID("user:ann", "none")): 103, "job:1": 102, "user:#u:bob": 103, "user:#u:ann,bob": 102, "user:ann": 102,
		"cluster": 103, "clusters": 102, api.WorkChannel + string(p.id): 103, "job:" + string(ours.ID): 0,
	} {
		l.to(name, want)
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
	defer cancel()
	if _, err := l.Publish(ctx, "job:"+string(ours.ID), []byte(`{}`)); err == nil {
		p.t.Error("a listener publishes")
	}
	if code, _, says := over(p.t, l.Client, api.RPCAttach, attaching(), nil); code != 1403 {
		p.t.Errorf("a listener asks as a worker: %d %s", code, says)
	}
	if status, prob := p.rpc(l.token, api.RPCAttach, attaching(), nil); status != 401 {
		p.t.Errorf("by HTTP: %d %+v", status, prob)
	}
	if status, prob := p.ask("POST", "/v1/realtime/token", p.world.token("user:ann", "work"), nil, nil); status != 403 {
		p.t.Errorf("a token for work: %d %+v", status, prob)
	}
	if status, prob := p.ask("POST", "/v1/realtime/token", p.token, nil, nil); status != 401 {
		p.t.Errorf("a worker's token: %d %+v", status, prob)
	}
}

func (p *pair) withdrawn() {
	j := p.submits("ann", "withdrawn")
	access := p.world.token("user:ann", "watch")
	l, others := p.hearer(access), p.hearer(p.world.token("user:ann", "watch"))
	l.to("job:"+string(j.ID), 0)
	others.to("job:"+string(j.ID), 0)
	began := time.Now()
	is, err := registry.ParseToken(access)
	if err != nil {
		p.t.Fatal(err)
	}
	p.add("n1", event.KindAccessSet, event.AccessSet{ID: is.ID, Hash: is.Hash(), Owner: "user:ann", Expires: p.clock().Add(time.Hour).Unix(), Actor: "uid:0@n1"})
	if code := within(p.t, "revoked", l.ended); code != uint32(api.DisconnectRevoked) {
		p.t.Errorf("revoked: %d", code)
	}
	p.t.Logf("disconnected after %v", time.Since(began))
	if took := time.Since(began); took > time.Second {
		p.t.Errorf("disconnected after %v", took)
	}
	if status, prob := p.ask("POST", "/v1/realtime/token", access, nil, nil); status != 401 {
		p.t.Errorf("another token to listen with: %d %+v", status, prob)
	}
	// By its token it is not let in again, or put out by the first thing that it asks.
	if err := l.Connect(); err != nil {
		p.t.Fatal(err)
	}
	if code := within(p.t, "once more", l.ended); code != uint32(api.DisconnectRevoked) {
		p.t.Errorf("once more: %d", code)
	}
	select {
	case code := <-others.ended:
		p.t.Errorf("who has another access token is put out as well: %d", code)
	default:
	}
}
