package redis

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/crewtest"
	"github.com/skein-project/skein/internal/require"
	"github.com/skein-project/skein/internal/servertest"
)

// Prototypes: scripts that check what the contract says, each thing as it comes, and write the
// same.
var (
	protoAssign = rueidis.NewLuaScript(`
local P, term, holder, id, again, job, spec = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local f = redis.call('HMGET', P .. 'fence', 'term', 'holder')
if not f[1] then return {'NO_FENCE'} end
if #f[1] > #term or #f[1] == #term and f[1] > term then return {'STALE_TERM', f[1]} end
if f[1] ~= term then return {'AHEAD', f[1]} end
if f[2] ~= holder then return {'STALE_TERM', f[1]} end
local w = redis.call('HMGET', P .. 'w:' .. id, 'here', 'session', 'gateway')
if not w[2] then return {'GONE'} end
local given, full = {}, {}
for i = 8, #ARGV do
  local ref = job .. ' ' .. ARGV[i]
  local v, done = redis.call('HGET', P .. 'na:' .. id, ref), redis.call('HGET', P .. 'r:' .. id, ref)
  if done then
    redis.call('XADD', P .. 'in', 'MAXLEN', '~', 100000, '*', 'n', redis.call('INCR', P .. 'n'), 'k', 'result', 'w', id, 'd', done)
  elseif not v and again == '0' then
    if redis.call('HLEN', P .. 'na:' .. id) >= 256 then
      full[#full + 1] = ref
    else
      redis.call('HSET', P .. 'na:' .. id, ref, 'a 0 0')
      redis.call('HINCRBY', P .. 'refs', job, 1)
      redis.call('HSETNX', P .. 'specs', job, spec)
      given[#given + 1] = ref
    end
  end
end
if #given > 0 and w[1] == '1' then
  local seq = redis.call('HINCRBY', P .. 'w:' .. id, 'seq', 1)
  redis.call('PUBLISH', P .. 'push:' .. w[3], table.concat({id, w[2], seq, term, 'chunk', spec .. '\n' .. table.concat(given, ',')}, '\n'))
end
return {'OK', full}`)
	protoComplete = rueidis.NewLuaScript(`
local P, id, session, limit = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[5])
local w = redis.call('HMGET', P .. 'w:' .. id, 'here', 'session', 'bytes')
if not w[2] then return {'UNKNOWN'} end
if w[2] ~= session then return {'REPLACED', w[2]} end
if w[1] ~= '1' then return {'UNKNOWN'} end
local more = 0
for i = 7, #ARGV, 2 do more = more + #ARGV[i] end
if tonumber(redis.call('GET', P .. 'bytes') or '0') + more > limit or tonumber(w[3] or '0') + more > limit / 4 then return {'BUSY'} end
local out = {}
for i = 6, #ARGV, 2 do
  local ref, res = ARGV[i], ARGV[i + 1]
  local v = redis.call('HGET', P .. 'na:' .. id, ref)
  if redis.call('HEXISTS', P .. 'r:' .. id, ref) == 1 then
    out[#out + 1] = 'duplicate'
  elseif not v then
    out[#out + 1] = 'unknown'
  else
    out[#out + 1] = 'taken'
    redis.call('HDEL', P .. 'na:' .. id, ref)
    local job = string.match(ref, '^%S+')
    if string.sub(v, 1, 1) == 'a' and redis.call('HINCRBY', P .. 'refs', job, -1) <= 0 then
      redis.call('HDEL', P .. 'refs', job)
      redis.call('HDEL', P .. 'specs', job)
    end
    redis.call('HSET', P .. 'r:' .. id, ref, res)
    redis.call('INCRBY', P .. 'bytes', #res)
    redis.call('HINCRBY', P .. 'w:' .. id, 'bytes', #res)
    redis.call('XADD', P .. 'in', 'MAXLEN', '~', 100000, '*', 'n', redis.call('INCR', P .. 'n'), 'k', 'result', 'w', id, 'd', res)
  end
end
return {'OK', out}`)
	protoSettle = rueidis.NewLuaScript(`
local P, term, holder, id = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local f = redis.call('HMGET', P .. 'fence', 'term', 'holder')
if not f[1] then return {'NO_FENCE'} end
if #f[1] > #term or #f[1] == #term and f[1] > term then return {'STALE_TERM', f[1]} end
if f[1] ~= term then return {'AHEAD', f[1]} end
if f[2] ~= holder then return {'STALE_TERM', f[1]} end
local w = redis.call('HMGET', P .. 'w:' .. id, 'here', 'session', 'gateway')
if not w[2] then return {'GONE'} end
local refs = {}
for i = 5, #ARGV do
  local ref = ARGV[i]
  local n = redis.call('HSTRLEN', P .. 'r:' .. id, ref)
  if n > 0 then
    redis.call('HDEL', P .. 'r:' .. id, ref)
    redis.call('DECRBY', P .. 'bytes', n)
    redis.call('HINCRBY', P .. 'w:' .. id, 'bytes', -n)
  end
  local v = redis.call('HGET', P .. 'na:' .. id, ref)
  if v then
    redis.call('HDEL', P .. 'na:' .. id, ref)
    redis.call('HINCRBY', P .. 'refs', string.match(ref, '^%S+'), -1)
  end
  refs[#refs + 1] = ref
end
if w[1] == '1' then
  local seq = redis.call('HINCRBY', P .. 'w:' .. id, 'seq', 1)
  redis.call('PUBLISH', P .. 'push:' .. w[3], table.concat({id, w[2], seq, term, 'settled', table.concat(refs, ',')}, '\n'))
end
return {'OK'}`)
)

