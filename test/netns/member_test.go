//go:build linux

package netns_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/join/token"
	"github.com/skein-project/skein/internal/nstest"
	"github.com/skein-project/skein/lease"
)

// TestSecretsStayHidden looks for the invite's secret, and for the one that
// all members share, in everything that crossed the underlay during joins and
// in all that the daemons wrote to their logs.
func TestSecretsStayHidden(t *testing.T) {
	parallel(t)
	f := newFleet(t, backend(), 3)
	capture := f.net.Capture()
	f.up()
	f.pass(2 * time.Second)
	packets, err := capture.Stop()
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[string][]byte{}
	for _, d := range f.all[1:] {
		text, err := os.ReadFile(d.token)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := token.Parse(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		secrets["invite of "+d.Name()] = parsed.Secret.Bytes()
		secrets["token of "+d.Name()] = bytes.TrimSpace(text)
		id, _, err := join.Load(d.state())
		if err != nil {
			t.Fatal(err)
		}
		secrets["cluster secret"] = id.ClusterSecret()
		secrets["identity key of "+d.Name()] = id.IDKey().Seed()
		key := id.WGKey()
		secrets["wireguard key of "+d.Name()] = key[:]
	}
	places := map[string][]byte{"the underlay": bytes.Join(packets, nil)}
	for _, d := range f.all {
		if places["the log of "+d.Name()], err = os.ReadFile(d.logs()); err != nil {
			t.Fatal(err)
		}
	}
	for place, content := range places {
		for what, secret := range secrets {
			if where, found := contains(content, secret); found {
				t.Errorf("%s stands in %s as %s", what, place, where)
			}
		}
	}
	// What must be there, so that the search could have found something: the
	// public key of the first host, in the certificates of the join.
	joins := 0
	for _, p := range packets {
		if len(p) > 38 && p[23] == syscall.IPPROTO_TCP && (p[36] == meshPort>>8 && p[37] == meshPort&0xff) {
			joins++
		}
	}
	if joins < 10 {
		t.Errorf("%d packets of joins among the %d captured", joins, len(packets))
	}
	t.Logf("%d packets, %d of joins; %d secrets in none of them, nor in %d logs", len(packets), joins, len(secrets), len(f.all))
}

// contains looks for a secret in the forms in which a program might let it
// slip.
func contains(content, secret []byte) (string, bool) {
	for form, text := range map[string]string{
		"bytes": string(secret), "hex": hex.EncodeToString(secret), "HEX": strings.ToUpper(hex.EncodeToString(secret)),
		"base64": base64.RawStdEncoding.EncodeToString(secret), "base64url": base64.RawURLEncoding.EncodeToString(secret),
		"decimals": strings.Trim(fmt.Sprintf("%d", secret), "[]"),
	} {
		if bytes.Contains(content, []byte(text)) {
			return form, true
		}
	}
	return "", false
}

// TestInvitesEnd: used up, revoked and those of another cluster admit nobody,
// and say so.
func TestInvitesEnd(t *testing.T) {
	parallel(t)
	f := newFleet(t, backend(), 2)
	f.up()
	first, late := f.all[0], f.add(backend())
	foreign := besideFleet(t, backend(), 1)
	foreign.found()
	revoked := first.invite(1)
	tokens, err := first.api.Tokens(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range tokens.Tokens {
		if len(token.Spent) < token.Uses {
			if err := first.api.RevokeToken(f.ctx, token.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, path := range map[string]string{
		"used up": f.all[1].token, "revoked": revoked, "of another cluster": foreign.all[0].invite(1),
	} {
		out, code := late.skein("run", "--config", late.config(), "--join", "@"+path)
		if code == 0 || !strings.Contains(out, "skein: error: ") {
			t.Errorf("an invite that is %s: exit %d, %s", name, code, out)
		}
		if _, err := os.Stat(filepath.Join(late.state(), "identity.json")); err == nil {
			t.Errorf("an invite that is %s made a member", name)
		}
	}
	late.join(first)
	f.await("full mesh with a good one", 30*time.Second, f.meshed)
}

// TestRotation changes the WireGuard key of a host while 100 pings a second go
// through its tunnel.
func TestRotation(t *testing.T) {
	parallel(t)
	f := newFleet(t, backendTUN, 3)
	f.up()
	from, to := f.all[0], f.all[1]
	f.settled()
	pings := nstest.Ping(from.Host, to.Host, from.meshAddr(), to.meshAddr(), 10*time.Millisecond)
	for round := range pick(1, 5) {
		before := from.keyOf(to)
		r, err := to.api.RotateKey(f.ctx)
		if err != nil {
			t.Fatal(err)
		}
		took := f.await("the new key everywhere", time.Minute, func() error {
			for _, d := range f.all {
				if d != to && d.keyOf(to) != r.NextPublicKey {
					return fmt.Errorf("%s uses another", d.Name())
				}
			}
			return nil
		})
		if before == r.NextPublicKey {
			t.Error("the key did not change")
		}
		t.Logf("round %d: new key everywhere after %.2f s", round+1, took.Seconds())
		f.pass(2 * time.Second)
	}
	got := pings.Stop()
	t.Logf("%d of %d pings lost, longest gap %s", got.Lost, got.Sent, got.Gap)
	// Beside other tests, what the machine does not get to is lost as well.
	if most := pick(50, 2*5); got.Lost > most {
		t.Errorf("%d of %d pings lost, want at most %d", got.Lost, got.Sent, most)
	}
	f.await("full mesh", 20*time.Second, f.meshed)
	// The key outlives the daemon.
	to.end(syscall.SIGTERM)
	to.run()
	f.await("full mesh after a restart", 30*time.Second, f.meshed)
}

// keyOf is the WireGuard key with which d reaches another host.
func (d *daemon) keyOf(o *daemon) string {
	d.f.t.Helper()
	p, err := d.peer(o)
	if err != nil {
		d.f.t.Fatal(err)
	}
	return p.PublicKey
}

// peer is what d says of another host's tunnel.
func (d *daemon) peer(o *daemon) (api.MeshPeer, error) {
	m, err := d.api.Mesh(d.f.ctx)
	if err != nil {
		return api.MeshPeer{}, err
	}
	for _, p := range m.Peers {
		if p.Node == cluster.NodeID(o.Name()) {
			return p, nil
		}
	}
	return api.MeshPeer{}, fmt.Errorf("%s has no peer %s", d.Name(), o.Name())
}

// settled waits until all hosts vote.
func (f *fleet) settled() {
	f.t.Helper()
	want := len(f.all)
	if want > cluster.MaxVoters {
		want = lease.DefaultVoters
	}
	f.await("all vote", time.Minute, func() error {
		for _, d := range f.all {
			s, err := d.api.Status(f.ctx)
			if err != nil {
				return err
			}
			if s.Lease.Voters != want || s.Lease.Holder == "" {
				return fmt.Errorf("%s knows %d voters, holder %q", d.Name(), s.Lease.Voters, s.Lease.Holder)
			}
		}
		return nil
	})
}

// gone reports whether no host of who has a tunnel to d any more.
func (f *fleet) gone(d *daemon, who ...*daemon) error {
	for _, o := range who {
		if p, err := o.peer(d); err == nil {
			return fmt.Errorf("%s still has %s as a peer in state %q", o.Name(), d.Name(), p.State)
		}
	}
	return nil
}

// TestRemoval revokes a host: the others drop it at once, and one that was cut
// off meanwhile soon after it is back.
func TestRemoval(t *testing.T) {
	parallel(t)
	size := pick(4, 30) // the kernel keeps 1024 neighbours for all namespaces together
	f := newFleet(t, backendTUN, size)
	f.up()
	f.settled()
	admin, away, bad := f.all[0], f.all[size-2], f.all[size-1]
	away.Cut()
	rest := slices.Clone(f.all[:size-2])
	f.await("the cut is noticed", 30*time.Second, func() error {
		return believes(f.ctx, rest, []*daemon{away}, cluster.Suspect, cluster.Dead)
	})
	start := time.Now()
	if _, err := admin.api.Remove(f.ctx, cluster.NodeID(bad.Name()), "test"); err != nil {
		t.Fatal(err)
	}
	t.Logf("answered after %.2f s", time.Since(start).Seconds())
	told := time.Now()
	f.awaitLiving(rest, "gone from all that can hear", time.Minute, func() error { return f.gone(bad, rest...) })
	within(t, "revocation on the others", time.Since(told), 5*time.Second)
	if err := f.gone(bad, away); err == nil {
		t.Error("the host that was cut off knew")
	}
	away.Heal()
	took := f.awaitLiving(rest, "gone from the one that was cut off", time.Minute, func() error { return f.gone(bad, away) })
	within(t, "revocation on the healed host", took, 15*time.Second)
	select {
	case <-bad.done:
	case <-time.After(20 * time.Second):
		t.Error("the daemon of the removed host runs on")
	}
	if bad.HasLink(device) {
		t.Error("the removed host kept its mesh device")
	}
	for _, d := range rest {
		health, err := d.health(f.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if s := health[cluster.NodeID(bad.Name())]; s != "" && s != cluster.Left {
			t.Errorf("%s lists the removed host as %s", d.Name(), s)
		}
	}
	f.awaitLiving(rest, "the rest is whole", 30*time.Second, func() error { return meshed(f.ctx, append(slices.Clip(rest), away)) })
	// Its key opens nothing any more.
	bad.token = ""
	if out, code := bad.skein("run", "--config", bad.config()); code == 0 {
		t.Errorf("the removed host starts again: %s", out)
	}
	if err := f.gone(bad, append(slices.Clip(rest), away)...); err != nil {
		t.Error(err)
	}
}

// TestLeave takes a host out by its own word.
func TestLeave(t *testing.T) {
	parallel(t)
	f := newFleet(t, backendTUN, 4)
	f.up()
	f.settled()
	rest, leaver := f.all[:3], f.all[3]
	start := time.Now()
	if out, code := leaver.client("leave", "--yes"); code != 0 {
		t.Fatalf("leave: exit %d: %s", code, out)
	}
	f.awaitLiving(rest, "gone", 30*time.Second, func() error { return f.gone(leaver, rest...) })
	t.Logf("left and gone after %.2f s", time.Since(start).Seconds())
	select {
	case <-leaver.done:
	case <-time.After(20 * time.Second):
		t.Fatal("the daemon of a host that left runs on")
	}
	if code := leaver.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("its daemon ended with code %d", code)
	}
	if leaver.HasLink(device) {
		t.Error("it kept its mesh device")
	}
	leaver.token = ""
	if out, code := leaver.skein("run", "--config", leaver.config()); code == 0 || !strings.Contains(out, "hint:") {
		t.Errorf("a host that left starts again: exit %d, %s", code, out)
	}
	f.awaitLiving(rest, "the rest is whole", 30*time.Second, func() error { return meshed(f.ctx, rest) })
}

// TestBlackHole lets no packet above 1400 bytes pass between hosts whose links
// say 1500, without telling them: full packets must flow again by themselves.
func TestBlackHole(t *testing.T) {
	parallel(t)
	f := newFleet(t, backendTUN, 3)
	f.up()
	for _, d := range f.all {
		d.end(syscall.SIGTERM)
		d.Shape(nstest.Shape{Longest: 1400})
	}
	for _, d := range f.all {
		d.run()
	}
	f.await("small packets", 30*time.Second, f.meshed)
	hole := time.Now()
	from, to := f.all[0], f.all[1]
	took := f.await("a full-sized transfer", 2*time.Minute, func() error { return transfer(from, to) })
	within(t, "repair of the black hole", took, time.Minute)
	t.Logf("%.1f s after the full mesh", time.Since(hole).Seconds())
	// Either end that shrinks lets a TCP stream pass: the sender may follow.
	f.await("the MTU of the sender", 20*time.Second, func() error {
		m, err := from.api.Mesh(f.ctx)
		if err == nil && m.MTU > 1340 {
			err = fmt.Errorf("the mesh still has an MTU of %d", m.MTU)
		}
		return err
	})
	f.await("it is in the event log", 20*time.Second, func() error {
		events := 0
		err := from.api.Events(f.ctx, api.EventQuery{Kind: string(event.KindMTUBlackhole)}, api.FollowOptions{}, func(api.Event) error {
			events++
			return nil
		})
		if err == nil && events == 0 {
			err = fmt.Errorf("no %s", event.KindMTUBlackhole)
		}
		return err
	})
	late := f.add(backendTUN)
	late.Shape(nstest.Shape{Longest: 1400})
	late.join(f.all[0])
	f.await("a host that joins behind the hole", time.Minute, f.meshed)
}
