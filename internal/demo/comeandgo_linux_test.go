package demo

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/wait"
)

// nameServer answers at an address of this machine: that sponsor.skein.test is 127.0.0.1, and
// where _skein._udp.skein.test is served.
func nameServer(t *testing.T, addr string, port uint16) {
	t.Helper()
	pc, err := net.ListenPacket("udp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	sponsor := dnsmessage.MustNewName("sponsor.skein.test.")
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			var q dnsmessage.Message
			if q.Unpack(buf[:n]) != nil || len(q.Questions) != 1 {
				continue
			}
			a := dnsmessage.Message{Header: dnsmessage.Header{ID: q.ID, Response: true, Authoritative: true, RecursionDesired: q.RecursionDesired, RecursionAvailable: true}, Questions: q.Questions}
			x := q.Questions[0]
			h := dnsmessage.ResourceHeader{Name: x.Name, Type: x.Type, Class: x.Class, TTL: 30}
			switch name := strings.ToLower(x.Name.String()); {
			case name == "sponsor.skein.test." && x.Type == dnsmessage.TypeA:
				a.Answers = append(a.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}})
			case name == "_skein._udp.skein.test." && x.Type == dnsmessage.TypeSRV:
				a.Answers = append(a.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.SRVResource{Priority: 1, Weight: 1, Port: port, Target: sponsor}})
			case name != "sponsor.skein.test." && name != "_skein._udp.skein.test.":
				a.RCode = dnsmessage.RCodeNameError
			}
			if text, err := a.Pack(); err == nil {
				_, _ = pc.WriteTo(text, from) // who asked may be gone
			}
		}
	}()
}

// newcomer makes a host that joins with a token and looks for the others in a place.
func newcomer(t *testing.T, d *demo, token, place string) *host {
	t.Helper()
	h, err := newHost(d, len(d.hosts))
	if err != nil {
		t.Fatal(err)
	}
	d.hosts = append(d.hosts, h)
	h.token = token
	reconfigure(t, h, fmt.Sprintf("name = %q", h.name), `name = "spot-*"`)
	if place != "" {
		reconfigure(t, h, "[lease]", fmt.Sprintf("[join]\ndiscover = [%q]\n[lease]", place))
	}
	if err := h.run(); err != nil {
		t.Fatal(err)
	}
	return h
}

