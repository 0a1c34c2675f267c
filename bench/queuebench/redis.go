package queuebench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/internal/servertest"
)

// redisServer is Redis on a unix socket, with an append-only file that it
// syncs before it answers.
type redisServer struct {
	*servertest.Server
	socket string
}

func startRedis(ctx context.Context, base string) (*redisServer, error) {
	program, err := servertest.Find("redis-server", "redis-server")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(base, "redis")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "s")
	srv, err := servertest.Start(dir, syscall.SIGKILL, nil, program, "--port", "0", "--unixsocket", socket, "--save", "",
		"--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0", "--dir", dir)
	if err != nil {
		return nil, err
	}
	r := &redisServer{Server: srv, socket: socket}
	c := r.client(1)
	defer c.Close() //nolint:errcheck // nothing is lost with it
	if err := srv.Ready(ctx, func(ctx context.Context) error { return c.Ping(ctx).Err() }); err != nil {
		return nil, errors.Join(err, srv.Stop())
	}
	return r, nil
}

func (r *redisServer) client(connections int) *redis.Client {
	return redis.NewClient(&redis.Options{Network: "unix", Addr: r.socket, PoolSize: connections, DisableIdentity: true})
}

// clear empties the server, its file too, and syncs again with each command
// from then on.
func (r *redisServer) clear(ctx context.Context) error {
	c := r.client(1)
	defer c.Close() //nolint:errcheck // nothing is lost with it
	if err := errors.Join(c.FlushAll(ctx).Err(), c.BgRewriteAOF(ctx).Err()); err != nil {
		return err
	}
	return suite.Poll(ctx, "append-only file is short again", 30*time.Second, func() bool {
		info := c.InfoMap(ctx, "persistence").Val()["Persistence"]
		return info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0"
	})
}

// filling lets f write without waiting for the disk.
func (r *redisServer) filling(ctx context.Context, f func() error) error {
	c := r.client(1)
	defer c.Close() //nolint:errcheck // nothing is lost with it
	if err := c.ConfigSet(ctx, "appendfsync", "no").Err(); err != nil {
		return err
	}
	return errors.Join(f(), c.ConfigSet(ctx, "appendfsync", "always").Err())
}

