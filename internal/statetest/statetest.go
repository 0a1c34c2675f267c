package statetest

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/eventlog"
)

// Config returns the configuration of host n1 with an empty state directory.
func Config(t *testing.T) config.Config {
	t.Helper()
	cfg, err := config.Load(config.Options{
		Hostname: func() (string, error) { return "n1", nil },
		Flags:    map[string]string{"state_dir": filepath.Join(t.TempDir(), "state"), "mesh.backend": "netstack", "mesh.listen": "127.0.0.1:1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(cfg.StateDir, 0o700); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// WithLog makes the state directory of the founder of a cluster, whose log has
// about n events.
func WithLog(t *testing.T, n int) string {
	t.Helper()
	cfg := Config(t)
	if err := join.Init(cfg.StateDir, join.InitOptions{
		Node: cfg.Node.Name, ClusterName: "blue", Network: netip.MustParsePrefix(config.DefaultNetwork),
		About: join.About{Endpoints: []netip.AddrPort{cfg.Mesh.Listen}},
	}); err != nil {
		t.Fatal(err)
	}
	Append(t, cfg.StateDir, n)
	return cfg.StateDir
}

// Append writes about n more events to the log of a state directory.
func Append(t *testing.T, stateDir string, n int) {
	t.Helper()
	id, _, err := join.Load(stateDir)
	if err != nil {
		t.Fatal(err)
	}
	l, err := eventlog.Open(eventlog.Options{
		Dir: filepath.Join(stateDir, "log"), Cluster: id.Cluster.String(), Self: id.Node, Key: id.IDKey(), SegmentSize: 8192,
		MayAct: func(cluster.Term) bool { return true }, Logger: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	for i := range n {
		d := event.Draft{Kind: event.KindHostStarted, Body: event.HostStarted{Version: "v<1>", Boot: uint64(i)}}
		if i%10 == 0 {
			d = event.Draft{Term: cluster.Term(i + 1), Kind: event.KindTermStart, Body: event.TermStart{Term: cluster.Term(i + 1), Cut: l.Cut()}}
		}
		if _, err := l.Append(ctx, []event.Draft{d, d}[:1+i%2]); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
