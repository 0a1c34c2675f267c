package device

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
)

const (
	// maxSegments is how many datagrams the kernel takes in one piece; older
	// ones take no more than that.
	maxSegments = 64
	// maxDatagram is the largest piece, with room for the headers.
	maxDatagram = 65535 - 48
	// batchSize is how many packets a device handles at a time.
	batchSize = conn.IdealBatchSize
)

// batchBind is a udpBind that lets the kernel split and join datagrams of one
// size, which halves the cost of a packet. It is the underlay of a TUN device
// that listens on one address; the stock Bind listens on all.
type batchBind struct {
	*udpBind
	noSplit atomic.Bool // the network card or the kernel cannot
	buffers sync.Pool   // of *[maxDatagram]byte, to join datagrams in
}

// NewBatchBind is NewBind with the kernel's batches of datagrams.
func NewBatchBind(addr netip.Addr, hint HintFunc) conn.Bind { return newBatchBind(addr, hint) }

func newBatchBind(addr netip.Addr, hint HintFunc) *batchBind {
	return &batchBind{
		udpBind: newBind(addr, hint),
		buffers: sync.Pool{New: func() any { return new([maxDatagram]byte) }},
	}
}

// BatchSize implements conn.Bind.
func (*batchBind) BatchSize() int { return batchSize }

// Open implements conn.Bind.
func (b *batchBind) Open(port uint16) ([]conn.ReceiveFunc, uint16, error) {
	_, actual, err := b.udpBind.Open(port)
	if err != nil {
		return nil, 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	raw, err := b.conn.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			// A kernel before 5.0 hands over each datagram for itself.
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_GRO, 1)
		})
	}
	if err != nil {
		return nil, 0, errors.Join(err, b.conn.Close())
	}
	r := &batchReceiver{conn: b.conn, gone: b.gone, hint: b.hint, cache: map[netip.AddrPort]*conn.StdNetEndpoint{}}
	return []conn.ReceiveFunc{r.receive}, actual, nil
}

// batchReceiver splits what the kernel has joined. One goroutine of the device
// uses it.
type batchReceiver struct {
	conn  *net.UDPConn
	gone  <-chan struct{}
	hint  HintFunc
	cache map[netip.AddrPort]*conn.StdNetEndpoint

	buf  [65536]byte
	oob  [64]byte
	rest []byte // of buf, from the sender of the last read
	size int    // of the datagrams in rest
	from *conn.StdNetEndpoint
}

// receive implements conn.ReceiveFunc.
func (r *batchReceiver) receive(packets [][]byte, sizes []int, eps []conn.Endpoint) (int, error) {
	if len(r.rest) == 0 {
		if err := r.read(); err != nil {
			return 0, afterReceiveError(err, r.gone)
		}
	}
	n := 0
	for ; n < len(packets) && len(r.rest) > 0; n++ {
		p := r.rest[:min(r.size, len(r.rest))]
		r.rest = r.rest[len(p):]
		sizes[n], eps[n] = copy(packets[n], p), r.from
		if MayFinishHandshake(p) {
			r.hint(r.from.AddrPort, p)
		}
	}
	return n, nil
}

func (r *batchReceiver) read() error {
	n, oobn, _, from, err := r.conn.ReadMsgUDPAddrPort(r.buf[:], r.oob[:])
	if err != nil {
		return err
	}
	from = UnmapPort(from)
	ep, ok := r.cache[from]
	if !ok {
		if len(r.cache) == maxEndpointCache {
			clear(r.cache)
		}
		ep = &conn.StdNetEndpoint{AddrPort: from}
		r.cache[from] = ep
	}
	r.rest, r.from = r.buf[:n], ep
	r.size = n
	if s := joinedSize(r.oob[:oobn]); s > 0 {
		r.size = s
	}
	return nil
}

// joinedSize is the size of the datagrams that the kernel joined, 0 if it did
// not.
func joinedSize(oob []byte) int {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0
	}
	for _, m := range messages {
		if m.Header.Level == unix.IPPROTO_UDP && m.Header.Type == unix.UDP_GRO && len(m.Data) >= 2 {
			return int(binary.NativeEndian.Uint16(m.Data))
		}
	}
	return 0
}

// Send implements conn.Bind.
func (b *batchBind) Send(bufs [][]byte, ep conn.Endpoint) error {
	for len(bufs) > 1 && !b.noSplit.Load() {
		n, total := run(bufs)
		if n == 1 {
			if err := b.udpBind.Send(bufs[:1], ep); err != nil {
				return err
			}
			bufs = bufs[1:]
			continue
		}
		err := b.sendJoined(bufs[:n], total, ep)
		switch {
		case errors.Is(err, unix.EIO):
			b.noSplit.Store(true)
			err = b.udpBind.Send(bufs[:n], ep)
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EMSGSIZE):
			// Larger than the link takes: only single ones are fragmented.
			err = b.udpBind.Send(bufs[:n], ep)
		}
		if err != nil {
			return err
		}
		bufs = bufs[n:]
	}
	if len(bufs) == 0 {
		return nil
	}
	return b.udpBind.Send(bufs, ep)
}

// run is how many of bufs can go as one piece: all of one size but for a
// smaller last one.
func run(bufs [][]byte) (n, total int) {
	size := len(bufs[0])
	for _, p := range bufs {
		if len(p) > size || n == maxSegments || total+len(p) > maxDatagram {
			break
		}
		n++
		total += len(p)
		if len(p) < size {
			break
		}
	}
	return max(n, 1), total
}

func (b *batchBind) sendJoined(bufs [][]byte, total int, ep conn.Endpoint) error {
	to, ok := ep.(*conn.StdNetEndpoint)
	if !ok {
		return conn.ErrWrongEndpointType
	}
	b.mu.Lock()
	c := b.conn
	b.mu.Unlock()
	if c == nil {
		return net.ErrClosed
	}
	buf, ok := b.buffers.Get().(*[maxDatagram]byte)
	if !ok {
		buf = new([maxDatagram]byte)
	}
	defer b.buffers.Put(buf)
	joined := buf[:0]
	for _, p := range bufs {
		joined = append(joined, p...)
	}
	_, _, err := c.WriteMsgUDPAddrPort(joined[:total], splitMessage(len(bufs[0])), to.AddrPort)
	return err
}

// splitMessage asks the kernel to split a piece into datagrams of a size.
func splitMessage(size int) []byte {
	m := make([]byte, unix.CmsgSpace(2))
	header := (*unix.Cmsghdr)(unsafe.Pointer(&m[0]))
	header.Level, header.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
	header.SetLen(unix.CmsgLen(2))
	binary.NativeEndian.PutUint16(m[unix.CmsgLen(0):], uint16(size))
	return m
}
