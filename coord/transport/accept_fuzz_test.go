package transport

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
)

// FuzzAccept takes whatever arrives from a member's address through all checks:
// only what that member signed for this host passes, once, and only that leaves
// a trace.
func FuzzAccept(f *testing.F) {
	files, err := filepath.Glob("../testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("no golden messages: %v", err)
	}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.ReplaceAll(raw, []byte("host-a"), []byte("host-b")))
	}
	_, other, _ := benchAcceptor(f)
	h := wire.Header{Node: other.node, Time: benchTime.Unix(), Type: wire.TypeHeartbeat, To: "host-a", Boot: 1, Seq: 1}
	good := sealFor(f, other, h, wire.Heartbeat{Role: cluster.RoleStandby, KnownPeers: []wire.PeerHint{}})
	f.Add(good)
	f.Fuzz(func(t *testing.T, data []byte) {
		a, other, _ := benchAcceptor(t)
		m, p, err := a.check(data, other.addr)
		if err != nil {
			if wire.ReasonOf(err) == "" || len(a.skews.m) > 0 && wire.ReasonOf(err) != wire.ReasonClock {
				t.Fatalf("refused: %v", err)
			}
			return
		}
		if p == nil || m.Node != other.node || wire.Verify(m, publicKey(other.key)) != nil || m.For("host-a") != nil {
			t.Fatalf("accepted %+v", m.Header)
		}
		if _, _, err := a.check(data, other.addr); wire.ReasonOf(err) != wire.ReasonReplay {
			t.Fatalf("accepted twice: %v", err)
		}
	})
}
