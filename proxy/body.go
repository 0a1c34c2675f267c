package proxy

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// bodyCredit is how long a body may be waited for beyond what its rate allows,
// at its begin and whenever it was fast enough again.
const bodyCredit = 30 * time.Second

// slowBody ends a request whose body comes too slowly. Only time spent waiting
// for the client counts: a target may be slow to take it.
type slowBody struct {
	io.ReadCloser
	control *http.ResponseController
	rate    int64 // bytes per second
	credit  time.Duration
	most    time.Duration // of credit
	stopped *atomic.Bool  // set when the client was too slow
}

func (p *Proxy) bodyCredit() time.Duration { return min(bodyCredit, p.o.Idle) }

// body bounds how long a request's body may take.
func (p *Proxy) body(r io.ReadCloser, control *http.ResponseController, stopped *atomic.Bool) io.ReadCloser {
	most := p.bodyCredit()
	return &slowBody{ReadCloser: r, control: control, rate: p.o.BodyRate, credit: most, most: most, stopped: stopped}
}

func (b *slowBody) Read(p []byte) (int, error) {
	begin := time.Now()
	if err := b.control.SetReadDeadline(begin.Add(b.credit)); err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(p)
	b.credit = credit(b.credit, b.most, time.Since(begin), n, b.rate)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		b.stopped.Store(true)
		return n, err
	}
	if err != nil {
		// The server goes on reading, to notice that the client left.
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// credit is what is left of a body's time after n bytes were waited for: each
// gives time according to the rate, in sum no more than most.
func credit(left, most, waited time.Duration, n int, rate int64) time.Duration {
	return min(most, left-waited+time.Duration(n)*time.Second/time.Duration(rate))
}
