package watchbench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// readers read as fast as they can and look for one text in what comes. They do not
// decode anything: it is about who sends.
type readers struct {
	mu    sync.Mutex
	conns []net.Conn
	all   sync.WaitGroup

	marker atomic.Pointer[[]byte]
	first  atomic.Int64 // when the first byte came, since start
	left   atomic.Int64
	done   chan struct{} // closed when all have the text; of this round
	start  time.Time
}

func (r *readers) expect(marker string) {
	text := []byte(marker)
	r.done, r.start = make(chan struct{}), time.Now()
	r.first.Store(0)
	r.left.Store(int64(len(r.conns)))
	r.marker.Store(&text)
}

// wait returns when the first reader had the first byte and when the last one had all,
// since expect.
func (r *readers) wait(ctx context.Context) (first, last time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	select {
	case <-r.done:
		return time.Duration(r.first.Load()), time.Since(r.start), nil
	case <-ctx.Done():
		return 0, 0, fmt.Errorf("%d of %d readers do not have all after a minute", r.left.Load(), len(r.conns))
	}
}

// add has a connection read. What comes first, until it begins, does not count.
func (r *readers) add(conn net.Conn) {
	r.mu.Lock()
	r.conns = append(r.conns, conn)
	r.mu.Unlock()
	r.all.Go(func() {
		const tail = 2048 // the text is as close to the end of what is sent
		buf := make([]byte, tail+64<<10)
		have := 0
		var got *[]byte
		for {
			n, err := conn.Read(buf[have:])
			if err != nil {
				return
			}
			want := r.marker.Load()
			if want == nil {
				continue
			}
			if r.first.Load() == 0 {
				r.first.CompareAndSwap(0, int64(time.Since(r.start)))
			}
			have += n
			if got != want && bytes.Contains(buf[max(0, have-tail):have], *want) {
				got = want
				if r.left.Add(-1) == 0 {
					close(r.done)
				}
			}
			if have > tail {
				have = copy(buf, buf[have-tail/2:have])
			}
		}
	})
}

func (r *readers) close() {
	for _, c := range r.conns {
		c.Close()
	}
	r.all.Wait()
}

// dial connects from an address of its own for each few connections: a server bounds
// those of one address.
func dial(ctx context.Context, i int, to string) (net.Conn, error) {
	const each = 32
	from := netip.AddrFrom4([4]byte{127, 0, 2, byte(1 + i/each)})
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	return d.DialContext(ctx, "tcp4", to)
}

// connect opens n connections, some at once.
func (r *readers) connect(n int, open func(i int) (net.Conn, error)) error {
	const atOnce = 16
	errs := make([]error, atOnce)
	var all sync.WaitGroup
	for k := range atOnce {
		all.Go(func() {
			for i := k; i < n && errs[k] == nil; i += atOnce {
				conn, err := open(i)
				if err != nil {
					errs[k] = fmt.Errorf("reader %d: %w", i, err)
					return
				}
				r.add(conn)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

var errStart = errors.New("the stream did not begin")
