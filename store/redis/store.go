package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/internal/wait"
)

// Times of a connection.
const (
	askTime   = 3 * time.Second // a script, and the wait for its answer
	lookEvery = 5 * time.Second // whether the server still is one that serves
	tickEvery = time.Second
	tickAt    = 100 // workers of one tick
	pauseMost = 5 * time.Second
)

// Options configures a Store. All must be set but what says otherwise.
type Options struct {
	Server  Server
	Cluster string         // its id
	Self    cluster.NodeID // under which name pushes come
	// Workers is how many may be attached; default 200000. ResultBytes bounds results whose
	// fate is not known, a quarter of it those of one worker; default 1 GiB.
	Workers     int
	ResultBytes int64
	Wall        func() time.Time // default time.Now
	Logger      zerolog.Logger
	Registerer  prometheus.Registerer // may be nil
}

// Store is the outside workers of a cluster. Its methods may be called from any goroutine;
// while Redis is down they fail with desk.ErrBusy.
type Store struct {
	o       Options
	log     zerolog.Logger
	prefix  string
	scripts scripts
	metrics *metrics
	conn    atomic.Pointer[conn]
	push    atomic.Pointer[func(desk.Push)]
	count   atomic.Uint64

	mu     sync.Mutex // for what follows, as of the last look
	stats  desk.Stats
	claims int
}

// errDown is all that those outside learn; where Redis is, and what ails it, the log says.
var errDown = errors.New("the store of outside workers does not serve now")

// conn is the connection, or why there is none.
type conn struct {
	client rueidis.Client
	why    error
}

// New returns a Store that connects when it runs.
func New(o Options) (*Store, error) {
	if o.Workers == 0 {
		o.Workers = 200_000
	}
	if o.ResultBytes == 0 {
		o.ResultBytes = 1 << 30
	}
	if o.Wall == nil {
		o.Wall = time.Now
	}
	s := &Store{
		o: o, log: o.Logger.With().Str("component", "redis").Logger(),
		prefix: keysOf(o.Server.Prefix, o.Cluster),
	}
	s.conn.Store(&conn{why: errors.New("not connected yet")})
	var err error
	if s.scripts, err = loadScripts(); err != nil {
		return nil, err
	}
	s.metrics, err = newMetrics(o.Registerer)
	return s, err
}

// keysOf is what the keys of a cluster begin with.
func keysOf(prefix, cluster string) string {
	return fmt.Sprintf("%s:{%s:%s}:", prefix, prefix, cluster)
}

// OnPush implements desk.Shared. It is to be called before Run.
func (s *Store) OnPush(f func(desk.Push)) { s.push.Store(&f) }

// Why implements desk.Crew.
func (s *Store) Why() error {
	if s.conn.Load().why != nil {
		return errDown
	}
	return nil
}

// Run keeps a connection, until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	for tries := 0; ctx.Err() == nil; tries++ {
		err := s.connected(ctx, func() { tries = 0 })
		if ctx.Err() != nil {
			break
		}
		if before := s.conn.Swap(&conn{why: err}); before.why == nil || before.why.Error() != err.Error() {
			s.log.Warn().Err(err).Str("addr", s.o.Server.String()).Msg("Redis does not serve: outside workers wait, hosts work on")
		}
		s.metrics.up.Set(0)
		if wait.For(ctx, min(100*time.Millisecond+wait.Backoff(tries), pauseMost)) != nil {
			break
		}
	}
	return ctx.Err()
}

// connected connects, and serves until something fails.
func (s *Store) connected(ctx context.Context, good func()) error {
	client, err := s.o.Server.dial()
	if err != nil {
		return err
	}
	defer client.Close()
	warned, err := s.check(ctx, client)
	if err != nil {
		return err
	}
	if err := s.load(ctx, client); err != nil {
		return err
	}
	for _, w := range warned {
		s.log.Warn().Str("addr", s.o.Server.String()).Msg(w.Error())
	}
	ctx, cancel := context.WithCancel(ctx)
	var own sync.WaitGroup
	defer own.Wait()
	defer cancel()
	lost := make(chan error, 1)
	if s.push.Load() != nil {
		own.Go(func() { lost <- s.listen(ctx, client) })
	}
	s.conn.Store(&conn{client: client})
	s.metrics.up.Set(1)
	s.log.Info().Str("addr", s.o.Server.String()).Msg("Redis serves")
	good()
	look, tick := wait.NewTicker(lookEvery), wait.NewTicker(tickEvery)
	defer look.Stop()
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-lost:
			return fmt.Errorf("subscription: %w", err)
		case <-look.C:
			look.Next()
			if _, err := s.check(ctx, client); err != nil {
				return err
			}
			s.measure()
		case <-tick.C:
			tick.Next()
			_, _ = s.run(s.scripts.tick, fmt.Sprint(tickAt)) // the look says that it is down
		}
	}
}

