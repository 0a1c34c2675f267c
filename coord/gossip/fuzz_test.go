package gossip

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"testing"
	"time"

	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/transport"
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
	root := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	verifier := member.Verifier{Cluster: member.ClusterID{1}, RootPub: root.Public().(ed25519.PublicKey)} //nolint:errcheck,forcetypeassert // of that type
	f.Fuzz(func(t *testing.T, data []byte) {
		var req pullRequest
		if err := transport.ReadFrame(bytes.NewReader(data), maxPullRequest, &req); err == nil && len(req.Have) <= maxPullItems {
			if rs := member.NewTable(verifier).Missing(req.Have); !rs.Empty() {
				t.Fatalf("an empty table gave %+v", rs)
			}
		}
		var reply pullReply
		if err := transport.ReadFrame(bytes.NewReader(data), member.MaxRecordsBytes, &reply); err != nil {
			return
		}
		table := member.NewTable(verifier)
		if n := len(reply.Records.Batches(pullBatch)); n > len(data) {
			t.Fatalf("%d batches of %d bytes", n, len(data))
		}
		for _, batch := range reply.Records.Batches(pullBatch) {
			_, _ = table.AddAll(batch, time.Unix(1_700_000_000, 0)) // refused, whatever it is
		}
		if table.Len() != 0 || len(table.Members()) != 0 {
			t.Fatalf("records of no key of the cluster were taken: %+v", reply.Records)
		}
	})
}
