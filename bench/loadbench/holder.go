package loadbench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/loads"
	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/bundle"
	"github.com/skein-project/skein/load/gang"
	"github.com/skein-project/skein/load/slice"
	"github.com/skein-project/skein/load/stat"
)

// Roles make a program of this module the hosts of a test, or the one that carries it out.
const (
	HostsRole  = "load-hosts"
	HolderRole = "load-holder"
)

// Of the test that a holder carries out.
const (
	parts = 100
	steps = 8
	// settle is how much of it is left out at its beginning, in seconds.
	settle = 3
)

// Holder measures what a test on many hosts takes of the one that carries it out: it asks each
// for what it counted, judges that, and tells a follower.
func Holder(ctx context.Context, s *suite.Suite) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	row := suite.Series{Name: "load: a processor of the holder, 100 hosts that each tell 8 steps once a second", Unit: "%", Target: suite.Want("ours", "<=", 10), Digest: suite.Median}
	memory := suite.Series{Name: "load: memory of the holder of a test on 100 hosts", Unit: "MB", Target: suite.Want("ours", "<=", 150), Digest: suite.Median}
	length := settle + 2*seconds(s)
	for range s.Size.Rounds {
		got, err := holder(ctx, self, s.Dir, length)
		if err != nil {
			return err
		}
		row.Ours, memory.Ours = append(row.Ours, got.share*100), append(memory.Ours, got.rss/1e6)
	}
	s.Add(row)
	s.Add(memory)
	return nil
}

type held struct{ share, rss float64 }

func holder(ctx context.Context, self, dir string, length int) (held, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(length)*time.Second+time.Minute)
	defer cancel()
	at := filepath.Join(dir, "hosts.sock")
	_ = os.Remove(at) // of the round before
	hosts := exec.CommandContext(ctx, self, HostsRole, at)
	hosts.Stderr = os.Stderr
	in, err := hosts.StdinPipe()
	if err != nil {
		return held{}, err
	}
	out, err := hosts.StdoutPipe()
	if err != nil {
		return held{}, err
	}
	if err := hosts.Start(); err != nil {
		return held{}, fmt.Errorf("start the hosts: %w", err)
	}
	defer func() {
		in.Close() //nolint:errcheck // they end with that
		_ = hosts.Wait()
	}()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return held{}, fmt.Errorf("start the hosts: %w", err)
	}
	if err := suite.Phase(ctx); err != nil {
		return held{}, err
	}
	cmd := exec.CommandContext(ctx, self, HolderRole, at, text(length))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	said, err := cmd.Output()
	if err != nil {
		return held{}, fmt.Errorf("the holder: %w: %.500s", err, errs.String())
	}
	share, err := strconv.ParseFloat(strings.TrimSpace(string(said)), 64)
	if err != nil {
		return held{}, fmt.Errorf("the holder says %.100q", said)
	}
	got := held{share: share}
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		got.rss = float64(u.Maxrss) * 1024
	}
	return got, nil
}

// Hosts serves, at a socket of files, many hosts that say to send what a test asks for; they send
// nothing. It ends with its standard input.
func Hosts(args []string, in io.Reader, out io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: load-hosts SOCKET")
		return 2
	}
	l, err := net.Listen("unix", args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, "hosts:", err)
		return 1
	}
	all := map[string]*forward.Router{}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range parts {
		name := nodeOf(i)
		r, err := forward.New(forward.Options{Self: name, Lease: func() forward.Lease { return forward.Lease{Holder: "holder"} }})
		if err != nil {
			fmt.Fprintln(os.Stderr, "hosts:", err)
			return 1
		}
		(&pretender{bank: countsOf(rng)}).handle(r)
		all[string(name)] = r
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		_ = l.Close()
	}()
	fmt.Fprintln(out, args[0])
	for {
		c, err := l.Accept()
		if err != nil {
			return 0
		}
		go func() {
			defer c.Close()
			var name [8]byte
			if _, err := io.ReadFull(c, name[:]); err != nil {
				return
			}
			if r := all[strings.TrimSpace(string(name[:]))]; r != nil {
				r.Serve(context.Background(), "holder", c)
			}
		}()
	}
}

func nodeOf(i int) cluster.NodeID { return cluster.NodeID(fmt.Sprintf("n%d", i)) }

