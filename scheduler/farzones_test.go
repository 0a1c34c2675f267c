package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/state/flows"
	"github.com/skein-project/skein/internal/simnet"
	"github.com/skein-project/skein/scheduler/plan"
	"github.com/skein-project/skein/scheduler/runs"
)

const (
	workerPort = 7
	// failoverTime is what coord takes until others hold, deadTime until a host is dead.
	failoverTime = 6 * time.Second
	deadTime     = 120 * time.Second
)

// apart is how long a packet takes from zone to zone.
var apart = map[[2]string]time.Duration{{"ams", "fra"}: 25 * time.Millisecond, {"ams", "syd"}: 150 * time.Millisecond, {"fra", "syd"}: 100 * time.Millisecond}

// farWorld is hosts in three zones 50-300 ms apart, of whose packets one in a hundred is lost.
// The first host of each zone may hold. All read the same log.
type farWorld struct {
	t       *testing.T
	net     *simnet.Network
	log     *memLog
	zones   []string
	zoneOf  map[cluster.NodeID]string
	addr    map[cluster.NodeID]netip.Addr
	workers map[cluster.NodeID]*fakeWorker
	rigs    map[string]*rig // of the first hosts
	lost    map[string]int  // how often a zone was lost; even: it is there
	holder  string
	term    cluster.Term
	stop    func() error
}

func newFarWorld(t *testing.T, each int) *farWorld {
	t.Helper()
	w := &farWorld{
		t: t, net: simnet.New(1, simnet.Link{Delay: 300 * time.Microsecond, Jitter: 200 * time.Microsecond}), log: newMemLog("a"), zones: []string{"ams", "fra", "syd"},
		zoneOf: map[cluster.NodeID]string{}, addr: map[cluster.NodeID]netip.Addr{}, workers: map[cluster.NodeID]*fakeWorker{}, rigs: map[string]*rig{}, lost: map[string]int{},
	}
	var all []*fakeWorker
	for i := range 3 * each {
		zone := w.zones[i%3]
		n := cluster.NodeID(fmt.Sprintf("%s-%02d", zone, i/3))
		w.zoneOf[n], w.addr[n], w.workers[n] = zone, netip.AddrFrom4([4]byte{10, 0, byte(i % 3), byte(i/3 + 1)}), newFakeWorker(n, 2)
		all = append(all, w.workers[n])
	}
	for a := range w.addr {
		for b := range w.addr {
			pair := []string{w.zoneOf[a], w.zoneOf[b]}
			slices.Sort(pair)
			if d := apart[[2]string{pair[0], pair[1]}]; d > 0 {
				w.net.SetLink(w.addr[a], w.addr[b], simnet.Link{Delay: d, Jitter: d / 10, Loss: 0.01})
			}
		}
	}
	for i, zone := range w.zones {
		self := all[i]
		r := newRig(t, w.log, append([]*fakeWorker{self}, slices.DeleteFunc(slices.Clone(all), func(x *fakeWorker) bool { return x == self })...)...)
		r.s.o.Dial = func(ctx context.Context, to cluster.NodeID) (net.Conn, error) {
			return w.net.Host(w.addr[self.node]).Dial(ctx, netip.AddrPortFrom(w.addr[to], workerPort))
		}
		r.s.SetZones(w.zoneOf)
		w.rigs[zone] = r
	}
	for n := range w.workers {
		w.listen(n)
	}
	return w
}

// listen has a host's worker take streams.
func (w *farWorld) listen(n cluster.NodeID) {
	l, err := w.net.Host(w.addr[n]).Listen(workerPort)
	if err != nil {
		w.t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go w.workers[n].serve(c)
		}
	}()
}

// holds has the first host of a zone schedule.
func (w *farWorld) holds(zone string) {
	w.holder = zone
	w.term++
	w.stop = w.rigs[zone].run(w.term)
}

func (w *farWorld) in(zone string) (out []cluster.NodeID) {
	for n, z := range w.zoneOf {
		if z == zone {
			out = append(out, n)
		}
	}
	return out
}

