package onion

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/clusterslot"
	"github.com/skein-project/skein/internal/require"
	"github.com/skein-project/skein/internal/tornet"
	"github.com/skein-project/skein/internal/tornet/tornettest"
)

// Shape of TestOutages.
const (
	outageInterval = time.Minute // of the consensus: 12 of them from one rotation to the next
	outageClients  = 10          // that know nothing, and as many that know a descriptor
	outageTries    = 6           // of each, that many seconds apart:
	outagePace     = 11500 * time.Millisecond
	outageWindow   = 80 * time.Second
	patience       = 70 * time.Second // of a person; tor itself tries again after 31 s
	noticed        = 10 * time.Second // a wait that a person notices
)

// TestOutages measures what clients notice of each way in which a host, its
// daemon or its tor goes away, and of what operators do to them, beside a plain
// onion service that goes away likewise. Clients are tors with a SOCKS port and
// nothing of skein. It prints the table of docs/failures.md. SKEIN_OUTAGES
// names the cases to run, separated by commas.
func TestOutages(t *testing.T) {
	long(t)
	s := newOutages(t)
	cases := []struct {
		name string
		// failures is how many of all tries may fail.
		failures int
		// do lets it happen to the host that publishes, undo mends it.
		do, undo func(h *host)
	}{
		{"daemon killed", 3, func(h *host) { h.signal(syscall.SIGKILL, h.cmd.Process.Pid) }, (*host).again},
		{"tor killed", 3, func(h *host) { h.signal(syscall.SIGKILL, h.children("tor")...) }, nil},
		{"daemon stopped", 3, func(h *host) { h.signal(syscall.SIGTERM, h.cmd.Process.Pid) }, (*host).again},
		{"daemon hangs", 12, func(h *host) { h.signal(syscall.SIGSTOP, h.cmd.Process.Pid) }, func(h *host) { h.signal(syscall.SIGCONT, h.cmd.Process.Pid) }},
		{"host frozen", 12, func(h *host) { h.signal(syscall.SIGSTOP, h.all()...) }, func(h *host) { h.signal(syscall.SIGCONT, h.all()...) }},
		{"host drained", 3, func(h *host) { s.drain(h, false) }, func(h *host) { s.drain(h, true) }},
		{"onion key rotated", 3, s.rotate, nil},
		{"whole cluster restarted", 20, func(*host) { s.restart() }, nil},
	}
	for _, c := range cases {
		if !chosen(c.name) {
			continue
		}
		s.settle()
		victim := s.publisher("before: "+c.name, pointsOf("n1", "n2", "n3"))
		if failed := s.measure(c.name, s.address, func() { c.do(victim) }); failed > c.failures {
			t.Errorf("%s: %d tries failed, at most %d may", c.name, failed, c.failures)
		}
		if c.undo != nil {
			c.undo(victim)
		}
	}
	s.plain()
	t.Logf("\n%s", s.table())
}

func chosen(name string) bool {
	list := os.Getenv("SKEIN_OUTAGES")
	return list == "" || slices.Contains(strings.Split(list, ","), name)
}

// outages are three hosts that serve an address, and clients.
type outages struct {
	*fleet
	address      string
	fresh, known []*tornet.Tor
	rows         []outageRow
}

// outageRow is what clients met in one case.
type outageRow struct {
	name         string
	fresh, known []try
}

// try is one connection and request.
type try struct {
	took time.Duration
	err  error
}

