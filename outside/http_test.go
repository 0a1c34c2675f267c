package outside

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster/job"
	gate "github.com/skein-project/skein/gateway"
	"github.com/skein-project/skein/scheduler/stream"
)

// TestByHTTP: where a gateway wants workers to connect nobody is, and a computer works all the
// same: it finds out what there is to do, what is to be ended, and which results are settled.
func TestByHTTP(t *testing.T) {
	h := newHall(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("x", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	h.change = func(o *gate.Options) {
		o.Centrifugo = gate.Centrifugo{
			API: "http://127.0.0.1:1/api", Clients: "ws://127.0.0.1:1/connection/websocket", KeyFile: secret, SecretFile: secret,
			Open: func(ctx context.Context) (net.Listener, error) {
				return new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
			},
		}
	}
	h.beat = 1100 * time.Millisecond // a gateway takes one a second
	d := h.open("")
	d.hold(5)
	x := h.work(t.TempDir(), h.token(), d.url)
	id, _ := d.join()
	d.give(id, 0, 1)
	if got := x.begins(t); got != ref(0) {
		t.Errorf("%v begins", got)
	}
	x.end <- nil
	d.result(ref(0))
	if got := x.begins(t); got != ref(1) {
		t.Errorf("%v begins", got)
	}
	kept := func(want int) {
		t.Helper()
		d.hear(func(f stream.Frame) bool { return f.Status != nil && f.Worker == id && f.Status.Kept == want })
	}
	kept(1)
	d.settle(id, ref(0))
	kept(0)
	d.seq++
	d.say(stream.Frame{Worker: id, Cancel: &stream.Cancel{Term: d.term, Seq: d.seq, Job: testJob, Chunks: []job.Attempt{{Chunk: 1, Number: 1}}}})
	d.give(id, 2)
	if got := x.begins(t); got != ref(2) { // there is one slot, which the other one had
		t.Errorf("%v begins", got)
	}
	x.end <- nil
	d.result(ref(2))
}