// countsOf is what a host counted in a second.
func countsOf(rng *rand.Rand) []byte {
	b := stat.NewBank(steps, steps)
	for i := range steps {
		for range 20 {
			x := stat.Sample{Series: i, Class: load.OK, In: 200, Out: 100, FirstCheck: i, Checks: []bool{true}, OwnLate: true}
			for p, mean := range map[stat.Phase]float64{stat.Latency: 2e7, stat.Service: 2e7, stat.Late: 1e5, stat.Send: 2e4, stat.FirstByte: 2e7, stat.Receive: 1e5} {
				x.Have[p], x.Times[p] = true, time.Duration(rng.ExpFloat64()*mean)
			}
			b.Record(&x)
		}
	}
	return b.Append(nil)
}

// pretender is a host that says to send.
type pretender struct {
	bank []byte
	mu   sync.Mutex
	at   int64 // when it began; 0: it has not
	end  bool
}

func (p *pretender) handle(r *forward.Router) {
	forward.Handle(r, forward.LoadOffer, func(context.Context, forward.Asker, gang.Wanted) (gang.Offer, error) { return gang.Offer{}, nil })
	forward.Handle(r, forward.LoadPrepare, func(context.Context, forward.Asker, gang.Prepare) (gang.Prepared, error) {
		return gang.Prepared{Ready: true}, nil
	})
	forward.Handle(r, forward.LoadClock, func(context.Context, forward.Asker, gang.Named) (gang.Clock, error) {
		return gang.Clock{Now: slice.Clock()}, nil
	})
	forward.Handle(r, forward.LoadStart, func(_ context.Context, _ forward.Asker, x gang.Start) (forward.None, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.at = x.At
		return forward.None{}, nil
	})
	forward.Handle(r, forward.LoadEnd, func(context.Context, forward.Asker, gang.End) (forward.None, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.end = true
		return forward.None{}, nil
	})
	forward.Handle(r, forward.LoadCounted, p.counted)
}

func (p *pretender) counted(ctx context.Context, _ forward.Asker, a gang.Ask) (gang.Counted, error) {
	heard := slice.Clock()
	p.mu.Lock()
	at, end := p.at, p.end
	p.mu.Unlock()
	if at == 0 {
		return gang.Counted{Stage: gang.Ready}, nil
	}
	if end {
		return gang.Counted{Stage: gang.Done, End: &gang.Ended{Stopped: true}}, nil
	}
	next := time.Duration(at-slice.Clock()) + time.Duration(a.After+1)*time.Second
	wait := min(next, time.Duration(a.Wait)*time.Millisecond)
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
	out := gang.Counted{Stage: gang.Running, Heard: heard, Now: slice.Clock()}
	if next <= wait {
		n := int(a.After) + 1
		out.Frames = []stat.Frame{{First: a.After, Last: a.After, At: 10 * n, Span: 10, Bank: p.bank}}
	}
	return out, nil
}

// holdersLog is the log and the artefacts of a holder, as far as a test needs them.
type holdersLog struct {
	mu      sync.Mutex
	st      *state.State
	seq     uint64
	changed chan struct{}
	blob    []byte
}

// View implements loads.Log.
func (m *holdersLog) View(f func(*state.State)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m.st)
}

// Changed implements loads.Log.
func (m *holdersLog) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// Set implements loads.Scheduler.
func (m *holdersLog) Set(_ context.Context, b event.Register) error {
	if err := b.Check(); err != nil {
		return err
	}
	body, err := json.Marshal(b)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seq++
	m.st.Apply(event.Event{
		Source: event.SourceID{Node: "holder", Inc: 1}, Seq: m.seq, HLC: cluster.NewHLC(time.Unix(int64(1e9+m.seq), 0), 0), Term: 1, Kind: b.Kind(), Body: body, //nolint:gosec // a few
	})
	close(m.changed)
	m.changed = make(chan struct{})
	return nil
}

func (m *holdersLog) get(context.Context, cluster.Hash, int64) ([]byte, error) {
	if m.blob == nil {
		return nil, errors.New("not here")
	}
	return m.blob, nil
}

