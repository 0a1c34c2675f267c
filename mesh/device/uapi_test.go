package device

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/conn"

	"github.com/skein-project/skein/mesh/topo"
)

const deviceText = `private_key=0101010101010101010101010101010101010101010101010101010101010101
listen_port=51820
public_key=0202020202020202020202020202020202020202020202020202020202020202
preshared_key=0000000000000000000000000000000000000000000000000000000000000000
protocol_version=1
endpoint=192.0.2.1:51820
last_handshake_time_sec=1800000000
last_handshake_time_nsec=5
tx_bytes=10
rx_bytes=20
persistent_keepalive_interval=25
allowed_ip=10.0.0.2/32
allowed_ip=fd00::2/128
public_key=0303030303030303030303030303030303030303030303030303030303030303
last_handshake_time_sec=0
last_handshake_time_nsec=0
`

func TestParseDevice(t *testing.T) {
	r, err := ParseUAPI(deviceText)
	if err != nil {
		t.Fatal(err)
	}
	if r.Port != 51820 || len(r.Peers) != 2 {
		t.Fatalf("%+v", r)
	}
	p := r.Peers[0]
	if p.Endpoint != netip.MustParseAddrPort("192.0.2.1:51820") || p.Handshake != 1800000000_000000005 ||
		p.Tx != 10 || p.Rx != 20 || p.Keepalive != 25*time.Second || len(p.Allowed) != 2 {
		t.Errorf("%+v", p)
	}
	if r.Peers[1].Handshake != 0 {
		t.Error("handshake of a new peer")
	}
	for _, bad := range []string{
		"public_key=02", "public_key=zz", "public_key=" + strings.Repeat("00", 32), "listen_port=70000",
		deviceText + "endpoint=host:1\n", deviceText + "allowed_ip=10.0.0.1/33\n", deviceText + "rx_bytes=-1\n",
	} {
		if _, err := ParseUAPI(bad); err == nil {
			t.Errorf("accepted %q", bad[max(0, len(bad)-30):])
		}
	}
}

func FuzzParseUAPI(f *testing.F) {
	f.Add(deviceText)
	f.Add("")
	f.Add("public_key=\n=\nlisten_port=1")
	f.Add(strings.Replace(deviceText, "1800000000", "9999999999", 1))
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseUAPI(text)
		if err != nil {
			return
		}
		for _, p := range r.Peers {
			if p.Key.IsZero() {
				t.Error("peer without a key")
			}
		}
	})
}

func TestOperationTexts(t *testing.T) {
	k := topo.Key{0xab}
	hexKey := "public_key=ab" + strings.Repeat("00", 31) + "\n"
	k2 := topo.Key{0xcd}
	hexKey2 := "public_key=cd" + strings.Repeat("00", 31) + "\n"
	for _, c := range []struct {
		op   topo.Op
		want string
	}{
		{topo.SetPort{Port: 5}, "listen_port=5\n"},
		{topo.AddPeer{Key: k}, hexKey + "persistent_keepalive_interval=0\n"},
		{topo.RemovePeer{Key: k}, hexKey + "remove=true\n"},
		{topo.Allow{Key: k, Prefix: netip.MustParsePrefix("10.0.0.1/32")}, hexKey + "update_only=true\nallowed_ip=10.0.0.1/32\n"},
		{topo.Disallow{Key: k, Prefix: netip.MustParsePrefix("10.0.0.1/32")}, hexKey + "update_only=true\nallowed_ip=-10.0.0.1/32\n"},
		{topo.SetEndpoint{Key: k, Endpoint: netip.MustParseAddrPort("[2001:db8::1]:5")}, hexKey + "update_only=true\nendpoint=[2001:db8::1]:5\n"},
		{
			topo.Replace{Old: k2, New: k, Allowed: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("fd00::1/128")}},
			hexKey + "allowed_ip=10.0.0.1/32\nallowed_ip=fd00::1/128\n" + hexKey2 + "remove=true\n",
		},
		{topo.SetKeepalive{Key: k, Interval: 25 * time.Second}, hexKey + "update_only=true\npersistent_keepalive_interval=25\n"},
	} {
		if got, ok := uapiText(c.op); !ok || got != c.want {
			t.Errorf("%s: %q, want %q", c.op, got, c.want)
		}
	}
	if _, ok := uapiText(topo.SetMTU{MTU: 1280}); ok {
		t.Error("the mtu is not the device's")
	}
}

func TestBind(t *testing.T) {
	hints := 0
	b := newBind(netip.MustParseAddr("127.0.0.1"), func(netip.AddrPort, []byte) { hints++ })
	if err := b.Send([][]byte{{1}}, &conn.StdNetEndpoint{}); err == nil {
		t.Error("sent before open")
	}
	fns, port, err := b.Open(0)
	if err != nil || len(fns) != 1 || port == 0 {
		t.Fatalf("%v, %d, %v", len(fns), port, err)
	}
	if _, _, err := b.Open(0); err == nil {
		t.Error("opened twice")
	}
	if _, err := b.ParseEndpoint("localhost:1"); err == nil {
		t.Error("host name accepted")
	}
	self := &conn.StdNetEndpoint{AddrPort: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)}
	response := make([]byte, 92)
	response[0] = 2
	keepalive := make([]byte, 32)
	keepalive[0] = 4
	for _, p := range [][]byte{response, keepalive, {4, 0, 0, 0, 1}, {2}} {
		if err := b.Send([][]byte{p}, self); err != nil {
			t.Fatal(err)
		}
	}
	bufs, sizes, eps := [][]byte{make([]byte, 2048)}, []int{0}, []conn.Endpoint{nil}
	var last conn.Endpoint
	for range 4 {
		if n, err := fns[0](bufs, sizes, eps); n != 1 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		if eps[0].DstToString() != self.DstToString() || (last != nil && eps[0] != last) {
			t.Errorf("from %s, want the same endpoint again", eps[0].DstToString())
		}
		last = eps[0]
	}
	if hints != 2 {
		t.Errorf("%d hints, want 2", hints)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := fns[0](bufs, sizes, eps)
		ended <- err
	}()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != net.ErrClosed { //nolint:errorlint // the device compares it
			t.Errorf("receiver ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("receiver did not end")
	}
	if err := b.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}