func newOutages(t *testing.T) *outages {
	t.Helper()
	require.Need(t, require.Tor)
	clusterslot.Take(t)
	n, err := tornet.Start(t.Context(), tornet.Options{Interval: outageInterval, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	f := newFleetOn(t, n, time.Hour)
	s := &outages{fleet: f}
	_, s.address = f.three()
	for _, h := range f.hosts[1:] {
		if _, err := f.hosts[0].api.GrantOnion(f.ctx, s.address, cluster.NodeID(h.name)); err != nil {
			t.Fatal(err)
		}
	}
	all := make([]*tornet.Tor, 2*outageClients)
	for i := range all {
		all[i] = tornettest.Run(t, n, "c"+strconv.Itoa(i))
	}
	s.fresh, s.known = all[:outageClients], all[outageClients:]
	return s
}

// settle waits until all hosts serve, every directory knows it and no rotation
// is near.
func (s *outages) settle() {
	s.t.Helper()
	s.publisher("all three", pointsOf("n1", "n2", "n3"))
	eventually(s.t, "all directories have the points of all three", func(ctx context.Context) error {
		for _, h := range s.hosts {
			if o, err := h.api.Onion(ctx); err != nil || o.Tor.State != "ready" {
				return fmt.Errorf("%s: tor is %s: %w", h.name, o.Tor.State, err)
			}
		}
		v, err := s.hosts[0].api.VerifyOnion(ctx, s.address)
		if err != nil {
			return err
		}
		if len(v.Dirs) == 0 || v.Found < len(v.Dirs) {
			return fmt.Errorf("%d of %d directories", v.Found, len(v.Dirs))
		}
		return nil
	})
	time.Sleep(5 * time.Second) // what ended with the case before
	s.calm()
}

// calm waits until no rotation is near.
func (s *outages) calm() {
	const half, settled = 12 * outageInterval, 30 * time.Second
	into := time.Since(time.Now().Truncate(half))
	if into < settled {
		time.Sleep(settled - into)
	} else if into+outageWindow > half {
		time.Sleep(half - into + settled)
	}
}

// measure has clients visit an address from the moment on at which something
// happens to it, and returns how many tries failed.
func (s *outages) measure(name, address string, happens func()) (failed int) {
	s.t.Helper()
	var wg sync.WaitGroup
	for _, c := range s.known {
		wg.Go(func() { // learns the descriptor
			for s.ctx.Err() == nil {
				if c.Fresh(s.ctx) == nil && s.visit(c, "learn", address).err == nil {
					return
				}
			}
		})
	}
	wg.Wait()
	s.say("%s: it happens", name)
	row := outageRow{name: name}
	var mu sync.Mutex
	rounds := func(i int, c *tornet.Tor, forget bool, to *[]try) {
		begin := time.Now().Add(time.Duration(i) * outagePace / outageClients)
		for n := range outageTries {
			time.Sleep(time.Until(begin.Add(time.Duration(n) * outagePace)))
			if forget && c.Fresh(s.ctx) != nil {
				return
			}
			v := s.visit(c, fmt.Sprint(name, n), address)
			if v.err != nil || v.took > noticed {
				s.say("%s: forget %t, try %d of client %d: %.1f s, %v", name, forget, n, i, v.took.Seconds(), v.err)
			}
			mu.Lock()
			*to = append(*to, v)
			mu.Unlock()
		}
	}
	wg.Go(happens)
	for i := range outageClients {
		wg.Go(func() { rounds(i, s.fresh[i], true, &row.fresh) })
		wg.Go(func() { rounds(i, s.known[i], false, &row.known) })
	}
	wg.Wait()
	s.rows = append(s.rows, row)
	s.say("%s", row)
	for _, v := range slices.Concat(row.fresh, row.known) {
		if v.err != nil {
			failed++
		}
	}
	return failed
}

// visit asks once, over a connection of its own.
func (s *outages) visit(c *tornet.Tor, user, address string) try {
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	begin := time.Now()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, at string) (net.Conn, error) { return c.Dial(ctx, user, at) },
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", nil)
	if err != nil {
		return try{err: err}
	}
	resp, err := client.Do(req)
	if err == nil {
		_, err = io.ReadAll(io.LimitReader(resp.Body, 100))
		_ = resp.Body.Close() // read
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("status %s", resp.Status)
		}
	}
	return try{took: time.Since(begin), err: err}
}

