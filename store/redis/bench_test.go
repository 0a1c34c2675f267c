package redis

import (
	"context"
	"fmt"
	"os"
	"slices"
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
	"github.com/skein-project/skein/scheduler/stream"
)

// Scripts that write the same, and check nothing.
var (
	plainAssign = rueidis.NewLuaScript(`
local P, id, job, spec, ref = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
redis.call('HSET', P .. 'na:' .. id, ref, 'a 0 0')
redis.call('HINCRBY', P .. 'refs', job, 1)
redis.call('HSETNX', P .. 'specs', job, spec)
local seq = redis.call('HINCRBY', P .. 'w:' .. id, 'seq', 1)
redis.call('PUBLISH', P .. 'push:n1', id .. '\n' .. seq .. '\n' .. spec .. '\n' .. ref)
return 'OK'`)
	plainComplete = rueidis.NewLuaScript(`
local P, id, job, ref, res = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
redis.call('HDEL', P .. 'na:' .. id, ref)
redis.call('HINCRBY', P .. 'refs', job, -1)
redis.call('HSET', P .. 'r:' .. id, ref, res)
redis.call('INCRBY', P .. 'bytes', #res)
redis.call('XADD', P .. 'in', 'MAXLEN', '~', 100000, '*', 'n', redis.call('INCR', P .. 'n'), 'k', 'result', 'w', id, 'd', res)
return 'OK'`)
)

// BenchmarkScripts has 50 clients assign chunks to workers and complete them, by the scripts
// and by such that check nothing, in turn; it tells the medians of five rounds and the ratios.
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
	const clients, each = 50, 200
	h := &holding{Store: s, term: "1", holder: "n1", out: make(chan stream.Frame, 1), told: map[string]uint64{}, floors: stream.Floors{}}
	if err := h.raise(); err != nil {
		b.Fatal(err)
	}
	client, err := s.client()
	if err != nil {
		b.Fatal(err)
	}
	spec := `{"executor":"wasm","artefact":"0101010101010101010101010101010101010101010101010101010101010101","iterations":1000000,"chunk":10,"seed":7}`
	// rate is how many calls a second all clients make.
	rate := func(call func(client, n int) error) float64 {
		var all sync.WaitGroup
		var failed atomic.Pointer[error]
		began := time.Now()
		for c := range clients {
			all.Go(func() {
				for n := range each {
					if err := call(c, n); err != nil {
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
		return clients * each / time.Since(began).Seconds()
	}
	plain := func(x *rueidis.Lua, args ...string) error {
		return x.Exec(ctx, client, nil, append([]string{"plain:{c}:"}, args...)).Error()
	}
	ref := func(n int) job.Attempt { return job.Attempt{Job: "jaaaaaaaaaaaaaaaaaaaaaaaaaa", Chunk: n, Number: 1} }
	for b.Loop() {
		var got [4][]float64
		for range 5 {
			if err := client.Do(ctx, client.B().Flushall().Build()).Error(); err != nil {
				b.Fatal(err)
			}
			if err := h.raise(); err != nil {
				b.Fatal(err)
			}
			var seats []seat
			for c := range clients {
				t, _, err := s.Attach(crewtest.Attaching(c))
				if err != nil {
					b.Fatal(err)
				}
				seats = append(seats, t.(seat))
			}
			id := func(c int) string { return string(crewtest.ID(c)) }
			got[0] = append(got[0], rate(func(c, n int) error {
				_, err := h.mine(s.scripts.assign, id(c), "0", string(ref(n).Job), spec, fmt.Sprintf("%d 1", n))
				return err
			}))
			got[1] = append(got[1], rate(func(c, n int) error {
				return plain(plainAssign, id(c), string(ref(n).Job), spec, refText(ref(n)))
			}))
			got[2] = append(got[2], rate(func(c, n int) error {
				_, err := seats[c].Complete([]stream.Result{crewtest.Result(ref(n))})
				return err
			}))
			got[3] = append(got[3], rate(func(c, n int) error {
				return plain(plainComplete, id(c), string(ref(n).Job), refText(ref(n)), `{"job":"jaaaaaaaaaaaaaaaaaaaaaaaaaa","chunk":1,"attempt":1,"result":{"iterations":10,"metrics":{"x":{"n":10,"mean":0.1,"m2":0.3,"min":-1,"max":1e300}}},"seconds":0.25}`)
			}))
		}
		for i := range got {
			slices.Sort(got[i])
		}
		b.ReportMetric(got[0][2], "assign/s")
		b.ReportMetric(got[0][2]/got[1][2], "assign-x-plain")
		b.ReportMetric(got[2][2], "complete/s")
		b.ReportMetric(got[2][2]/got[3][2], "complete-x-plain")
	}
}
