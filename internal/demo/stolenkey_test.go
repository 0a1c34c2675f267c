package demo

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun/tuntest"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join"
)

// steal uses h's WireGuard key beside it, towards every peer, until stop: it starts
// a handshake with each every other second, and a packet a second keeps the endpoint
// that the peer has of that key with the thief.
func steal(ctx context.Context, t *testing.T, h *host) (stop func()) {
	t.Helper()
	id, _, err := join.Load(h.stateDir())
	if err != nil {
		t.Fatal(err)
	}
	m, err := h.api.Mesh(ctx)
	if err != nil {
		t.Fatal(err)
	}
	key := id.WGKey()
	peers := ""
	for i, p := range m.Peers {
		pub, err := base64.StdEncoding.DecodeString(p.PublicKey)
		if err != nil {
			t.Fatal(err)
		}
		peers += fmt.Sprintf("public_key=%s\nendpoint=%s\npersistent_keepalive_interval=1\nallowed_ip=10.99.0.%d/32\n", hex.EncodeToString(pub), p.Endpoint, i+1)
	}
	dev := device.NewDevice(tuntest.NewChannelTUN().TUN(), conn.NewDefaultBind(), device.NewLogger(device.LogLevelSilent, ""))
	begin := func() error {
		if err := dev.IpcSet("replace_peers=true\n" + peers); err != nil {
			return err
		}
		return dev.Up()
	}
	if err := dev.IpcSet("private_key=" + hex.EncodeToString(key[:]) + "\nlisten_port=0\n"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(2 * time.Second)
		defer tick.Stop()
		for {
			if err := begin(); err != nil {
				t.Errorf("the thief's device: %v", err)
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return sync.OnceFunc(func() {
		cancel()
		running.Wait()
		dev.Close()
	})
}

// TestRotateStolenKey: while somebody else uses a host's WireGuard key, the doctors
// of the others name it, and one run of `skein mesh rotate` ends
// with another key, however often the others fall silent meanwhile.
func TestRotateStolenKey(t *testing.T) {
	parallel(t)
	d, ctx := startWith(t, 3, calm)
	clusterIs(ctx, t, d.hosts, 3, 3)
	victim := d.hosts[1]
	before, err := victim.api.Mesh(ctx)
	if err != nil {
		t.Fatal(err)
	}
	stop := steal(ctx, t, victim)
	defer stop()
	took := eventually(ctx, t, 2*time.Minute, "a doctor of another host names the key", func() error {
		f := found(ctx, t, d.hosts[0], "endpoints")
		if f.Verdict != api.VerdictWarn || !strings.Contains(f.Detail, victim.name+" is seen at ") || !strings.Contains(f.Hint, "may be in use elsewhere: rotate") {
			return fmt.Errorf("%+v", f)
		}
		return nil
	})
	t.Logf("named after %.1f s", took.Seconds())
	began := time.Now()
	out, errs, code := d.cli(ctx, victim, "mesh", "rotate")
	t.Logf("after %.1f s: %s%s", time.Since(began).Seconds(), out, errs)
	if code != 0 || !strings.Contains(errs, victim.name+" has changed its key") {
		t.Fatalf("exit %d", code)
	}
	m, err := victim.api.Mesh(ctx)
	if err != nil || m.PublicKey == before.PublicKey {
		t.Fatalf("key %s as before, %v", m.PublicKey, err)
	}
	eventually(ctx, t, 30*time.Second, "the others reach it by the new key, while the thief goes on", func() error {
		for _, o := range []*host{d.hosts[0], d.hosts[2]} {
			om, err := o.api.Mesh(ctx)
			if err != nil {
				return err
			}
			for _, p := range om.Peers {
				if p.Node == cluster.NodeID(victim.name) && (p.PublicKey != m.PublicKey || p.State != api.PeerUp) {
					return fmt.Errorf("%s has %s, %s", o.name, p.PublicKey, p.State)
				}
			}
			if f := found(ctx, t, o, "endpoints"); f.Verdict != api.VerdictOK {
				return fmt.Errorf("%s: %+v", o.name, f)
			}
		}
		return nil
	})
	clusterIs(ctx, t, d.hosts, 3, 3)
}
