//go:build linux

package netns_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/clusterslot"
	"github.com/skein-project/skein/internal/nstest"
	"github.com/skein-project/skein/internal/require"
	"github.com/skein-project/skein/internal/wasmtest"
)

const (
	backendTUN      = "tun"
	backendNetstack = "netstack"
	device          = "skein0"
	meshPort        = 51820
	coordPort       = 51821
)

// fleet is a cluster of daemons, one per namespace.
type fleet struct {
	t *testing.T
	// profile is fast, except for more daemons than one machine can carry at
	// its pace.
	profile cluster.Profile
	ctx     context.Context
	net     *nstest.Network
	all     []*daemon
}

// daemon is one host and the daemon on it.
type daemon struct {
	*nstest.Host
	f     *fleet
	exe   string // program, empty: exe
	token string // file, empty for the founder
	env   []string
	api   *api.Client
	cmd   *exec.Cmd
	done  chan struct{} // closed when the process ended
}

// newFleet makes size hosts and their configurations, and starts nothing.
func newFleet(t *testing.T, backend string, size int) *fleet {
	t.Helper()
	require.Need(t, require.Netns)
	clusterslot.Take(t)
	return besideFleet(t, backend, size)
}

// besideFleet is newFleet for a test's second cluster, which shares the slot of
// the first.
func besideFleet(t *testing.T, backend string, size int) *fleet {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pick(10*time.Minute, time.Hour))
	t.Cleanup(cancel)
	f := &fleet{t: t, profile: cluster.ProfileFast, ctx: ctx, net: nstest.New(t)}
	if size > 20 {
		f.profile = cluster.ProfileLAN
	}
	t.Cleanup(f.stop)
	for range size {
		f.add(backend)
	}
	return f
}

// add adds a host.
func (f *fleet) add(backend string) *daemon {
	f.t.Helper()
	return f.equip(f.net.Host(f.nextName()), backend)
}

// addHidden adds a host behind a router with address translation.
func (f *fleet) addHidden(backend string) *daemon {
	f.t.Helper()
	return f.equip(f.net.Hidden(f.nextName()), backend)
}

func (f *fleet) nextName() string { return fmt.Sprintf("n%d", len(f.all)+1) }