// Scripts that write the same, and check nothing: more is not to be had.
var (
	plainAssign = rueidis.NewLuaScript(`
local P, id, job, spec, refs = ARGV[1], ARGV[4], ARGV[6], ARGV[7], {}
for i = 8, #ARGV do
  refs[#refs + 1] = job .. ' ' .. ARGV[i]
  redis.call('HSET', P .. 'na:' .. id, job .. ' ' .. ARGV[i], 'a 0 0')
end
redis.call('HINCRBY', P .. 'refs', job, #refs)
redis.call('HSETNX', P .. 'specs', job, spec)
local seq = redis.call('HINCRBY', P .. 'w:' .. id, 'seq', 1)
redis.call('PUBLISH', P .. 'push:n1', table.concat({id, '1', seq, '1', 'chunk', spec .. '\n' .. table.concat(refs, ',')}, '\n'))
return {'OK', {}}`)
	plainComplete = rueidis.NewLuaScript(`
local P, id, out, size = ARGV[1], ARGV[2], {}, 0
for i = 6, #ARGV, 2 do
  local ref, res = ARGV[i], ARGV[i + 1]
  redis.call('HDEL', P .. 'na:' .. id, ref)
  redis.call('HINCRBY', P .. 'refs', string.match(ref, '^%S+'), -1)
  redis.call('HSET', P .. 'r:' .. id, ref, res)
  redis.call('XADD', P .. 'in', 'MAXLEN', '~', 100000, '*', 'n', redis.call('INCR', P .. 'n'), 'k', 'result', 'w', id, 'd', res)
  size = size + #res
  out[#out + 1] = 'taken'
end
redis.call('INCRBY', P .. 'bytes', size)
redis.call('HINCRBY', P .. 'w:' .. id, 'bytes', size)
return {'OK', out}`)
	plainSettle = rueidis.NewLuaScript(`
local P, id, refs = ARGV[1], ARGV[4], {}
for i = 5, #ARGV do
  redis.call('HDEL', P .. 'r:' .. id, ARGV[i])
  redis.call('DECRBY', P .. 'bytes', 200)
  redis.call('HINCRBY', P .. 'w:' .. id, 'bytes', -200)
  refs[#refs + 1] = ARGV[i]
end
local seq = redis.call('HINCRBY', P .. 'w:' .. id, 'seq', 1)
redis.call('PUBLISH', P .. 'push:n1', table.concat({id, '1', seq, '1', 'settled', table.concat(refs, ',')}, '\n'))
return {'OK'}`)
)

// BenchmarkScripts has 50 clients assign chunks to workers, complete and settle them, one at
// once and sixteen, by the scripts, by prototypes with the same checks and by such that check
// nothing, in turn; it tells the medians of all rounds, in calls a second, and of the ratios in
// each.
func BenchmarkScripts(b *testing.B) {
	if err := require.Missing(require.Redis); err != nil {
		b.Skip(err)
	}
	base, err := os.MkdirTemp("", "rd") //nolint:usetesting // short enough for a socket's address
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(base) }()
	r, err := servertest.StartRedis(b.Context(), base)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = r.Stop() }()
	for _, atOnce := range []int{1, 16} {
		b.Run(strconv.Itoa(atOnce), func(b *testing.B) { benchScripts(b, r, atOnce) })
	}
}

// rounds of a benchmark, its clients, the workers of each, and how often it calls a script in a
// round: a worker has some chunks at a time.
const (
	benchRounds  = 11
	benchClients = 50
	benchWorkers = 20
	benchCalls   = 100
	benchFew     = 20 // of many at once
)