// lose has all hosts of a zone crash. If one of them held, one of the next zone does after a
// while.
func (w *farWorld) lose(zone string) {
	w.lost[zone]++
	if zone == w.holder {
		if err := w.stop(); !errors.Is(err, context.Canceled) {
			w.t.Error(err)
		}
	}
	for _, n := range w.in(zone) {
		w.net.Host(w.addr[n]).Crash()
		w.workers[n].kill()
	}
	time.Sleep(failoverTime)
	w.health(zone, cluster.Suspect)
	if zone == w.holder {
		w.holds(w.zones[(slices.Index(w.zones, zone)+1)%3])
	}
	round := w.lost[zone]
	time.AfterFunc(deadTime-failoverTime, func() {
		if w.lost[zone] == round {
			w.health(zone, cluster.Dead)
		}
	})
}

// back has a zone start again.
func (w *farWorld) back(zone string) {
	w.lost[zone]++
	for _, n := range w.in(zone) {
		w.net.Host(w.addr[n]).Start()
		x := w.workers[n]
		x.mu.Lock()
		x.down = false
		x.mu.Unlock()
		w.listen(n)
	}
	w.health(zone, cluster.Alive)
	time.Sleep(15 * time.Second) // the holder looks for them with pauses
}

func (w *farWorld) health(zone string, h cluster.Health) {
	for _, n := range w.in(zone) {
		for _, r := range w.rigs {
			r.s.SetHealth(n, h)
		}
	}
}

// close ends everything.
func (w *farWorld) close() {
	_ = w.stop()
	for n, x := range w.workers {
		w.net.Host(w.addr[n]).Crash()
		x.kill()
	}
	time.Sleep(5 * time.Minute) // and what is timed
}

// split submits a job over all zones.
func (w *farWorld) split(key string, chunks int) job.ID {
	w.t.Helper()
	s := testSpec(key, chunks)
	s.Zones = w.zones
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	sub, err := w.rigs[w.holder].s.Submit(ctx, s, "uid:1", WaitStable, false)
	if err != nil {
		w.t.Fatal(err)
	}
	return sub.Job
}

// each submits a job in each zone.
func (w *farWorld) each(key string, chunks int, policy flow.ZonePolicy, deadline time.Duration) flow.RunID {
	w.t.Helper()
	d, err := (flow.Zoned{Job: testSpec("", chunks), Policy: policy, DeadlineSeconds: deadline.Seconds()}).Workflow(w.zones)
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := d.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	b := event.WorkflowSubmitted{Run: flow.NewRunID("uid:1", key), Owner: "uid:1", Def: text, Params: []byte("{}")}
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	if a, err := w.rigs[w.holder].s.Flow(ctx, runs.Request{Submit: &b}); err != nil || !a.Created {
		w.t.Fatalf("%+v %v", a, err)
	}
	return b.Run
}

func (w *farWorld) job(id job.ID) state.Job { return w.rigs["ams"].job(id) }

func (w *farWorld) run(id flow.RunID) (r flows.Run) {
	w.log.View(func(st *state.State) { r, _ = st.Flows().Run(id) })
	return r
}

// byZone is how many chunks of a job each zone did.
func (w *farWorld) byZone(j state.Job) map[string]int {
	out := map[string]int{}
	for _, x := range j.Workers {
		out[w.zoneOf[x.Worker]] += x.Chunks
	}
	return out
}

// ends waits for the end of a job over all zones: each of its chunks counts once.
func (w *farWorld) ends(id job.ID, limit time.Duration) state.Job {
	w.t.Helper()
	began := time.Now()
	j := w.rigs[w.holder].ended(id, limit)
	wantDone(w.t, j)
	if got := w.log.acceptsOf(id); len(got) != j.Chunks || slices.Max(slices.Collect(maps.Values(got))) != 1 {
		w.t.Errorf("%s: %d of %d chunks count, one %d times", j.Spec.Key, len(got), j.Chunks, slices.Max(slices.Collect(maps.Values(got))))
	}
	w.t.Logf("%s: %d chunks by %v, %s after it was looked at", j.Spec.Key, j.Chunks, w.byZone(j), time.Since(began).Round(time.Millisecond))
	return j
}

