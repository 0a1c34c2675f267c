package demo

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/cut"
	"github.com/skein-project/skein/internal/require"
	"github.com/skein-project/skein/internal/servertest"
	"github.com/skein-project/skein/internal/wasmtest"
	"github.com/skein-project/skein/offline"
)

// TestRedisStore: outside workers kept in a Redis work on a job while a gateway, the holder
// and Redis are killed, and Redis is emptied: each chunk counts once, and the job is what one
// computer alone makes of it, to the bit. While there is no Redis, hosts work on.
//
// SKEIN_PROVE=1 has 50 computers at two gateways, does all that three times, and then sends them
// the many jobs of outsideFaults, while Redis is killed and emptied as well.
func TestRedisStore(t *testing.T) {
	require.Need(t, require.Redis)
	parallel(t)
	n, rounds, chunks, size := 4, 1, 400, uint64(4_000_000)
	if proving() {
		n, rounds, chunks, size = 50, 3, 2000, 20_000_000
	}
	base, err := os.MkdirTemp("", "rd") //nolint:usetesting // short enough for a socket's address
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	redis, err := servertest.StartRedis(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Stop() })
	more := []string{"store = \"redis\"\n", fmt.Sprintf("[redis]\naddresses = \"unix://%s\"\n", redis.Socket), "[api]\nbearer = \"all\"\n"}
	if proving() { // so many have other addresses than the cluster's users, and each its own
		more = append([]string{"trusted_proxies = \"127.0.0.0/8\"\n"}, more...)
	}
	apart := cut.New()
	t.Cleanup(apart.Close)
	var ports []int
	d, ctx, urls := startGatewaysIn(t, 3, func(d *demo) {
		d.env = func(_, port int) []string {
			ports = append(ports, port)
			at, err := apart.Front(port)
			if err != nil {
				t.Error(err)
			}
			return []string{"SKEIN_MESH_ADVERTISE=" + at.String()}
		}
	}, more...)
	shutOutSoon(ctx, t, d, urls)
	pi := filepath.Join(bin, "examples", "pi.wasm")
	spec, err := d.upload(ctx, pi)
	if err != nil {
		t.Fatal(err)
	}
	var gateways []string
	at := d.hosts
	if proving() {
		at = at[:2]
	}
	for _, h := range at {
		gateways = append(gateways, urls[h])
	}
	all := startHomeWorkers(ctx, t, d, gateways, n)
	ann := newPortalUser(ctx, t, d.hosts[0], urls[d.hosts[0]], "ann")
	spec.Key, spec.Iterations, spec.Chunk, spec.Seed = "in redis", uint64(chunks)*size, size, 7
	spec.Permission.Outside = true
	sub, err := ann.submit(ctx, urls[d.hosts[0]], spec)
	if err != nil {
		t.Fatal(err)
	}
	// accepted is how many chunks count, and how many of them are outside workers'.
	accepted := func() (all, outside int) {
		for _, h := range d.hosts {
			j, err := h.api.Job(ctx, string(sub.Job))
			if err != nil || j.Chunks.Accepted <= all {
				continue
			}
			all, outside = j.Chunks.Accepted, 0
			for _, w := range j.Workers {
				if cluster.IsOutside(w.Node) {
					outside += w.Accepted
				}
			}
		}
		return all, outside
	}
	goOn := func(what string) {
		t.Helper()
		_, before := accepted()
		eventually(ctx, t, 5*time.Minute, what+": outside workers count", func() error {
			if all, now := accepted(); now < before+3 && all < chunks {
				return fmt.Errorf("%d before, %d now, %d of all", before, now, all)
			}
			return nil
		})
	}
	ready := func(h *host) {
		t.Helper()
		eventually(ctx, t, 3*time.Minute, h.name+" is a gateway again", func() error {
			return outsideAsk(ctx, http.MethodGet, urls[h]+"/readyz", "", nil, nil)
		})
	}
	goOn("at first")
	for range rounds {
		holder, err := d.holder(ctx)
		if err != nil {
			t.Fatal(err)
		}
		other := d.hosts[0]
		if other == holder {
			other = d.hosts[1]
		}
		kill(t, other)
		goOn("a gateway was killed")
		start1(t, other)
		kill(t, holder)
		goOn("the holder was killed")
		start1(t, holder)
		ready(holder)
		if err := redis.Stop(); err != nil {
			t.Fatal(err)
		}
		eventually(ctx, t, time.Minute, "gateways say that there is no Redis", func() error {
			err := outsideAsk(ctx, http.MethodGet, urls[other]+"/readyz", "", nil, nil)
			if err == nil {
				return errors.New("it is ready")
			}
			return nil
		})
		own := spec
		own.Key, own.Iterations = fmt.Sprint("without redis ", time.Now().UnixNano()), 10*own.Chunk
		own.Permission.Outside = false
		alone := submit(ctx, t, other, own)
		if j := finish(ctx, t, other, alone.Job); j.State != job.Completed {
			t.Errorf("without Redis a job of hosts is %s", j.State)
		}
		if err := redis.Start(ctx); err != nil {
			t.Fatal(err)
		}
		goOn("Redis came back")
		if err := redis.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		goOn("Redis was emptied")
	}
	got := finish(ctx, t, d.hosts[2], sub.Job)
	_, outside := accepted()
	t.Logf("%d of %d chunks by outside workers; attempts %+v", outside, chunks, got.Attempts)
	if got.State != job.Completed || got.Chunks.Accepted != chunks || got.Attempts.Failed > 0 || outside == 0 {
		t.Errorf("%s: %+v, attempts %+v, %d by outside workers", got.State, got.Chunks, got.Attempts, outside)
	}
	module, err := os.ReadFile(pi)
	if err != nil {
		t.Fatal(err)
	}
	want, err := offline.RunLocal(ctx, offline.LocalJob{Spec: spec.WithDefaults(), Module: module, RunnerArgv: []string{plainSkein(), "runner"}, Modules: wasmtest.Modules(t)})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Aggregates, want.Aggregates) || got.Iterations != want.Iterations {
		t.Errorf("with outside workers %v %+v\nlocally %v %+v", got.Iterations, got.Aggregates, want.Iterations, want.Aggregates)
	}
	if proving() {
		f := &outsideFaults{t: t, ctx: ctx, d: d, at: at, urls: urls, all: all, ann: ann, cut: func(h *host, on bool) {
			apart.Put(ports[slices.Index(d.hosts, h)], map[bool]int{true: 1}[on])
		}}
		f.also = []func(){
			func() {
				f.note("Redis killed")
				err := redis.Kill()
				f.pass(time.Duration(1+f.rnd.IntN(8)) * time.Second)
				if err = errors.Join(err, redis.Start(ctx)); err != nil {
					t.Error(err)
				}
			},
			func() {
				f.note("Redis emptied")
				if err := redis.Flush(ctx); err != nil {
					t.Error(err)
				}
			},
		}
		f.run(spec, 1000)
		if f.did["Redis killed"] == 0 || f.did["Redis emptied"] == 0 {
			t.Errorf("Redis was not among what was lost: %v", sorted(f.did))
		}
		nothingLeft(ctx, t, d)
		verifyAllHosts(ctx, t, d)
	}
}