// equip writes the configuration of a host.
func (f *fleet) equip(h *nstest.Host, backend string) *daemon {
	f.t.Helper()
	d := &daemon{f: f, Host: h}
	wasmtest.Warm(f.t, d.state())
	text := fmt.Sprintf(`state_dir = %q
[node]
name = %q
priority = %d
[mesh]
backend = %q
listen = "0.0.0.0:%d"
[lease]
profile = %q
[log]
format = "json"
level = "debug"
[eventlog]
segment_bytes = 1048576
[worker]
slots = 1
[status]
socket = %q
group = ""
`, d.state(), d.Name(), 10*(len(f.all)+1), backend, meshPort, f.profile, d.socket())
	if err := os.WriteFile(d.config(), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	client, err := api.Dial(d.socket())
	if err != nil {
		f.t.Fatal(err)
	}
	d.api = client
	f.all = append(f.all, d)
	return d
}

func (d *daemon) state() string  { return filepath.Join(d.Dir(), "state") }
func (d *daemon) config() string { return filepath.Join(d.Dir(), "skein.toml") }
func (d *daemon) socket() string { return filepath.Join(d.Dir(), "sock") }
func (d *daemon) logs() string   { return filepath.Join(d.Dir(), "log") }

// up founds the cluster on the first host, lets the others join through it and
// waits for the full mesh.
func (f *fleet) up() {
	f.t.Helper()
	f.found()
	// A few at a time: this machine carries all of them.
	for batch := range slices.Chunk(f.all[1:], 6) {
		for _, d := range batch {
			d.join(f.all[0])
		}
		f.await("joined", time.Minute, func() error {
			for _, d := range batch {
				if _, err := d.api.Status(f.ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	f.await("full mesh", time.Minute, f.meshed)
}

// found makes the first host a cluster of one.
func (f *fleet) found() {
	f.t.Helper()
	first := f.all[0]
	if out, code := first.skein("init", "--config", first.config(), "--cluster", "test"); code != 0 {
		f.t.Fatalf("init: %s", out)
	}
	first.run()
	f.await("a holder", time.Minute, func() error {
		s, err := first.api.Status(f.ctx)
		if err == nil && s.Lease.Holder == "" {
			err = errors.New("none yet")
		}
		return err
	})
}

// invite writes a token of d into a file.
func (d *daemon) invite(uses int) string {
	d.f.t.Helper()
	token, err := d.api.CreateToken(d.f.ctx, 10*time.Minute, uses)
	if err != nil {
		d.f.t.Fatalf("token of %s: %v", d.Name(), err)
	}
	path := filepath.Join(d.Dir(), "token-"+strconv.FormatInt(time.Now().UnixNano(), 36))
	if err := os.WriteFile(path, []byte(token.Secret.Reveal()+"\n"), 0o600); err != nil {
		d.f.t.Fatal(err)
	}
	return path
}

// join starts d with a token of sponsor.
func (d *daemon) join(sponsor *daemon) {
	d.f.t.Helper()
	d.token = sponsor.invite(1)
	d.run()
}

// skein runs one command to its end and returns all that it printed.
func (d *daemon) skein(args ...string) (string, int) {
	d.f.t.Helper()
	ctx, cancel := context.WithTimeout(d.f.ctx, time.Minute)
	defer cancel()
	cmd := d.Command(ctx, append([]string{exe}, args...)...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.f.t.Fatalf("skein %s: %v", strings.Join(args, " "), err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// client runs a command of the operator against the daemon.
func (d *daemon) client(args ...string) (string, int) {
	d.f.t.Helper()
	return d.skein(append(args, "--socket", d.socket())...)
}

// run starts the daemon; its log goes to a file.
func (d *daemon) run() {
	d.f.t.Helper()
	log, err := os.OpenFile(d.logs(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		d.f.t.Fatal(err)
	}
	defer log.Close()
	argv := []string{cmp.Or(d.exe, exe), "run", "--config", d.config()}
	if d.token != "" {
		argv = append(argv, "--join", "@"+d.token)
	}
	d.cmd = d.Command(context.WithoutCancel(d.f.ctx), argv...) // ended by stop, in good order
	d.cmd.Env = append(os.Environ(), d.env...)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	if err := d.cmd.Start(); err != nil {
		d.f.t.Fatalf("start %s: %v", d.Name(), err)
	}
	cmd, done := d.cmd, make(chan struct{})
	d.done = done
	go func() {
		_ = cmd.Wait() // how it ended shows in its log
		close(done)
	}()
}

// alive reports whether the process still runs.
func (d *daemon) alive() bool {
	if d.cmd == nil {
		return false
	}
	select {
	case <-d.done:
		return false
	default:
		return true
	}
}

// end sends a signal and waits for the end of the process.
func (d *daemon) end(sig syscall.Signal) {
	d.f.t.Helper()
	_ = d.cmd.Process.Signal(sig) // it may just have ended
	select {
	case <-d.done:
	case <-time.After(20 * time.Second):
		_ = d.cmd.Process.Kill() // it may just have ended
		<-d.done
		d.f.t.Errorf("%s did not end after %s", d.Name(), sig)
	}
}

// stop ends all daemons at the end of the test. None may have died by itself,
// and none may leave its device behind.
func (f *fleet) stop() {
	for _, d := range f.all {
		d.api.Close()
		if d.alive() {
			_ = d.cmd.Process.Signal(syscall.SIGTERM) // it may just have ended
		}
	}
	for _, d := range f.all {
		if d.cmd == nil {
			continue
		}
		select {
		case <-d.done:
		case <-time.After(20 * time.Second):
			_ = d.cmd.Process.Kill() // it may just have ended
			<-d.done
			f.t.Errorf("%s did not stop", d.Name())
		}
		if d.HasLink(device) {
			f.t.Errorf("%s left its interface behind", d.Name())
		}
		if text, err := os.ReadFile(d.logs()); err == nil && bytes.Contains(text, []byte("DATA RACE")) {
			f.t.Errorf("data race in %s", d.Name())
		}
	}
	if f.t.Failed() {
		f.showLogs()
	}
}

// showLogs prints the end of each host's log, and keeps all of it in the
// directory SKEIN_NETNS_LOGS if that is set.
func (f *fleet) showLogs() {
	for _, d := range f.all {
		text, err := os.ReadFile(d.logs())
		if err != nil {
			continue
		}
		if dir := os.Getenv("SKEIN_NETNS_LOGS"); dir != "" {
			name := filepath.Join(dir, strings.ReplaceAll(f.t.Name(), "/", "-")+"-"+d.Name()+".log")
			if err := os.WriteFile(name, text, 0o600); err != nil {
				f.t.Log(err)
			}
		}
		const tail = 2000
		if len(text) > tail {
			text = text[len(text)-tail:]
		}
		f.t.Logf("--- log of %s\n%s", d.Name(), text)
	}
}

// await polls until ok returns nil, and returns how long that took. No daemon
// that was alive at the start may die meanwhile.
func (f *fleet) await(what string, limit time.Duration, ok func() error) time.Duration {
	f.t.Helper()
	return f.awaitLiving(f.running(), what, limit, ok)
}

// running lists the daemons that run now.
func (f *fleet) running() (up []*daemon) {
	for _, d := range f.all {
		if d.alive() {
			up = append(up, d)
		}
	}
	return up
}

// lookEvery is the time between two looks at daemons, whom each look takes time from; on
// an emulated processor, most of what there is.
func lookEvery() time.Duration {
	if proving() {
		return 20 * time.Millisecond
	}
	return 100 * time.Millisecond
}

// awaitLiving is await in which only the given daemons must live.
func (f *fleet) awaitLiving(running []*daemon, what string, limit time.Duration, ok func() error) time.Duration {
	f.t.Helper()
	start := time.Now()
	for {
		err := ok()
		if err == nil {
			return time.Since(start)
		}
		for _, d := range running {
			if !d.alive() {
				f.t.Fatalf("%s: %s ended", what, d.Name())
			}
		}
		if time.Since(start) > limit {
			f.t.Fatalf("%s: not within %s: %v", what, limit, err)
		}
		select {
		case <-f.ctx.Done():
			f.t.Fatalf("%s: %v", what, f.ctx.Err())
		case <-time.After(lookEvery()):
		}
	}
}

// meshed reports what is missing until every running host has a session with
// every other and believes all of them alive.
func (f *fleet) meshed() error { return meshed(f.ctx, f.running()) }

func meshed(ctx context.Context, up []*daemon) error {
	for _, d := range up {
		m, err := d.api.Mesh(ctx)
		if err != nil {
			return err
		}
		sessions := map[cluster.NodeID]bool{}
		for _, p := range m.Peers {
			sessions[p.Node] = p.HandshakeSeconds != nil && *p.HandshakeSeconds < 180
		}
		health, err := d.health(ctx)
		if err != nil {
			return err
		}
		for _, o := range up {
			id := cluster.NodeID(o.Name())
			switch {
			case o == d:
			case !sessions[id]:
				return fmt.Errorf("%s has no session with %s", d.Name(), id)
			case health[id] != cluster.Alive:
				return fmt.Errorf("%s believes %s to be %q", d.Name(), id, health[id])
			}
		}
	}
	return nil
}

// health is what the daemon believes of each member.
func (d *daemon) health(ctx context.Context) (map[cluster.NodeID]cluster.Health, error) {
	ms, err := d.api.Members(ctx)
	if err != nil {
		return nil, err
	}
	out := map[cluster.NodeID]cluster.Health{}
	for _, m := range ms.Members {
		out[m.Node] = m.State
	}
	return out, nil
}

// believes reports whether each of the daemons has one of the given opinions
// of each of the others.
func believes(ctx context.Context, who, of []*daemon, want ...cluster.Health) error {
	for _, d := range who {
		health, err := d.health(ctx)
		if err != nil {
			return err
		}
		for _, o := range of {
			if got := health[cluster.NodeID(o.Name())]; o != d && !slices.Contains(want, got) {
				return fmt.Errorf("%s believes %s to be %q, want %v", d.Name(), o.Name(), got, want)
			}
		}
	}
	return nil
}

// meshAddr is the daemon's IPv4 address in the mesh.
func (d *daemon) meshAddr() netip.Addr {
	d.f.t.Helper()
	s, err := d.api.Status(d.f.ctx)
	if err != nil {
		d.f.t.Fatal(err)
	}
	a, err := netip.ParseAddr(s.Mesh.Address)
	if err != nil {
		d.f.t.Fatal(err)
	}
	return a
}

// metric sums the values of all series of a metric whose labels contain the
// given text, as in metric("skein_coord_rejected_total", `reason="replay"`).
func (d *daemon) metric(name, label string) float64 {
	d.f.t.Helper()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", d.socket())
	}}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(d.f.ctx, http.MethodGet, "http://skein/metrics", http.NoBody)
	if err != nil {
		d.f.t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		d.f.t.Fatalf("metrics of %s: %v", d.Name(), err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		d.f.t.Fatal(err)
	}
	sum := 0.0
	for line := range strings.Lines(string(text)) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		base, labels, _ := strings.Cut(series, "{")
		if !ok || base != name || !strings.Contains(labels, label) {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			d.f.t.Fatalf("metric line %q: %v", line, err)
		}
		sum += v
	}
	return sum
}

// rejected is how many datagrams the daemon refused for a reason.
func (d *daemon) rejected(reason string) float64 {
	d.f.t.Helper()
	return d.metric("skein_coord_rejected_total", fmt.Sprintf("reason=%q", reason))
}

// pass lets time go by in which nothing is expected but that all daemons live.
func (f *fleet) pass(d time.Duration) {
	f.t.Helper()
	running := f.running()
	select {
	case <-f.ctx.Done():
		f.t.Fatal(f.ctx.Err())
	case <-time.After(d):
	}
	for _, h := range running {
		if !h.alive() {
			f.t.Fatalf("%s ended", h.Name())
		}
	}
}

// lossy drops a percentage of what each host sends.
func (f *fleet) lossy(percent int) {
	f.t.Helper()
	for _, d := range f.all {
		d.Shape(nstest.Shape{Loss: percent})
	}
}

// endpointIs reports whether every other host reaches d at addr.
func (f *fleet) endpointIs(d *daemon, addr netip.Addr) error {
	for _, o := range f.all {
		if o == d {
			continue
		}
		m, err := o.api.Mesh(f.ctx)
		if err != nil {
			return err
		}
		for _, p := range m.Peers {
			if p.Node == cluster.NodeID(d.Name()) && !strings.HasPrefix(p.Endpoint, addr.String()+":") {
				return fmt.Errorf("%s reaches %s at %s", o.Name(), d.Name(), p.Endpoint)
			}
		}
	}
	return nil
}

// transfer sends a megabyte through the mesh over TCP, which fails as long as
// full packets are lost.
func transfer(from, to *daemon) error {
	ln, err := to.Listen(to.f.ctx, netip.AddrPortFrom(to.meshAddr(), 0).String())
	if err != nil {
		return err
	}
	defer ln.Close()
	ctx, cancel := context.WithTimeout(to.f.ctx, 2*time.Second)
	defer cancel()
	conn, err := from.Dial(ctx, "tcp", ln.Addr().String())
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	const size = 1 << 20
	sent := make(chan error, 1) // one answer
	go func() {
		if err := conn.SetDeadline(deadline); err != nil {
			sent <- err
			return
		}
		_, err := conn.Write(make([]byte, size))
		sent <- errors.Join(err, conn.Close())
	}()
	in, err := ln.Accept()
	if err != nil {
		return err
	}
	defer in.Close()
	if err := in.SetDeadline(deadline); err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, in)
	if err == nil && n != size {
		err = fmt.Errorf("%d of %d bytes", n, size)
	}
	return errors.Join(err, <-sent)
}
