package demo

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/cut"
	"github.com/skein-project/skein/internal/servertest/redistest"
)

// TestRedisStore: outside workers kept in a Redis work on jobs, one after the other, while a
// gateway, the holder and Redis are killed, and Redis is emptied: each chunk counts once, and
// each job is what one computer alone makes of it, to the bit. While there is no Redis, hosts work on.
//
// SKEIN_PROVE=1 has 50 computers at two gateways, does all that three times, and then sends them
// the many jobs of outsideFaults, while Redis is killed and emptied as well.
func TestRedisStore(t *testing.T) {
	parallel(t)
	n, rounds, chunks, size := 4, 1, 400, 4_000_000/leisurely(t)
	if proving() {
		n, rounds, chunks, size = 50, 3, 500, 20_000_000
	}
	redis, _ := redistest.Start(t)
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
	spec, err := d.upload(ctx, filepath.Join(bin, "examples", "pi.wasm"))
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
	jobs := newSameJobs(ctx, t, d, urls, ann, spec)
	ready := func(h *host) {
		t.Helper()
		eventually(ctx, t, 3*time.Minute, h.name+" is a gateway again", func() error {
			return outsideAsk(ctx, http.MethodGet, urls[h]+"/readyz", "", nil, nil)
		})
	}
	jobs.goOn("at first")
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
		jobs.goOn("a gateway was killed")
		start1(t, other)
		kill(t, holder)
		jobs.goOn("the holder was killed")
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
		jobs.goOn("Redis came back")
		if err := redis.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		jobs.goOn("Redis was emptied")
	}
	jobs.end()
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