// TestComeAndGo: hosts join by an ephemeral token whose addresses are those of before its
// sponsor moved; they find it by a file, by a name and by a service of DNS, and one that looks
// nowhere does not. Slots that are reserved are left by others under load, and its owner has
// them at once. Of a host that is told to stop nothing is left, nor of one that died an hour
// ago, and no chunk of what ran is lost or counts twice.
func TestComeAndGo(t *testing.T) {
	if !proving() {
		t.Skip("hosts that come and go: minutes until one is dead; SKEIN_PROVE=1, make prove-zones")
	}
	if err := exec.CommandContext(t.Context(), "unshare", "--mount", "true").Run(); err != nil {
		t.Skipf("no mount namespace, so no name server of its own: %v", err)
	}
	dir := t.TempDir()
	ahead, servers := filepath.Join(dir, "ahead"), filepath.Join(dir, "resolv.conf")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(ahead, "0s")
	write(servers, "nameserver 127.0.53.1\noptions timeout:1 attempts:1\n")
	// Daemons are this test program, with a name server of their own; what else is asked of
	// skein is skein.
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	wrapped := script(t, "skein", fmt.Sprintf(`if [ "$1" != run ]; then exec %[1]s "$@"; fi
export %[2]s=%[3]s %[4]s=%[1]s SKEIN_NODE_ZONE=eu
exec unshare --mount sh -c 'mount --bind %[5]s /etc/resolv.conf && exec %[6]s "$@"' sh "$@"
`, filepath.Join(bin, "skein"), laterFile, ahead, laterRunner, servers, own))
	api1 := 0
	d, ctx := startWith(t, 3, func(d *demo) {
		calm(d)
		d.o.Exe = wrapped
		d.settings = func(i int) string {
			port, err := d.freePort()
			if err != nil {
				t.Error(err)
			}
			if i == 0 {
				api1 = port
			}
			return fmt.Sprintf("[api]\nlisten = [\"127.0.0.1:%d\"]\n", port)
		}
	})
	n1 := d.hosts[0]
	stay := slices.Clone(d.hosts)
	token := filepath.Join(dir, "spot.token")
	if out, errs, code := d.cli(ctx, n1, "token", "create", "--uses", "10", "--ephemeral", "--out", token); code != 0 {
		t.Fatalf("token create: exit %d\n%s%s", code, out, errs)
	}
	// The sponsor moves to another port.
	text, err := os.ReadFile(n1.config)
	if err != nil {
		t.Fatal(err)
	}
	port, err := d.freePort()
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort(fmt.Sprintf("127.0.0.1:%d", port))
	_, rest, _ := strings.Cut(string(text), `listen = "`)
	before, _, _ := strings.Cut(rest, `"`)
	reconfigure(t, n1, before, at.String())
	restart(ctx, t, n1)
	clusterIs(ctx, t, d.hosts, 3, 3)

	nameServer(t, "127.0.53.1:53", at.Port())
	hosts := filepath.Join(dir, "hosts")
	write(hosts, "# where the sponsor is\n"+at.String()+"\n127.0.0.1:9\n")
	alone := newcomer(t, d, token, "")
	if code := ends(ctx, t, alone, 2*time.Minute); code == 0 {
		t.Error("a host that looks nowhere joined by a token whose addresses are old")
	}
	d.hosts = d.hosts[:3]
	var spots []*host
	for _, place := range []string{"file:" + hosts, fmt.Sprintf("dns:sponsor.skein.test:%d", at.Port()), "srv:_skein._udp.skein.test"} {
		h := newcomer(t, d, token, place)
		began := time.Now()
		if err := h.await(ctx, "is a member by "+place, func(s api.Status) bool { return s.Members.Alive == len(d.hosts) && s.Lease.Holder != "" }); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s joined by %s in %s", h.last.Node, place, time.Since(began).Round(time.Millisecond))
		if !strings.HasPrefix(string(h.last.Node), "spot-") {
			t.Errorf("it is called %s", h.last.Node)
		}
		spots = append(spots, h)
	}
	for _, h := range d.hosts {
		if err := h.await(ctx, "sees all", func(s api.Status) bool { return s.Members.Alive == 6 && s.Members.Total == 6 }); err != nil {
			t.Fatal(err)
		}
	}

	// Load of one owner, slots that are kept for another.
	eventually(ctx, t, time.Minute, "six slots are known", func() error {
		if z := zoneIs(ctx, t, n1, "eu", "healthy"); z.Slots != 6 {
			return fmt.Errorf("%+v", z)
		}
		return nil
	})
	key := filepath.Join(dir, "ann.key")
	public, err := exec.CommandContext(ctx, d.o.Exe, "auth", "key", key).Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n1.api.SetUser(ctx, "ann", api.UserRequest{Role: "submitter", Keys: []string{string(public)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := n1.api.Reserve(ctx, "nightly", api.ReservationRequest{Owner: "user:ann", Zone: "eu", Slots: 4, Until: time.Now().Add(4 * time.Hour)}); !api.IsCode(err, api.CodeInvalidJob) {
		t.Errorf("4 of 6 slots are reserved: %v", err)
	}
	if _, err := n1.api.Reserve(ctx, "nightly", api.ReservationRequest{Owner: "user:ann", Zone: "eu", Slots: 2, Until: time.Now().Add(4 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	spec, err := d.upload(ctx, filepath.Join(bin, "examples", "pi.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	n, err := d.calibrate(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	const loadChunks = 400
	spec.Zones, spec.Key, spec.Chunk = []string{"eu"}, "load", n/80
	spec.Iterations = loadChunks * spec.Chunk
	load := submit(ctx, t, n1, spec).Job
	is := func(id job.ID) api.Job {
		t.Helper()
		j, err := n1.api.Job(ctx, string(id))
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	eventually(ctx, t, time.Minute, "four slots are busy", func() error {
		if n := is(load).Chunks.Assigned; n != 4 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	most, looks := 0, 0
	for began := time.Now(); time.Since(began) < 8*time.Second; looks++ {
		most = max(most, is(load).Chunks.Assigned)
		if err := wait.For(ctx, pollEvery); err != nil {
			t.Fatal(err)
		}
	}
	if most != 4 {
		t.Errorf("in %d looks %d of 6 slots are taken by others, of 2 that are reserved", looks, most)
	}
	if out, _ := d.operator(ctx, t, n1, "job", "explain", string(load)); !strings.Contains(out, "reserved") {
		t.Error("explain does not say why")
	}
	ann := exec.CommandContext(ctx, d.o.Exe, "--socket", fmt.Sprintf("http://127.0.0.1:%d", api1), "--key", key, "--timeout", "30s", "job", "run",
		"--wasm", filepath.Join(bin, "examples", "pi.wasm"), "--zone", "eu", "--iterations", fmt.Sprint(8*spec.Chunk), "--chunk", fmt.Sprint(spec.Chunk), "--key", "hers", "-o", "json")
	if out, err := ann.CombinedOutput(); err != nil {
		t.Fatalf("job run of ann: %v\n%s", err, out)
	}
	var hers job.ID
	took := eventually(ctx, t, 30*time.Second, "two chunks of ann's run", func() error {
		list, err := n1.api.Jobs(ctx)
		if err != nil {
			return err
		}
		for _, j := range list.Jobs {
			if hers = j.ID; j.Owner == "user:ann" && j.Chunks.Assigned >= 2 {
				return nil
			}
		}
		return errors.New("not yet")
	})
	t.Logf("ann has her two slots %s after her job was taken; four were the most that others had in %d looks", took.Round(time.Millisecond), looks)
	finish(ctx, t, n1, hers)
	if err := n1.api.Unreserve(ctx, "nightly"); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, time.Minute, "all slots are busy", func() error {
		if n := is(load).Chunks.Assigned; n < 6 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})

	// One is told to stop.
	left, died, last := spots[0], spots[1], spots[2]
	gone := func(h *host, within time.Duration, kind event.Kind, total int) {
		t.Helper()
		name := h.last.Node
		for _, o := range d.hosts {
			if o == left || o == died || o == h {
				continue
			}
			eventually(ctx, t, within, string(name)+" is gone on "+o.name, func() error {
				s, err := o.api.Status(ctx)
				if err != nil {
					return err
				}
				m, err := o.api.Mesh(ctx)
				if err != nil {
					return err
				}
				w, err := o.api.Raw(ctx, "/v1/workers")
				if err != nil {
					return err
				}
				v, err := o.api.Voters(ctx)
				switch {
				case err != nil:
					return err
				case s.Members.Total != total:
					return fmt.Errorf("%d members", s.Members.Total)
				case slices.ContainsFunc(m.Peers, func(p api.MeshPeer) bool { return p.Node == name }):
					return errors.New("it is a peer of the mesh")
				case strings.Contains(string(w), fmt.Sprintf("%q", name)):
					return errors.New("it is a worker")
				case slices.ContainsFunc(v.Voters, func(v api.Voter) bool { return v.Node == name }):
					return errors.New("it votes")
				}
				return nil
			})
		}
		// Several sponsors may have removed it at once, each of which says so a moment later.
		eventually(ctx, t, within, "the log says so", func() error {
			for _, e := range eventsOf(ctx, t, n1, kind) {
				if strings.Contains(string(e.Body), string(name)) {
					return nil
				}
			}
			return errors.New("no such event")
		})
	}
	stopped := time.Now()
	if err := left.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := ends(ctx, t, left, 40*time.Second); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	t.Logf("%s left in %s", left.last.Node, time.Since(stopped).Round(time.Millisecond))
	gone(left, 30*time.Second, event.KindMemberLeft, 5)
	if out, code := runOnce(ctx, t, left); code == 0 || !strings.Contains(out, "left") {
		t.Errorf("%s started again: exit %d, %q", left.last.Node, code, out)
	}

	// One dies, and an hour passes.
	if err := killGroup(died.cmd.Process); err != nil {
		t.Fatal(err)
	}
	<-died.done
	eventually(ctx, t, 4*time.Minute, "it is dead", func() error {
		if out, _, code := d.cli(ctx, n1, "events", "--kind", string(event.KindMemberHealth), "--member", string(died.last.Node), "-n", "10"); code != 0 || !strings.Contains(out, "dead") {
			return fmt.Errorf("exit %d: %s", code, out)
		}
		return nil
	})
	if s, err := n1.api.Status(ctx); err != nil || s.Members.Total != 5 {
		t.Errorf("%+v %v", s.Members, err)
	}
	write(ahead+".next", "1h1m")
	if err := os.Rename(ahead+".next", ahead); err != nil {
		t.Fatal(err)
	}
	passed := time.Now()
	gone(died, 3*time.Minute, event.KindMemberRemoved, 4)
	t.Logf("%s is gone %s after an hour and a minute had passed", died.last.Node, time.Since(passed).Round(time.Millisecond))
	if out, _ := d.operator(ctx, t, n1, "events", "--kind", string(event.KindMemberRemoved)); !strings.Contains(out, "ephemeral") {
		t.Error("the log does not say why")
	}

	// What ran goes on; each chunk counts once.
	eventually(ctx, t, 10*time.Minute, "the load ends", func() error {
		if j := is(load); j.State != job.Completed || j.Chunks.Accepted != loadChunks || j.Iterations.Accepted != spec.Iterations {
			return fmt.Errorf("%s, %+v", j.State, j.Chunks)
		}
		return nil
	})
	if err := d.check(ctx, is(load)); err != nil {
		t.Error(err)
	}
	if code := func() int { _ = last.cmd.Process.Signal(syscall.SIGTERM); return ends(ctx, t, last, 40*time.Second) }(); code != 0 {
		t.Errorf("%s ended with %d", last.last.Node, code)
	}
	d.hosts = stay
	clusterIs(ctx, t, stay, 3, 3)
	if out, errs, code := d.cli(ctx, n1, "log", "verify", "--all-hosts"); code != 0 {
		t.Errorf("log verify: exit %d\n%s%s", code, out, errs)
	}
}
