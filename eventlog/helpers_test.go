package eventlog

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/store"
)

const testCluster = "test-cluster"

// keyFor derives a host's key from its name.
func keyFor(n cluster.NodeID) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(n))
	return ed25519.NewKeyFromSeed(seed[:])
}

func pubFor(n cluster.NodeID) ed25519.PublicKey { return keyFor(n).Public().(ed25519.PublicKey) }

func testOptions(dir string, self cluster.NodeID) Options {
	return Options{
		Dir: dir, Cluster: testCluster, Self: self, Key: keyFor(self), KeyOf: pubFor,
		MayAct: func(cluster.Term) bool { return true }, PullEvery: -1, ReopenAfter: -1,
		Float: rand.Float64, Logger: testLogger(), Registerer: registry{prometheus.NewRegistry()},
	}
}

// registry takes the metrics of one log after the other.
type registry struct{ *prometheus.Registry }

func (r registry) Register(c prometheus.Collector) error {
	err := r.Registry.Register(c)
	if old, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		r.Unregister(old.ExistingCollector)
		err = r.Registry.Register(c)
	}
	return err
}

// start opens a log and runs it until stop is called or the test ends.
func start(t testing.TB, o Options) (l *Log, stop func() error) {
	t.Helper()
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = stop() })
	return l, stop
}

// note is a draft whose body names i.
func note(i int) event.Draft {
	return event.Draft{Kind: event.KindHostStarted, Body: event.HostStarted{Version: fmt.Sprintf("v%d", i), Boot: uint64(i)}}
}

func acting(term cluster.Term, i int) event.Draft {
	return event.Draft{Term: term, Kind: event.KindJobStopped, Body: event.JobStopped{Job: "j1", Actor: fmt.Sprint(i)}}
}

func mustAppend(t testing.TB, l *Log, drafts ...event.Draft) []event.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	events, err := l.Append(ctx, drafts)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func stateHash(l *Log) (h cluster.Hash) {
	l.View(func(s *state.State) { h = s.Hash() })
	return h
}

// patience is how long a test waits for what must happen: far longer than it
// takes, for a machine may be busy.
const patience = 2 * time.Minute

// eventually polls until ok or fails the test.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// copyDir copies a closed log.
func copyDir(t testing.TB, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// forgetMarks removes the watermarks of a closed log, as if its process had been
// killed while it wrote.
func forgetMarks(t testing.TB, dir string) {
	t.Helper()
	for i := range uint64(2) {
		if err := os.Remove(store.MarkPath(dir, i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

func segmentPaths(t testing.TB, dir string, src event.SourceID) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, segment.SourceDir(src), "*"+segment.Suffix))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// network connects the logs of one test in memory.
type network struct {
	mu      sync.Mutex
	logs    map[cluster.NodeID]*Log
	down    map[cluster.NodeID]bool // neither reached nor reaching
	conns   map[net.Conn][2]cluster.NodeID
	answer  map[cluster.NodeID]func(net.Conn) // replaces Serve
	serving sync.WaitGroup
	ctx     context.Context
}

func newNetwork(t testing.TB) *network {
	ctx, cancel := context.WithCancel(context.Background())
	n := &network{
		logs: map[cluster.NodeID]*Log{}, down: map[cluster.NodeID]bool{}, ctx: ctx,
		conns: map[net.Conn][2]cluster.NodeID{}, answer: map[cluster.NodeID]func(net.Conn){},
	}
	t.Cleanup(func() { cancel(); n.serving.Wait() })
	return n
}

var errDown = errors.New("host down")

func (n *network) dialer(self cluster.NodeID) func(context.Context, cluster.NodeID) (net.Conn, error) {
	return func(_ context.Context, to cluster.NodeID) (net.Conn, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		l, answer := n.logs[to], n.answer[to]
		if n.down[self] || n.down[to] || l == nil && answer == nil || n.ctx.Err() != nil {
			return nil, errDown
		}
		here, there := net.Pipe()
		n.conns[here] = [2]cluster.NodeID{self, to}
		n.serving.Go(func() {
			if answer != nil {
				answer(there)
			} else {
				l.Serve(n.ctx, self, there)
			}
			there.Close()
			n.mu.Lock()
			delete(n.conns, here)
			n.mu.Unlock()
		})
		return here, nil
	}
}

// setDown cuts a host off, with all its streams, or connects it again.
func (n *network) setDown(id cluster.NodeID, down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down[id] = down
	for c, ends := range n.conns {
		if down && (ends[0] == id || ends[1] == id) {
			c.Close()
		}
	}
}

func (n *network) add(id cluster.NodeID, l *Log) {
	n.mu.Lock()
	n.logs[id] = l
	n.mu.Unlock()
}

// join starts a log that the network connects.
func (n *network) join(t testing.TB, o Options) *Log {
	t.Helper()
	o.Dial = n.dialer(o.Self)
	l, _ := start(t, o)
	n.add(o.Self, l)
	return l
}

func voters(ids ...cluster.NodeID) cluster.VoterConfig {
	return cluster.VoterConfig{Epoch: 1, Term: 1, Voters: ids, Mode: cluster.AutoMode(len(ids))}
}

// refused returns how often l counted a refusal of peers' data for a reason.
func refused(t testing.TB, l *Log, reason string) float64 {
	t.Helper()
	return metric(t, l, "peer_errors_total", "reason", reason)
}

// metric returns the value of a counter or gauge of l, with one label if that is
// given.
func metric(t testing.TB, l *Log, name string, label ...string) float64 {
	t.Helper()
	families, err := l.o.Registerer.(prometheus.Gatherer).Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != "skein_eventlog_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			if len(label) == 2 && !slices.ContainsFunc(m.GetLabel(), func(p *dto.LabelPair) bool {
				return p.GetName() == label[0] && p.GetValue() == label[1]
			}) {
				continue
			}
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}

// hashAt returns the hash of a durable event, if it can be read.
func hashAt(l *Log, src event.SourceID, seq uint64) (cluster.Hash, bool) {
	hash, ok, err := l.HashAt(src, seq)
	return hash, ok && err == nil
}

func testLogger() zerolog.Logger {
	if os.Getenv("SKEIN_LOG") != "" {
		return zerolog.New(os.Stderr)
	}
	return zerolog.Nop()
}
