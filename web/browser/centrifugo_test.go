package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	names "github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/centrifugo"
	"github.com/skein-project/skein/internal/require"
	"github.com/skein-project/skein/internal/servertest"
	"github.com/skein-project/skein/internal/servertest/redistest"
)

// TestPortalByCentrifugo: pages of two gateways, each with an address of its own, connect to a
// Centrifugo that was started with what the program prints, under the policy that the gateway
// gives them, and compute chunks that count; while Centrifugo is away they go on by HTTP, and
// then come back to it; who is revoked is told so within a second, and does not come back.
func TestPortalByCentrifugo(t *testing.T) {
	require.Need(t, require.Centrifugo)
	redis, base := redistest.Start(t)
	var ports [3]string
	for i := range ports {
		ports[i] = fmt.Sprintf("127.0.0.1:%d", port(t))
	}
	for _, name := range []string{"api.key", "proxy.secret"} {
		if err := os.WriteFile(filepath.Join(base, name), []byte(strings.Repeat(name, 4)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	v := newVenue(t, func(i int) (all, gateway, rest string) {
		asked := ports[2]
		if i > 0 {
			asked = fmt.Sprintf("127.0.0.1:%d", port(t))
		}
		return "store = \"redis\"\n",
			fmt.Sprintf("push = \"centrifugo\"\ninternal_listen = %q\n[centrifugo]\napi_url = \"http://%s/api\"\nws_url = \"ws://%s/connection/websocket\"\napi_key_file = %q\nsecret_file = %q\n",
				asked, ports[1], ports[0], filepath.Join(base, "api.key"), filepath.Join(base, "proxy.secret")),
			fmt.Sprintf("[redis]\naddresses = \"unix://%s\"\n", redis.Socket)
	})
	founder := v.hosts[0]
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) { // or the file would not name both
		known, err := founder.api.Gateways(t.Context())
		if err == nil && len(known.Gateways) == len(v.gateways) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the founder knows the gateways %+v, %v", known, err)
		}
	}
	file := filepath.Join(base, "centrifugo.json")
	skein(t, "gateway", "centrifugo-config", "--config", founder.config(), "--socket", founder.socket(), "--out", file)
	fugo, err := servertest.StartCentrifugo(t.Context(), base, file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fugo.Stop() })
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := fugo.Output() // it helps only
			t.Logf("Centrifugo says:\n%.6000s", text)
		}
	})
	at := centrifugo.Server{API: "http://" + ports[1] + "/api", KeyFile: filepath.Join(base, "api.key")}
	connected := func(want int) {
		t.Helper()
		for end := time.Now().Add(3 * patience); ; time.Sleep(50 * time.Millisecond) {
			n, err := at.Connections(t.Context())
			if err == nil && n == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%d connections at Centrifugo, want %d: %v", n, want, err)
			}
		}
	}
	pages := []*tab{v.page(v.gateways[0]), v.page(v.gateways[1])}
	connected(2)

	spec := job.Spec{Key: "by centrifugo", Artefact: v.artefact, Iterations: 100_000 * 20_000_000, Chunk: 20_000_000, Seed: 3}
	spec.Permission.Outside = true
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sub, err := founder.api.Submit(ctx, api.SubmitRequest{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	done := make([]int, len(pages))
	goOn := func(what string) {
		t.Helper()
		for i, p := range pages {
			p.value(`Number(document.getElementById("done").textContent)`, &done[i])
			p.until(what, fmt.Sprintf(`Number(document.getElementById("done").textContent) >= %d`, done[i]+2))
		}
	}
	goOn("it does chunks that it was told of by Centrifugo")
	if err := fugo.Stop(); err != nil {
		t.Fatal(err)
	}
	goOn("it goes on by HTTP")
	if err := fugo.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	connected(2)
	goOn("it is told of chunks again")

	id := pages[1].text("#worker")
	if _, err := founder.api.RevokeWorker(t.Context(), names.NodeID(id)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	pages[1].until("it is shut out", `document.getElementById("state").textContent.startsWith("This browser was shut out")`)
	t.Logf("a page says that it was shut out %v after it was revoked", time.Since(began))
	if took := time.Since(began); took > time.Second {
		t.Errorf("it says so %v after it was revoked", took)
	}
	connected(1)
	for _, p := range pages {
		var forbidden []string
		if p.value(`window.__forbidden`, &forbidden); len(forbidden) > 0 {
			t.Errorf("the policy forbids %v", forbidden)
		}
	}
	var j api.Job
	founder.raw(t, "/v1/jobs/"+string(sub.Job), &j)
	t.Logf("%d chunks by pages count, attempts %+v", byPages(j), j.Attempts)
	if byPages(j) == 0 || j.Attempts.Failed > 0 {
		t.Errorf("%d chunks by pages, attempts %+v", byPages(j), j.Attempts)
	}
	if text, err := fugo.Output(); err != nil || strings.Contains(text, "unknown key") {
		t.Errorf("Centrifugo says, %v:\n%s", err, text)
	}
}