// String is a line of the table of docs/failures.md.
func (r outageRow) String() string {
	part := func(list []try) string {
		failed, slow, slowest := 0, 0, time.Duration(0)
		for _, v := range list {
			switch {
			case v.err != nil:
				failed++
			case v.took > noticed:
				slow++
			}
			if v.err == nil {
				slowest = max(slowest, v.took)
			}
		}
		return fmt.Sprintf("%d | %d | %.1f s", failed, slow, slowest.Seconds())
	}
	return fmt.Sprintf("| %s | %s | %s |", r.name, part(r.fresh), part(r.known))
}

func (s *outages) table() string {
	lines := []string{"| Case | fresh: failed | > 10 s | slowest | earlier descriptor: failed | > 10 s | slowest |", "|---|---|---|---|---|---|---|"}
	for _, r := range s.rows {
		lines = append(lines, r.String())
	}
	return strings.Join(lines, "\n")
}

// plain measures an onion service of a tor alone.
func (s *outages) plain() {
	s.t.Helper()
	backend := named(s.t, "plain")
	dir := filepath.Join(s.net.Dir(), "plain-service")
	x, err := s.net.Launch("plain", "HiddenServiceDir "+dir, "HiddenServicePort 80 "+backend.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := x.AwaitBootstrap(s.ctx); err != nil {
		s.t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "hostname"))
	if err != nil {
		s.t.Fatal(err)
	}
	address := strings.TrimSpace(string(text))
	revive := func() {
		if x, err = s.net.Revive(x); err != nil {
			s.t.Error(err)
		}
	}
	for _, c := range []struct {
		name     string
		do, undo func()
	}{
		{"plain tor killed, started at once", revive, nil},
		{"plain tor stopped, started at once", func() {
			_ = x.Signal(syscall.SIGTERM)
			for x.Running() && s.ctx.Err() == nil {
				time.Sleep(10 * time.Millisecond)
			}
			revive()
		}, nil},
		{"plain tor killed, started after 30 s", func() {
			x.Kill()
			time.Sleep(30 * time.Second)
			revive()
		}, nil},
		{"plain tor frozen for 60 s", func() {
			_ = x.Signal(syscall.SIGSTOP)
			time.Sleep(60 * time.Second)
			_ = x.Signal(syscall.SIGCONT)
		}, nil},
	} {
		if chosen(c.name) {
			s.calm()
			s.measure(c.name, address, c.do)
		}
	}
}

// signal sends processes of the host a signal.
func (h *host) signal(sig syscall.Signal, pids ...int) {
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil {
			h.t.Errorf("signal %s to %d of %s: %v", sig, pid, h.name, err)
		}
	}
}

// children are those of the daemon with this name; empty: all.
func (h *host) children(name string) (pids []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", h.cmd.Process.Pid))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for child := range strings.FieldsSeq(string(text)) {
			comm, _ := os.ReadFile("/proc/" + child + "/comm")
			if pid, err := strconv.Atoi(child); err == nil && (name == "" || strings.TrimSpace(string(comm)) == name) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// all are the daemon and its children.
func (h *host) all() []int { return append([]int{h.cmd.Process.Pid}, h.children("")...) }

// again starts the daemon once more when it has ended.
func (h *host) again() {
	<-h.done
	h.run("run", "--config", h.config)
}

func (s *outages) drain(h *host, undo bool) {
	if _, err := h.api.DrainOnion(s.ctx, api.OnionDrainRequest{Undo: undo}); err != nil {
		s.t.Error(err)
	}
}

func (s *outages) rotate(h *host) {
	if _, err := h.api.RotateOnion(s.ctx); err != nil {
		s.t.Error(err)
	}
}

// restart stops all daemons at the same time, and starts each when it has ended.
func (s *outages) restart() {
	for _, h := range s.hosts {
		h.signal(syscall.SIGTERM, h.cmd.Process.Pid)
	}
	for _, h := range s.hosts {
		h.again()
	}
}
