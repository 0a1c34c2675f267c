package device

import (
	"bytes"
	"net/netip"
	"testing"

	"golang.zx2c4.com/wireguard/conn"
	wg "golang.zx2c4.com/wireguard/device"
)

// Datagrams of all sizes arrive as they were sent, joined or not.
func TestBatchBind(t *testing.T) {
	for _, at := range []string{"127.0.0.1", "::1"} {
		t.Run(at, func(t *testing.T) { batchBindPair(t, netip.MustParseAddr(at)) })
	}
}

func batchBindPair(t *testing.T, at netip.Addr) {
	hints := 0
	a, b := newBatchBind(at, func(netip.AddrPort, []byte) {}), NewBatchBind(at, func(netip.AddrPort, []byte) { hints++ })
	if _, _, err := a.Open(0); err != nil {
		t.Skip(err)
	}
	defer a.Close()
	fns, port, err := b.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var sent [][]byte
	for i, size := range []int{1000, 900, 900, 901, 3, 1, 1, 60000, 60000, 1400, 32, 32, 32} {
		p := bytes.Repeat([]byte{byte(i + 100)}, size)
		sent = append(sent, p)
	}
	for range 70 { // more than fit into one piece
		sent = append(sent, bytes.Repeat([]byte{7}, 1200))
	}
	keepalive := make([]byte, wg.MessageKeepaliveSize)
	keepalive[0] = wg.MessageTransportType
	sent = append(sent, keepalive)

	to := &conn.StdNetEndpoint{AddrPort: netip.AddrPortFrom(at, port)}
	go func() {
		if err := a.Send(sent, to); err != nil {
			t.Error(err)
		}
	}()
	packets, sizes, eps := make([][]byte, 5), make([]int, 5), make([]conn.Endpoint, 5)
	for i := range packets {
		packets[i] = make([]byte, 65535)
	}
	for got := 0; got < len(sent); {
		n, err := fns[0](packets, sizes, eps)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if p := packets[i][:sizes[i]]; got >= len(sent) || !bytes.Equal(p, sent[got]) {
				t.Fatalf("datagram %d has %d bytes, want %d", got, len(p), len(sent[min(got, len(sent)-1)]))
			}
			got++
		}
	}
	if hints != 1 {
		t.Errorf("%d hints of a handshake, want 1", hints)
	}
	if b.Close() != nil {
		t.Error("close")
	}
	if _, err := fns[0](packets, sizes, eps); err == nil {
		t.Error("received on a closed socket")
	}
}

func TestRun(t *testing.T) {
	sized := func(sizes ...int) (bufs [][]byte) {
		for _, n := range sizes {
			bufs = append(bufs, make([]byte, n))
		}
		return bufs
	}
	many := make([]int, 100)
	for i := range many {
		many[i] = 100
	}
	for _, c := range []struct {
		bufs  [][]byte
		n     int
		total int
	}{
		{sized(10), 1, 10},
		{sized(10, 10, 10), 3, 30},
		{sized(10, 10, 4, 10), 3, 24},
		{sized(10, 11), 1, 10},
		{sized(40000, 40000), 1, 40000},
		{sized(many...), maxSegments, maxSegments * 100},
		{sized(65535), 1, 0},
	} {
		if n, total := run(c.bufs); n != c.n || n > 1 && total != c.total {
			t.Errorf("run is %d of %d bytes, want %d of %d", n, total, c.n, c.total)
		}
	}
}

// What stands beside a datagram comes from the kernel, but a length that is
// wrong must not be trusted.
func FuzzJoinedSize(f *testing.F) {
	f.Add(splitMessage(1200))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, oob []byte) {
		if n := joinedSize(oob); n < 0 || n > 65535 {
			t.Errorf("size %d", n)
		}
	})
}
