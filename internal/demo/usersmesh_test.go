package demo

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun/netstack"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/coord/join"
)

// inPlaceOf is the mesh as h has it, which is down, towards one of its peers.
func inPlaceOf(t *testing.T, h *host, m api.Mesh, to string) *netstack.Net {
	t.Helper()
	id, _, err := join.Load(h.stateDir())
	if err != nil {
		t.Fatal(err)
	}
	key := id.WGKey()
	conf := "private_key=" + hex.EncodeToString(key[:]) + "\nlisten_port=0\n"
	for _, p := range m.Peers {
		public, err := base64.StdEncoding.DecodeString(p.PublicKey)
		if err != nil {
			t.Fatal(err)
		}
		if string(p.Node) == to {
			conf += fmt.Sprintf("public_key=%x\nendpoint=%s\npersistent_keepalive_interval=1\nallowed_ip=%s/32\n", public, p.Endpoint, p.Addr)
		}
	}
	tun, mesh, err := netstack.CreateNetTUN([]netip.Addr{netip.MustParseAddr(m.Address)}, nil, 1280)
	if err != nil {
		t.Fatal(err)
	}
	dev := device.NewDevice(tun, conn.NewDefaultBind(), device.NewLogger(device.LogLevelSilent, ""))
	t.Cleanup(dev.Close)
	if err := dev.IpcSet(conf); err != nil {
		t.Fatal(err)
	}
	if err := dev.Up(); err != nil {
		t.Fatal(err)
	}
	return mesh
}

// TestUsersOverTheMesh: a host takes requests of users at its mesh address, without TLS,
// since nobody listens in there, and with a proof of each like anywhere else: that one
// comes from a member, even from the key of a host, says nothing about the user.
func TestUsersOverTheMesh(t *testing.T) {
	parallel(t)
	const port = 7443
	d, ctx := startWith(t, 3, calm)
	clusterIs(ctx, t, d.hosts, 3, 3)
	asked, from := d.hosts[0], d.hosts[2]
	mesh, err := from.api.Mesh(ctx)
	if err != nil {
		t.Fatal(err)
	}
	at, err := asked.api.Mesh(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// Its address it has only since it is a member.
	text, err := os.ReadFile(asked.config)
	if err != nil {
		t.Fatal(err)
	}
	target := fmt.Sprintf("%s:%d", at.Address, port)
	if err := os.WriteFile(asked.config, fmt.Appendf(text, "[api]\nlisten = [%q]\nbearer = \"all\"\n", target), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, h := range []*host{asked, from} {
		if err := h.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-h.done
	}
	if err := asked.run(); err != nil {
		t.Fatal(err)
	}
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var set api.UserSet
	eventually(ctx, t, 2*time.Minute, "ann is a user", func() error {
		set, err = asked.api.SetUser(ctx, "ann", api.UserRequest{Role: "operator", Keys: []string{access.FormatPublicKey(public)}})
		return err
	})
	if len(set.Endpoints) != 1 || set.Endpoints[0] != (api.Endpoint{URL: "http://" + target}) {
		t.Errorf("endpoints %+v, want http://%s without a pin", set.Endpoints, target)
	}
	version, err := asked.api.Version(ctx)
	if err != nil {
		t.Fatal(err)
	}
	over := inPlaceOf(t, from, mesh, asked.name)
	web := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DialContext: over.DialContext}}
	t.Cleanup(web.CloseIdleConnections)
	request := func(method, path, body string) *http.Request {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, method, "http://"+target+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	signed := func(host, method, path, body string) *http.Request {
		t.Helper()
		r := request(method, path, body)
		digest := sha256.Sum256([]byte(body))
		var nonce [access.NonceBytes]byte
		_, _ = rand.Read(nonce[:]) // never fails
		proof, err := access.Sign(access.Request{Cluster: version.Cluster, Method: method, Host: host, Path: path, Body: digest}, key, nonce, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		proof.Put(r.Header)
		r.Header.Set(access.HeaderBody, hex.EncodeToString(digest[:]))
		return r
	}
	eventually(ctx, t, time.Minute, "the mesh carries", func() error {
		resp, err := web.Do(request(http.MethodGet, "/v1/version", ""))
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
	token, err := access.Mint(version.Cluster, "ann", access.Viewer, key, "mesh", time.Now(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	bearer := func(method, path, body string) *http.Request {
		r := request(method, path, body)
		r.Header.Set("Authorization", "Bearer "+token)
		return r
	}
	group := `{"members":["user:ann"]}`
	for _, c := range []struct {
		what string
		r    *http.Request
		want int
	}{
		{"a change without a proof", request(http.MethodPut, "/v1/groups/friends", group), http.StatusUnauthorized},
		{"a read without a proof", request(http.MethodGet, "/v1/members", ""), http.StatusUnauthorized},
		{"one signed for another host", signed("n2", http.MethodGet, "/v1/groups", ""), http.StatusUnauthorized},
		{"a signed read", signed(target, http.MethodGet, "/v1/groups", ""), http.StatusOK},
		{"a signed change", signed(target, http.MethodPut, "/v1/groups/friends", group), http.StatusOK},
		{"a token's read", bearer(http.MethodGet, "/v1/members", ""), http.StatusOK},
		{"a viewer's change", bearer(http.MethodPut, "/v1/groups/friends", group), http.StatusForbidden},
	} {
		resp, err := web.Do(c.r)
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s: %s, want %d", c.what, resp.Status, c.want)
		}
	}
	if groups, err := asked.api.Groups(ctx); err != nil || len(groups.Groups) != 1 || groups.Groups[0].Actor != "user:ann@n1" {
		t.Errorf("groups %+v, %v", groups.Groups, err)
	}
	// On the machine itself nobody listens: the address is that of the mesh alone.
	if c, err := new(net.Dialer).DialContext(within(ctx, t), "tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
		c.Close()
		t.Error("it is open on the loopback, too")
	}
}

// within is a context for what should fail at once.
func within(ctx context.Context, t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	t.Cleanup(cancel)
	return ctx
}