// CarryOut is the holder of a test on the hosts at a socket, for so many seconds. It prints which
// share of a processor that took.
func CarryOut(args []string, out io.Writer) int {
	if len(args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: load-holder SOCKET SECONDS")
		return 2
	}
	length, _ := strconv.Atoi(args[1])
	share, err := carryOut(args[0], time.Duration(length)*time.Second)
	if err != nil {
		fmt.Fprintln(os.Stderr, "holder:", err)
		return 1
	}
	fmt.Fprintln(out, share)
	return 0
}

func carryOut(at string, length time.Duration) (float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), length+30*time.Second)
	defer cancel()
	m := &holdersLog{st: state.New(), changed: make(chan struct{})}
	r, err := forward.New(forward.Options{
		Self: "holder", Lease: func() forward.Lease { return forward.Lease{Holder: "holder", Holding: true} },
		Dial: func(ctx context.Context, to cluster.NodeID) (net.Conn, error) {
			var d net.Dialer
			c, err := d.DialContext(ctx, "unix", at)
			if err == nil {
				_, err = fmt.Fprintf(c, "%-8s", to)
			}
			return c, err
		},
	})
	if err != nil {
		return 0, err
	}
	own, err := slice.New(slice.Options{Self: "holder", Logger: zerolog.Nop(), Running: func() int { return 0 }})
	if err != nil {
		return 0, err
	}
	var members []cluster.NodeID
	for i := range parts {
		members = append(members, nodeOf(i))
	}
	l := loads.New(loads.Options{
		Self: "holder", Log: m, Scheduler: m, Remote: r, Host: own, Members: func() []cluster.NodeID { return members }, Holder: func() cluster.NodeID { return "holder" },
		Get: m.get, Kept: m.get, Spread: func(context.Context, []cluster.Hash) error { return nil }, AwaitHolder: func(context.Context) error { return nil },
		Keep: func(io.Reader, int64) (cluster.Hash, error) { return cluster.Hash{2}, nil },
		Watch: func(ctx context.Context, q forward.LoadWatch) (api.LoadLive, error) {
			return forward.AskHolder(ctx, r, forward.WatchLoad, "holder", q)
		},
		Aware: func(event.Kind) error { return nil }, Logger: zerolog.New(os.Stderr).Level(zerolog.WarnLevel),
	})
	l.Handle(r)
	var scenario strings.Builder
	scenario.WriteString("thresholds = [\"p(95)<500\", { when = \"rate(failed)<50%\", window = \"10s\", abort = true }]\ntraffic.main = { flow = \"f\", rate = 1000, for = \"24h\" }\n")
	for i := range steps {
		fmt.Fprintf(&scenario, "[[flow.f]]\nname = \"s%d\"\nget = \"http://x/%d\"\ncheck = \"status == 200\"\n", i, i)
	}
	if m.blob, err = (&bundle.Bundle{Scenario: scenario.String()}).Encode(); err != nil {
		return 0, err
	}
	sent, err := l.SubmitLoad(ctx, "uid:1", api.LoadRequest{Key: "k", Bundle: cluster.Hash{1}, Hosts: parts})
	if err != nil {
		return 0, err
	}
	running, end := context.WithCancel(ctx)
	defer end()
	go l.Run(running, 1)
	var from, until usage
	told := uint64(0)
	for after, last := "", 0.0; ; {
		x, err := l.LoadLive(ctx, sent.Run, after, time.Second)
		if err != nil {
			return 0, err
		}
		after = x.Next
		for _, st := range x.Steps {
			told += st.Requests
		}
		if x.At >= settle && from.at.IsZero() {
			from = used()
		}
		if last = max(last, x.At); last >= length.Seconds() {
			until = used()
			break
		}
		if x.State == event.LoadEnded {
			return 0, fmt.Errorf("it ended after %g s: %s", x.At, x.Verdict)
		}
	}
	if told == 0 {
		return 0, errors.New("the follower heard of no request")
	}
	return (until.cpu - from.cpu).Seconds() / until.at.Sub(from.at).Seconds(), nil
}

// usage is what this process took of processors until a time.
type usage struct {
	at  time.Time
	cpu time.Duration
}

func used() usage {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // of itself it is always known
	return usage{time.Now(), time.Duration(u.Utime.Nano() + u.Stime.Nano())}
}
