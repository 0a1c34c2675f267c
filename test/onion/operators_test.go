package onion

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/internal/tornet"
	"github.com/skein-project/skein/internal/tornet/tornettest"
	"github.com/skein-project/skein/publisher/descriptor"
)

// TestOperators: an operator reads the plain pages and the API of the page at the onion
// address that only the operator's tor finds, under no other name, and changes nothing.
// Who has no key, or another's, finds nothing. The address outlives the daemon.
func TestOperators(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	alice, other := clientKeys(t), clientKeys(t)
	n1 := f.add(fmt.Sprintf("operators = { alice = %q }\n", descriptor.FormatClientKey(alice.PublicKey())))
	o := n1.await("tor is ready, with an address for operators", func(o api.Onion) bool { return o.Tor.State == "ready" && o.OperatorAddress != "" })
	if len(o.Operators) != 1 || o.Operators[0] != "alice" || o.OperatorAddress == o.Tor.Node {
		t.Fatalf("operators %v at %s, this host at %s", o.Operators, o.OperatorAddress, o.Tor.Node)
	}
	address := o.OperatorAddress
	with, without, wrong := f.finds("alice", address, alice), tornettest.Run(t, f.net, "nobody"), f.finds("other", address, other)

	read := func(what string) {
		t.Helper()
		for tries := 0; ; tries++ {
			code, text, err := ask(f.ctx, with, fmt.Sprint(what, tries), "GET", "http://"+address+"/p/members", "", "")
			if err == nil && code == http.StatusOK && strings.Contains(text, "n1*</bdi>") {
				f.say("%s: read after %d tries", what, tries)
				return
			}
			if f.ctx.Err() != nil {
				t.Fatalf("%s: %d %.300s %v", what, code, text, err)
			}
			if err := with.Fresh(f.ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	read("first")
	for _, c := range []struct {
		method, path, host, body string
		code                     int
		says                     string
	}{
		{"GET", "/", "", "", 200, `<div id="plain" data-base="">`},
		{"GET", "/p/overview", "", "", 200, "Cluster blue is"},
		{"GET", "/p/events", "", "", 200, "n1 founded the cluster"},
		{"GET", "/v1/whoami", "", "", 200, `"may_change":false`},
		{"GET", "/v1/status", "", "", 200, `"cluster"`},
		{"GET", "/v1/config", "", "", 404, "not_found"},
		{"GET", "/metrics", "", "", 404, "not_found"},
		{"POST", "/v1/worker/drain", "", "{}", 403, "this page only shows"},
		{"POST", "/v1/leave", "", "{}", 404, "not_found"},
		{"GET", "/p/overview", "evil.example", "", 403, "onion.operators"},
	} {
		// A circuit may end at any time.
		var code int
		var text string
		var err error
		for range 3 {
			if code, text, err = ask(f.ctx, with, "more", c.method, "http://"+address+c.path, c.host, c.body); err == nil {
				break
			}
		}
		if err != nil || code != c.code || !strings.Contains(text, c.says) {
			t.Errorf("%s %s of %q: %d %.300s %v", c.method, c.path, c.host, code, text, err)
		}
	}
	f.refused(without, address)
	f.refused(wrong, address)
	f.say("nobody else finds it")

	n1.stop()
	n1.run("run", "--config", n1.config)
	again := n1.await("ready again", func(o api.Onion) bool { return o.Tor.State == "ready" && o.OperatorAddress != "" })
	if again.OperatorAddress != address {
		t.Errorf("after a start the address is %s, was %s", again.OperatorAddress, address)
	}
	if err := with.Fresh(f.ctx); err != nil {
		t.Fatal(err)
	}
	read("after a start")
}

func clientKeys(t *testing.T) *ecdh.PrivateKey {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// finds runs a tor that has a key for an address.
func (f *fleet) finds(name, address string, key *ecdh.PrivateKey) *tornet.Tor {
	f.t.Helper()
	a, err := descriptor.ParseAddress(address)
	if err != nil {
		f.t.Fatal(err)
	}
	dir := filepath.Join(f.dir, "keys-"+name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "page.auth_private"), []byte(descriptor.FormatClientSecret(a, key)+"\n"), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return tornettest.Run(f.t, f.net, name, "ClientOnionAuthDir "+dir)
}

// ask makes one request through a client's tor, under another name than that of the URL
// if host is not empty.
func ask(ctx context.Context, client *tornet.Tor, user, method, url, host, body string) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, 45*time.Second)
	defer cancel()
	c := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, at string) (net.Conn, error) { return client.Dial(ctx, user, at) },
	}}
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Host = host
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, string(text), err
}