// load has Redis know the scripts: one that it does not know when it is asked for is run after
// those that were asked for behind it.
func (s *Store) load(ctx context.Context, client rueidis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	commands := make(rueidis.Commands, len(s.scripts.list))
	for i, x := range s.scripts.list {
		commands[i] = client.B().ScriptLoad().Script(x.text).Build()
	}
	for i, r := range client.DoMulti(ctx, commands...) {
		if err := r.Error(); err != nil {
			return fmt.Errorf("script %s: %w", s.scripts.list[i].name, err)
		}
	}
	return nil
}

// listen hears what workers at this host are told.
func (s *Store) listen(ctx context.Context, client rueidis.Client) error {
	return client.Receive(ctx, client.B().Subscribe().Channel(s.prefix+"push:"+string(s.o.Self)).Build(), func(m rueidis.PubSubMessage) {
		p, err := pushOf(m.Message)
		if err != nil {
			s.log.Warn().Err(err).Msg("push in Redis is none of skein's")
			return
		}
		(*s.push.Load())(p)
	})
}

// measure looks how much there is.
func (s *Store) measure() {
	client, err := s.client()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	all := client.DoMulti(ctx, client.B().Zcard().Key(s.prefix+"live").Build(), client.B().Get().Key(s.prefix+"bytes").Build(),
		client.B().Zcard().Key(s.prefix+"claims").Build())
	n, err := all[0].AsInt64()
	if err != nil {
		return
	}
	bytes, err := all[1].AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return
	}
	claims, err := all[2].AsInt64()
	if err != nil {
		return
	}
	s.mu.Lock()
	s.stats, s.claims = desk.Stats{Workers: int(n), Attached: int(n), Bytes: int(bytes)}, int(claims)
	s.mu.Unlock()
}

func (s *Store) client() (rueidis.Client, error) {
	c := s.conn.Load()
	if c.why != nil {
		return nil, fmt.Errorf("%w: %w", desk.ErrBusy, errDown)
	}
	return c.client, nil
}

// run runs a script.
func (s *Store) run(x *script, args ...string) (answer, error) {
	client, err := s.client()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	began := time.Now()
	out, err := x.Exec(ctx, client, nil, append([]string{s.prefix}, args...)).ToArray()
	s.metrics.took.WithLabelValues(x.name).Observe(time.Since(began).Seconds())
	if err != nil {
		return nil, s.unanswered(x, err)
	}
	return answer(out), nil
}

func (s *Store) unanswered(x *script, err error) error {
	s.metrics.failed.Inc()
	s.log.Debug().Err(err).Str("script", x.name).Msg("Redis did not answer")
	return fmt.Errorf("%w: %w", desk.ErrBusy, errDown)
}

// runAll runs scripts in their order, by one question; repeats must be without effect.
func (s *Store) runAll(calls []call) ([]answer, error) {
	client, err := s.client()
	if err != nil || len(calls) == 0 {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	asked := make(rueidis.Commands, len(calls))
	for i, c := range calls {
		asked[i] = client.B().Evalsha().Sha1(c.script.sha).Numkeys(0).Arg(s.prefix).Arg(c.args...).Build()
	}
	began := time.Now()
	out := make([]answer, len(calls))
	for i, r := range client.DoMulti(ctx, asked...) {
		got, err := r.ToArray()
		if e, ok := rueidis.IsRedisErr(err); ok && e.IsNoScript() { // it and those after it again, one by one
			for k, c := range calls[i:] {
				if out[i+k], err = s.run(c.script, c.args...); err != nil {
					return nil, err
				}
			}
			return out, nil
		}
		if err != nil {
			return nil, s.unanswered(calls[i].script, err)
		}
		s.metrics.took.WithLabelValues(calls[i].script.name).Observe(time.Since(began).Seconds())
		out[i] = got
	}
	return out, nil
}