// runEnds waits for the end of a job in each zone, and returns how each did. None ran
// elsewhere, and no chunk counts twice.
func (w *farWorld) runEnds(id flow.RunID, limit time.Duration) (flow.State, string) {
	w.t.Helper()
	w.rigs[w.holder].until(limit, "end of the run", func() bool { r := w.run(id); return !r.Open() })
	r := w.run(id)
	var out []string
	for _, try := range r.Tries {
		zone := strings.TrimPrefix(try.Step, "zone_")
		if j := w.job(try.Job); try.Job != "" {
			for z, n := range w.byZone(j) {
				if z != zone && n > 0 {
					w.t.Errorf("%s: %d chunks of %s ran in %s", id, n, zone, z)
				}
			}
			for chunk, n := range w.log.acceptsOf(try.Job) {
				if n != 1 {
					w.t.Errorf("%s: chunk %d of %s counts %d times", id, chunk, zone, n)
				}
			}
		}
		end := "open"
		if try.End != nil {
			end = string(try.End.State)
		}
		out = append(out, zone+":"+end)
	}
	slices.Sort(out)
	return r.State, strings.Join(out, " ")
}

// TestZonesFarApart: jobs over zones that are far apart, and jobs in each of them, while
// nothing happens and while each zone is lost, the holder's first. What counts counts once; a
// job goes on in the zones that are left, and of jobs in each zone the policy says how they
// end.
func TestZonesFarApart(t *testing.T) {
	sizes := []int{3}
	if os.Getenv("SKEIN_PROVE") == "1" {
		sizes = []int{3, 30}
	}
	for _, size := range sizes {
		t.Run(fmt.Sprint("3x", size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFarWorld(t, size)
				w.holds("ams")
				defer w.close()
				r := w.rigs["ams"]
				r.until(time.Minute, "streams to all workers", func() bool {
					return !slices.ContainsFunc(r.s.Workers(), func(v plan.WorkerView) bool { return !v.Connected }) && len(r.s.Workers()) == 3*size
				})
				rounds := 6 // of chunks that each slot computes, a second each
				all := 3 * size * 2 * rounds
				for zone, n := range w.byZone(w.ends(w.split("calm", all), time.Minute)) {
					if n < all/6 {
						t.Errorf("%s did %d of %d chunks", zone, n, all)
					}
				}
				if st, got := w.runEnds(w.each("calm", all/3, flow.BestEffort, 0), time.Minute); st != flow.Completed || got != "ams:completed fra:completed syd:completed" {
					t.Errorf("in each zone: %s, %s", st, got)
				}
				for i := range 3 {
					zone := w.holder // and after that the next one holds
					id := w.split(fmt.Sprint("lost ", i), all)
					r := w.rigs[w.holder]
					r.until(time.Minute, "a third of it is done", func() bool { return w.job(id).Counts.Accepted > all/3 })
					w.lose(zone)
					w.ends(id, 5*time.Minute)
					left := slices.DeleteFunc(slices.Clone(w.zones), func(z string) bool { return z == zone })
					did := w.byZone(w.job(id))
					for _, z := range left {
						if did[z] == 0 {
							t.Errorf("%s did nothing", z)
						}
					}
					w.back(zone)
				}
				for i, c := range []struct {
					policy  flow.ZonePolicy
					holders bool // the holder's zone is lost, else another one
					want    flow.State
					lost    string
				}{
					{flow.BestEffort, true, flow.Partial, "timeout"},
					{flow.BestEffort, false, flow.Partial, "timeout"},
					{flow.MostZones, true, flow.Completed, "cancelled"},
					{flow.MostZones, false, flow.Completed, "cancelled"},
					{flow.FailFast, false, flow.Failed, "timeout"},
				} {
					zone := w.holder
					if !c.holders {
						zone = w.zones[(slices.Index(w.zones, zone)+1)%3]
					}
					id := w.each(fmt.Sprint("each ", i), all/3, c.policy, 40*time.Second)
					time.Sleep(3 * time.Second)
					w.lose(zone)
					want := "ams:completed fra:completed syd:completed"
					want = strings.Replace(want, zone+":completed", zone+":"+c.lost, 1)
					if st, got := w.runEnds(id, 5*time.Minute); st != c.want || got != want {
						t.Errorf("%s, %s is lost: %s, %s; want %s, %s: %s", c.policy, zone, st, got, c.want, want, w.run(id).Reason)
					}
					w.back(zone)
				}
			})
		})
	}
}