// startRedisPeers starts Redis for the peers that keep their work in it.
func startRedisPeers(ctx context.Context, dir string) ([]queuePeer, func() error, error) {
	r, err := startRedis(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	const how = "Redis 7, unix socket, AOF with appendfsync always, go-redis v9.23.0, a connection per worker, "
	return []queuePeer{{
		name: "Redis Lua", perSecond: 60_000, open: r.open(luaApart),
		with: how + "one script takes a piece under a term and a deadline, one completes it with its result",
	}, {
		name: "Redis Lua, one call", perSecond: 90_000, open: r.open(luaTogether),
		with: how + "one script completes a piece and takes the next",
	}, {
		name: "asynq", perSecond: 20_000, slow: true, open: r.openAsynq(0),
		with: "asynq v0.26.0, defaults but Concurrency = workers; Redis as in the rows of Lua",
	}, {
		name: "asynq, tuned", perSecond: 20_000, open: r.openAsynq(5 * time.Millisecond),
		with: "asynq v0.26.0, Concurrency = workers, TaskCheckInterval 5 ms; Redis as in the rows of Lua",
	}}, r.Stop, nil
}

// What the scripts keep under one hash tag: pending pieces, running ones by
// deadline, results, the number of the term, the count of what was done.
const (
	luaTake = `
local function take()
  local id = redis.call('RPOP', KEYS[1])
  if not id then return false end
  redis.call('ZADD', KEYS[2], ARGV[2], id)
  redis.call('HSET', KEYS[3], id, ARGV[3])
  return id
end
if tonumber(redis.call('GET', KEYS[5]) or '0') > tonumber(ARGV[1]) then return redis.error_reply('term') end
`
	luaComplete = `
local function complete(id, result)
  if redis.call('ZREM', KEYS[2], id) == 0 then return 0 end
  redis.call('HDEL', KEYS[3], id)
  redis.call('HSET', KEYS[4], id, result)
  redis.call('INCR', KEYS[6])
  return 1
end
`
)

const luaWake = "{q}wake"

var (
	takeScript     = redis.NewScript(luaTake + "return take()")
	completeScript = redis.NewScript(luaTake + luaComplete + "return complete(ARGV[4], ARGV[5])")
	togetherScript = redis.NewScript(luaTake + luaComplete + "if ARGV[4] ~= '' then complete(ARGV[4], ARGV[5]) end return take()")

	luaKeys = []string{"{q}pending", "{q}running", "{q}owner", "{q}results", "{q}term", "{q}done"}
)

// result is what a completion carries, of the size of ours.
const result = `{"iterations":1000,"metrics":{"x":{"n":1000,"mean":0.5,"m2":100,"min":0,"max":1}}}`

// luaQueue is a queue in Redis as one would write it by hand: workers take
// pieces by a script and wait for a token when there is none.
type luaQueue struct {
	server   *redisServer
	client   *redis.Client
	size     int // workers
	work     func(ctx context.Context, q *luaQueue, worker string) error
	finished atomic.Int64
	pieces   int
	seen     chan time.Time // when a worker had a piece; capacity 1, full: nobody asked
	cancel   context.CancelFunc
	workers  sync.WaitGroup
	failed   chan error // capacity 1: the first
}

func (r *redisServer) open(work func(context.Context, *luaQueue, string) error) func(context.Context, string, int) (queue, error) {
	return func(ctx context.Context, _ string, workers int) (queue, error) {
		if err := r.clear(ctx); err != nil {
			return nil, err
		}
		q := &luaQueue{
			server: r, client: r.client(workers + 1), size: workers, work: work,
			seen: make(chan time.Time, 1), failed: make(chan error, 1),
		}
		runCtx, cancel := context.WithCancel(context.Background())
		q.cancel = cancel
		for i := range workers {
			q.workers.Go(func() {
				if err := q.run(runCtx, fmt.Sprintf("worker-%03d", i)); err != nil && runCtx.Err() == nil {
					select {
					case q.failed <- err:
					default:
					}
				}
			})
		}
		return q, nil
	}
}

// run works off what is there and waits for more.
func (q *luaQueue) run(ctx context.Context, worker string) error {
	for {
		if err := q.work(ctx, q, worker); err != nil {
			return err
		}
		// The client does not end a blocking call with its context.
		err := q.client.BLPop(ctx, time.Second, luaWake).Err()
		if ctx.Err() != nil || err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
}

// luaApart takes and completes by a call each, until nothing is left.
func luaApart(ctx context.Context, q *luaQueue, worker string) error {
	for {
		id, err := q.take(ctx, takeScript, worker, "")
		if err != nil || id == "" {
			return err
		}
		if err := completeScript.Run(ctx, q.client, luaKeys, 1, 0, worker, id, result).Err(); err != nil {
			return err
		}
		q.finished.Add(1)
	}
}

// luaTogether completes one piece and takes the next by the same call.
func luaTogether(ctx context.Context, q *luaQueue, worker string) error {
	id, err := q.take(ctx, togetherScript, worker, "")
	for err == nil && id != "" {
		id, err = q.take(ctx, togetherScript, worker, id)
		if err == nil {
			q.finished.Add(1)
		}
	}
	return err
}

// take runs a script that answers with a piece or with none.
func (q *luaQueue) take(ctx context.Context, script *redis.Script, worker, completed string) (string, error) {
	id, err := script.Run(ctx, q.client, luaKeys, 1, time.Now().Add(time.Minute).Unix(), worker, completed, result).Text()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	if err == nil {
		select {
		case q.seen <- time.Now():
		default:
		}
	}
	return id, err
}

func (q *luaQueue) fill(ctx context.Context, n int) error {
	return q.server.filling(ctx, func() error {
		for n > 0 {
			batch := min(n, 1000)
			n -= batch
			ids := make([]any, batch)
			for i := range ids {
				q.pieces++
				ids[i] = fmt.Sprintf("job-1:%d", q.pieces)
			}
			if err := q.client.LPush(ctx, luaKeys[0], ids...).Err(); err != nil {
				return err
			}
		}
		return q.client.LPush(ctx, luaWake, tokens(q.size)...).Err()
	})
}

func (q *luaQueue) done(context.Context) (int64, error) {
	select {
	case err := <-q.failed:
		return 0, err
	default:
		return q.finished.Load(), nil
	}
}

func (q *luaQueue) one(ctx context.Context) (time.Duration, error) {
	select {
	case <-q.seen: // of an earlier piece
	default:
	}
	q.pieces++
	began := time.Now()
	_, err := q.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.LPush(ctx, luaKeys[0], fmt.Sprintf("job-1:%d", q.pieces))
		p.LPush(ctx, luaWake, "")
		return nil
	})
	if err != nil {
		return 0, err
	}
	select {
	case at := <-q.seen:
		return at.Sub(began), nil
	case err := <-q.failed:
		return 0, err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (q *luaQueue) close() error {
	q.cancel()
	q.workers.Wait()
	return q.client.Close()
}

func tokens(n int) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = ""
	}
	return out
}
