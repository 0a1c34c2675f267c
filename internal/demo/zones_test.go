package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
)

// zoned puts hosts into zones, in their order.
func zoned(zones ...string) func(*demo) {
	return func(d *demo) {
		d.env = func(i, _ int) []string { return []string{"SKEIN_NODE_ZONE=" + zones[i]} }
	}
}

// zoneIs waits until a host says that a zone is so.
func zoneIs(ctx context.Context, t *testing.T, h *host, name, health string) (out api.Zone) {
	t.Helper()
	eventually(ctx, t, 90*time.Second, name+" is "+health, func() error {
		list, err := h.api.Zones(ctx)
		if err != nil {
			return err
		}
		for _, z := range list.Zones {
			if z.Zone == name && z.Health == health && list.Holder != "" {
				out = z
				return nil
			}
		}
		return fmt.Errorf("%+v", list)
	})
	return out
}

// crossesOnce: two hosts of a zone watch what another zone knows while that has the holder;
// each is told all of it, and the host elsewhere says it to one of them.
func crossesOnce(ctx context.Context, t *testing.T, d *demo) {
	t.Helper()
	n1, n2, n3 := d.hosts[0], d.hosts[1], d.hosts[2]
	handOver(ctx, t, n1, "n3", "its zone is watched from another one")
	watching, end := context.WithCancel(ctx)
	var all sync.WaitGroup
	var mu sync.Mutex
	rows := map[*host]map[string]int{n1: {}, n2: {}}
	for _, h := range []*host{n1, n2} {
		all.Go(func() {
			_ = h.api.Watch(watching, api.WatchQuery{Topics: []string{"links", "workers", "zones"}}, api.FollowOptions{}, func(m api.WatchMessage) error {
				var x struct {
					Topic     string
					Rows, Set []struct{ Node, Zone, From, To, State string }
				}
				if m.Event != "snapshot" && m.Event != "delta" {
					return nil
				}
				if err := json.Unmarshal(m.Data, &x); err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				for _, r := range append(x.Rows, x.Set...) {
					if x.Topic != "links" || r.State == "alive" {
						rows[h][x.Topic+" "+r.Node+r.Zone+r.From+">"+r.To]++
					}
				}
				return nil
			}) // its end is ours
		})
	}
	streams := regexp.MustCompile(`(?m)^skein_forward_streams (\d+)$`)
	eventually(ctx, t, time.Minute, "each host tells a zone once", func() error {
		mu.Lock()
		seen := []int{len(rows[n1]), len(rows[n2])}
		mu.Unlock()
		if want := 6 + 3 + 2; seen[0] != want || seen[1] != want {
			return fmt.Errorf("%v rows are seen, of %d", seen, want)
		}
		// Of n1 both the half-edges and what it passes on.
		for h, want := range map[*host]string{n1: "2", n2: "1", n3: "1"} {
			resp, conn, err := h.dial(ctx, "/metrics")
			if err != nil {
				return err
			}
			text, err := io.ReadAll(resp.Body)
			conn.Close()
			if err != nil {
				return err
			}
			if got := streams.FindSubmatch(text); got == nil || string(got[1]) != want {
				return fmt.Errorf("%s sends %s streams, want %s", h.name, got, want)
			}
		}
		return nil
	})
	end()
	all.Wait()
	handOver(ctx, t, n3, "n1", "it was watched")
}

