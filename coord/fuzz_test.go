package coord

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/wire"
)

// frame is body as it travels in a stream.
func frame(body string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// FuzzPullFrames reads both frames of a pull as the two ends do, and merges
// what a reply brings: nothing that no key of the cluster signed may stay.
func FuzzPullFrames(f *testing.F) {
	f.Add(frame(`{"have":[{"id":"AAAAAAAAAAAAAAAAAAAAAA==","cert":"AAAAAAAAAAA=","epoch":1}]}`))
	f.Add(frame(`{"records":{"revokes":[],"certs":["QQ.QQ"],"anns":null}}`))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, '{'})
	f.Add([]byte{0, 0, 0})
	verifier := member.Verifier{Cluster: member.ClusterID{1}, RootPub: publicKey(seedKey("root"))}
	f.Fuzz(func(t *testing.T, data []byte) {
		var req pullRequest
		if err := readFrame(bytes.NewReader(data), maxPullRequest, &req); err == nil && len(req.Have) <= maxPullItems {
			if rs := member.NewTable(verifier).Missing(req.Have); !rs.Empty() {
				t.Fatalf("an empty table gave %+v", rs)
			}
		}
		var reply pullReply
		if err := readFrame(bytes.NewReader(data), member.MaxRecordsBytes, &reply); err != nil {
			return
		}
		table := member.NewTable(verifier)
		for _, batch := range reply.Records.Batches(pullBatch) {
			_, _ = table.AddAll(batch, time.Unix(1_700_000_000, 0)) // refused, whatever it is
		}
		if table.Len() != 0 || len(table.Members()) != 0 {
			t.Fatalf("records of no key of the cluster were taken: %+v", reply.Records)
		}
	})
}

// FuzzLeaseMessage decodes what the lease core is fed: what is taken is within
// bounds and means the same when it is sent on.
func FuzzLeaseMessage(f *testing.F) {
	f.Add([]byte(`{"priority":1,"term":9,"phase":"vote","round":1,"config":{"epoch":0,"term":0,"voters":null,"mode":""},"profile":"lan"}`))
	f.Add([]byte(`{"priority":1,"term":9,"phase":"release","released":{"term":8,"holder":"a","proof":"AA"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, kind := range []wire.Type{wire.TypeLeaseClaim, wire.TypeLeaseRelease} {
			m, err := decodeLease(kind, data)
			if err != nil {
				if wire.ReasonOf(err) == "" {
					t.Fatal("refused without a reason")
				}
				continue
			}
			if m.Term == 0 || len(m.Reason) > maxReason || len(m.Config.Voters) > 64 {
				t.Fatalf("out of bounds: %+v", m)
			}
			again, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := decodeLease(kind, again); err != nil {
				t.Fatalf("accepted, and refused when sent on: %v\n%s", err, again)
			}
		}
	})
}

// FuzzAccept takes whatever arrives from a member's address through all checks:
// only what that member signed for this host passes, once, and only that leaves
// a trace.
func FuzzAccept(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
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
	_, peer, _ := benchAcceptor(f)
	h := wire.Header{Node: peer.node, Time: benchTime.Unix(), Type: wire.TypeHeartbeat, To: "host-a", Boot: 1, Seq: 1}
	good := sealFor(f, peer, h, wire.Heartbeat{Role: cluster.RoleStandby, KnownPeers: []wire.PeerHint{}})
	f.Add(good)
	f.Fuzz(func(t *testing.T, data []byte) {
		a, peer, _ := benchAcceptor(t)
		m, p, err := a.check(data, peer.addr)
		if err != nil {
			if wire.ReasonOf(err) == "" || len(a.skews.m) > 0 && wire.ReasonOf(err) != wire.ReasonClock {
				t.Fatalf("refused: %v", err)
			}
			return
		}
		if p == nil || m.Node != peer.node || wire.Verify(m, publicKey(peer.key)) != nil || m.For("host-a") != nil {
			t.Fatalf("accepted %+v", m.Header)
		}
		if _, _, err := a.check(data, peer.addr); wire.ReasonOf(err) != wire.ReasonReplay {
			t.Fatalf("accepted twice: %v", err)
		}
	})
}
