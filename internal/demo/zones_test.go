package demo

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
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
		if z := zoneIs(ctx, t, asked, "ams", "healthy"); z.Hosts != 2 || z.Alive != 2 || z.Slots != 2 || z.Voters != 2 || z.RTTSeconds == nil {
			return fmt.Errorf("%+v", z)
		}
		return nil
	})
	if err := lost.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-lost.done
	if z := zoneIs(ctx, t, asked, "fra", "unhealthy"); z.Hosts != 1 || z.Alive != 0 || z.Why != "none of 1 hosts is alive" && z.Why != "no worker of 1 hosts is reached" {
		t.Errorf("%+v", z)
	}
	run := func(args ...string) string {
		out, errs, _ := d.cli(ctx, asked, args...)
		t.Logf("$ skein %s\n%s%s", strings.Join(args, " "), out, errs)
		return out
	}
	if out := run("zones"); !strings.Contains(out, "unhealthy") {
		t.Error("the command does not say so")
	}
	eventually(ctx, t, 60*time.Second, "doctor says so", func() error {
		if out := run("doctor"); !strings.Contains(out, "zone fra: none of 1 hosts is alive") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	if err := lost.run(); err != nil {
		t.Fatal(err)
	}
	zoneIs(ctx, t, asked, "fra", "healthy")
	eventually(ctx, t, 30*time.Second, "the log has both", func() error {
		out := run("events", "--kind", "zone_health", "-n", "100")
		if !strings.Contains(out, "zone fra is unhealthy, was healthy: ") || !strings.Contains(out, "zone fra is healthy, was unhealthy") {
			return fmt.Errorf("%q", out)
		}
		return nil
	})
}