func benchScripts(b *testing.B, r *servertest.Redis, atOnce int) {
	calls := benchCalls
	if atOnce > 1 {
		calls = benchFew
	}
	s, err := New(Options{Server: Server{Addresses: []string{"unix://" + r.Socket}, Prefix: "sk"}, Cluster: "c1", Self: "n1", Logger: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { _ = s.Run(ctx) }) // says that it was cancelled
	for s.Why() != nil {
		time.Sleep(time.Millisecond)
	}
	h := &holding{Store: s, term: "1", holder: "n1"}
	client, err := s.client()
	if err != nil {
		b.Fatal(err)
	}
	// rate is how many calls a second all clients make.
	rate := func(call func(worker int, refs []job.Attempt) error) float64 {
		var all sync.WaitGroup
		var failed atomic.Pointer[error]
		began := time.Now()
		for c := range benchClients {
			all.Go(func() {
				for n := range calls {
					refs := make([]job.Attempt, atOnce)
					for i := range refs {
						refs[i] = job.Attempt{Job: "jaaaaaaaaaaaaaaaaaaaaaaaaaa", Chunk: n*atOnce + i, Number: 1}
					}
					if err := call(c*benchWorkers+n%benchWorkers, refs); err != nil {
						failed.Store(&err)
						return
					}
				}
			})
		}
		all.Wait()
		if err := failed.Load(); err != nil {
			b.Fatal(*err)
		}
		return float64(benchClients*calls) / time.Since(began).Seconds()
	}
	const spec = `{"executor":"wasm","artefact":"0101010101010101010101010101010101010101010101010101010101010101","iterations":1000000,"chunk":10,"seed":7}`
	result, err := json.Marshal(crewtest.Result(job.Attempt{Job: "jaaaaaaaaaaaaaaaaaaaaaaaaaa", Chunk: 100, Number: 1}))
	if err != nil {
		b.Fatal(err)
	}
	sessions := make([]string, benchClients*benchWorkers)
	id := func(c int) string { return string(crewtest.ID(c)) }
	assign := func(c int, refs []job.Attempt) []string {
		return append([]string{id(c), "0", string(refs[0].Job), spec}, chunkTexts(refs)...)
	}
	settle := func(c int, refs []job.Attempt) []string { return append([]string{id(c)}, refTexts(refs)...) }
	own := func(x *script, args func(int, []job.Attempt) []string) func(int, []job.Attempt) error {
		return func(c int, refs []job.Attempt) error {
			got, err := h.mine(x, args(c, refs)...)
			if err == nil && got.what() != "OK" {
				err = errAnswer
			}
			return err
		}
	}
	raw := func(prefix string, x *rueidis.Lua, args ...string) error {
		got, err := x.Exec(ctx, client, nil, append([]string{prefix}, args...)).ToArray()
		if err == nil && answer(got).what() != "OK" {
			err = errAnswer
		}
		return err
	}
	mine := func(prefix string, x *rueidis.Lua, args func(int, []job.Attempt) []string) func(int, []job.Attempt) error {
		return func(c int, refs []job.Attempt) error {
			return raw(prefix, x, append([]string{"1", "n1"}, args(c, refs)...)...)
		}
	}
	completes := func(prefix string, x *rueidis.Lua) func(int, []job.Attempt) error {
		return func(c int, refs []job.Attempt) error {
			args := []string{id(c), sessions[c], "n1", fmt.Sprint(1 << 30)}
			for _, r := range refs {
				args = append(args, refText(r), string(result))
			}
			return raw(prefix, x, args...)
		}
	}
	const proto, plain = "proto:{c}:", "plain:{c}:"
	steps := []struct {
		name             string
		own, proto, none func(int, []job.Attempt) error
	}{
		{"assign", own(s.scripts.assign, assign), mine(proto, protoAssign, assign), mine(plain, plainAssign, assign)},
		{"complete", completes(s.prefix, s.scripts.complete.Lua), completes(proto, protoComplete), completes(plain, plainComplete)},
		{"settle", own(s.scripts.settle, settle), mine(proto, protoSettle, settle), mine(plain, plainSettle, settle)},
	}
	for b.Loop() {
		got := make([][3][]float64, len(steps))
		for round := range benchRounds {
			if err := client.Do(ctx, client.B().Flushall().Build()).Error(); err != nil {
				b.Fatal(err)
			}
			if _, err := h.run(h.scripts.raise, "1", "n1"); err != nil {
				b.Fatal(err)
			}
			if err := client.Do(ctx, client.B().Hset().Key(proto+"fence").FieldValue().FieldValue("term", "1").FieldValue("holder", "n1").Build()).Error(); err != nil {
				b.Fatal(err)
			}
			for c := range sessions {
				_, st, err := s.Attach(crewtest.Attaching(c))
				if err == nil {
					sessions[c] = fmt.Sprint(st.Session)
					err = client.Do(ctx, client.B().Copy().Source(s.prefix+"w:"+id(c)).Destination(proto+"w:"+id(c)).Build()).Error()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			// All that a client assigns it completes and settles; who is first changes.
			for i, step := range steps {
				for k := range 3 {
					which := (k + round) % 3
					got[i][which] = append(got[i][which], rate([]func(int, []job.Attempt) error{step.own, step.proto, step.none}[which]))
				}
			}
		}
		for i, step := range steps {
			own := got[i][0]
			b.ReportMetric(median(own), step.name+"/s")
			for k, than := range map[int]string{1: "checked", 2: "unchecked"} {
				ratios := make([]float64, len(own))
				for round := range own {
					ratios[round] = own[round] / got[i][k][round]
				}
				b.ReportMetric(median(ratios), step.name+"-x-"+than)
			}
		}
	}
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