// TestZones: every host says how the zones are. One whose only host dies is unhealthy,
// and well again some time after that came back; the log, the status and doctor say so.
func TestZones(t *testing.T) {
	parallel(t)
	d, ctx := startWith(t, 3, zoned("ams", "ams", "fra"))
	asked, lost := d.hosts[0], d.hosts[2]
	for _, h := range d.hosts {
		zoneIs(ctx, t, h, "fra", "healthy")
	}
	eventually(ctx, t, 30*time.Second, "slots and voters are counted", func() error {
		if z := zoneIs(ctx, t, asked, "ams", "healthy"); z.Hosts != 2 || z.Alive != 2 || z.Slots != 2 || z.Voters != 2 || z.RTTSeconds == nil || z.RTTFrom != "measured" {
			return fmt.Errorf("%+v", z)
		}
		return nil
	})
	crossesOnce(ctx, t, d)
	run := func(args ...string) (string, int) {
		out, errs, code := d.cli(ctx, asked, args...)
		t.Logf("$ skein %s\n%s%s[exit %d]", strings.Join(args, " "), out, errs, code)
		return out + errs, code
	}
	submitted := []string{"job", "run", "--wasm", filepath.Join(bin, "examples", "pi.wasm"), "--iterations", "1000", "--chunk", "100"}
	// The holder chooses, and the job runs nowhere else.
	prefers := append(submitted, "--zone-count", "1", "--zone-prefer", "fra", "--key", "chosen", "--name", "chosen")
	if _, code := run(append(prefers, "--follow")...); code != 0 {
		t.Fatal("it did not complete")
	}
	j, err := asked.api.Job(ctx, "chosen")
	if err != nil || len(j.Spec.Zones) != 1 || j.Spec.Zones[0] != "fra" || len(j.Zones) != 1 || j.Zones[0] != (api.JobZone{Zone: "fra", Accepted: 10, Iterations: 1000}) {
		t.Errorf("%+v %+v %v", j.Spec.Zones, j.Zones, err)
	}
	for _, args := range [][]string{{"--zone-count", "3"}, {"--zone-count", "1", "--zone", "mars"}, {"--spread", "each", "--zone", "fra,mars"}, {"--spread", "each", "--zone-policy", "most"}, {"--zone-prefer", "fra"}} {
		if _, code := run(append(submitted, args...)...); code != 2 {
			t.Errorf("%v: exit %d", args, code)
		}
	}
	if out, code := run(append(submitted, "--spread", "each", "--follow")...); code != 0 || !strings.Contains(out, "zone_ams") || !strings.Contains(out, "zone_fra") {
		t.Errorf("each: exit %d", code)
	}
	if out, code := run(append(submitted, "--spread", "each", "--zone-policy", "quorum", "--follow")...); code != 0 || !strings.Contains(out, "zone_ams") {
		t.Errorf("quorum: exit %d", code)
	}
	// So does whoever asks the API: once under a key, and of zones that there are.
	each := api.SubmitRequest{Spec: j.Spec, Spread: api.SpreadEach}
	each.Spec.Key, each.Spec.Name, each.Spec.Zones, each.Spec.ZoneChoice = "by-api", "by api", nil, nil
	first, err := asked.api.Submit(ctx, each)
	if err != nil || first.Run == "" || first.Job != "" || !first.Created || !slices.Equal(first.Spec.Zones, []string{"ams", "fra"}) {
		t.Fatalf("each by the API: %+v %v", first, err)
	}
	if again, err := lost.api.Submit(ctx, each); err != nil || again.Run != first.Run || again.Created {
		t.Errorf("the same again at another host: %+v %v", again, err)
	}
	if out, code := run("workflow", "status", "--follow", string(first.Run)); code != 0 || !strings.Contains(out, "zone_fra") {
		t.Errorf("run by the API: exit %d", code)
	}
	each.Spec.Key, each.Spec.Zones = "to-mars", []string{"fra", "mars"}
	if _, err := asked.api.Submit(ctx, each); !api.IsCode(err, api.CodeInvalidJob) || !strings.Contains(err.Error(), "no host is in zone mars") {
		t.Errorf("an unknown zone: %v", err)
	}
	// Two jobs that the holder puts into the zone that is lost next: one may move.
	long := []string{"job", "run", "--wasm", filepath.Join(bin, "examples", "pi.wasm"), "--iterations", "1000000000", "--chunk", "20000000", "--zone-count", "1"}
	for _, args := range [][]string{{"--zone-prefer", "fra", "--name", "moves"}, {"--zone", "fra", "--name", "stays"}} {
		if _, code := run(append(long, args...)...); code != 0 {
			t.Fatalf("%v: exit %d", args, code)
		}
	}
	if err := lost.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-lost.done
	if z := zoneIs(ctx, t, asked, "fra", "unhealthy"); z.Hosts != 1 || z.Alive != 0 || z.Why != "none of 1 hosts is alive" && z.Why != "no worker of 1 hosts is reached" {
		t.Errorf("%+v", z)
	}
	// What was put there stays there; a new one goes elsewhere. Of each the other zone has
	// its result, and the run is partial.
	if out, _ := run(prefers...); !strings.Contains(out, string(j.ID)) {
		t.Error("the same job again is another")
	}
	run(append(submitted, "--zone-count", "1", "--zone-prefer", "fra", "--name", "elsewhere", "--follow")...)
	if j, err := asked.api.Job(ctx, "elsewhere"); err != nil || len(j.Zones) != 1 || j.Zones[0].Zone != "ams" {
		t.Errorf("%+v %v", j.Zones, err)
	}
	if out, code := run(append(submitted, "--spread", "each", "--zone", "ams,fra", "--zone-deadline", "4s", "--follow")...); code != 8 || !strings.Contains(out, "partial") {
		t.Errorf("each without one: exit %d", code)
	}
	if out, _ := run("zones"); !strings.Contains(out, "unhealthy") {
		t.Error("the command does not say so")
	}
	eventually(ctx, t, 60*time.Second, "doctor says so", func() error {
		if out, _ := run("doctor"); !strings.Contains(out, "zone fra: none of 1 hosts is alive") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	// What has not begun leaves the lost zone, but for none that the job does not name.
	eventually(ctx, t, 3*time.Minute, "the job ends in another zone", func() error {
		if j, err := asked.api.Job(ctx, "moves"); err != nil || j.State != job.Completed || !slices.ContainsFunc(j.Zones, func(z api.JobZone) bool { return z.Zone == "ams" && z.Accepted > 0 }) {
			return fmt.Errorf("%s %+v %w", j.State, j.Zones, err)
		}
		return nil
	})
	if out, _ := run("events", "--kind", "job_zones", "-n", "100"); strings.Count(out, " goes on in ams: zone fra: ") != 1 {
		t.Error("the log does not say so, or more than it")
	}
	if j, err := asked.api.Job(ctx, "stays"); err != nil || j.State.Final() || slices.ContainsFunc(j.Zones, func(z api.JobZone) bool { return z.Zone == "ams" }) {
		t.Errorf("a job of the lost zone alone is %s, %+v, %v", j.State, j.Zones, err)
	}
	run("job", "stop", "stays")
	if err := lost.run(); err != nil {
		t.Fatal(err)
	}
	zoneIs(ctx, t, asked, "fra", "healthy")
	eventually(ctx, t, 30*time.Second, "the log has both", func() error {
		out, _ := run("events", "--kind", "zone_health", "-n", "100")
		if !strings.Contains(out, "zone fra is unhealthy, was healthy: ") || !strings.Contains(out, "zone fra is healthy, was unhealthy") {
			return fmt.Errorf("%q", out)
		}
		return nil
	})
}
