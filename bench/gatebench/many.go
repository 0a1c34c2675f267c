package gatebench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/gateway/crew"
	"github.com/skein-project/skein/gateway/desk"
)

// Many is what very many outside workers at one host cost, and how long a new term takes
// until all of them are its own.
func Many(ctx context.Context, s *suite.Suite) error {
	n := s.Size.Many
	bytes := suite.Series{
		Name: fmt.Sprintf("memory of each of %d outside workers", n), Unit: "KiB", With: "none", Target: suite.Want("ours", "<=", 48), Digest: suite.Median,
	}
	joined := suite.Series{
		Name: fmt.Sprintf("a new term has all %d outside workers", n), Unit: "s", With: "none", Target: suite.Want("ours", "<=", 3), Digest: suite.Median,
	}
	for i := range s.Size.Rounds {
		b, t, err := crowd(ctx, s, n)
		if err != nil {
			return err
		}
		bytes.Ours, joined.Ours = append(bytes.Ours, b), append(joined.Ours, t)
		s.Progress("round %d of %d: %.1f KiB each of %d outside workers, all of a new term after %.2f s", i+1, s.Size.Rounds, b, n, t)
	}
	s.Add(bytes)
	held := suite.Series{
		Name: fmt.Sprintf("memory of each of %d outside workers with its connection", n), Unit: "KiB", With: "none", Target: suite.Want("ours", "<=", 48), Digest: suite.Median,
	}
	for i := range s.Size.Rounds {
		b, err := connections(ctx, s, n)
		if err != nil {
			return err
		}
		held.Ours = append(held.Ours, b)
		s.Progress("round %d of %d: %.1f KiB each of %d outside workers with its connection", i+1, s.Size.Rounds, b, n)
	}
	s.Add(held)
	s.Add(joined)
	return nil
}

// crowd has n workers attach at a host whose holder leads a term, and then another. The
// memory is that of the log's state, the holder and the gateway, which are one process
// here, without connections.
func crowd(ctx context.Context, s *suite.Suite, n int) (kib, seconds float64, err error) {
	dir, err := os.MkdirTemp(s.Dir, "crowd-")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	before := inUse(false)
	h, err := newHall(ctx, dir, n)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	seats := make([]*crew.Seat, n)
	for i := range seats {
		if seats[i], _, err = h.crew.Attach(attaching(i, 4)); err != nil {
			return 0, 0, err
		}
	}
	for _, term := range []cluster.Term{1, 2} {
		for _, seat := range seats {
			if _, err := seat.Beat(desk.Beat{Ready: true}); err != nil {
				return 0, 0, err
			}
		}
		if err := h.holder.Resign(); err != nil {
			return 0, 0, err
		}
		began := time.Now()
		if err := errors.Join(h.holder.Lead(term), h.holder.Connected(ctx, n+1)); err != nil {
			return 0, 0, err
		}
		seconds = time.Since(began).Seconds() // at last, of a term that follows one
	}
	kib = float64(inUse(false)-before) / 1024 / float64(n)
	runtime.KeepAlive(seats)
	return kib, seconds, nil
}

// connections has n outside workers attach over connections that stay, of another process.
func connections(ctx context.Context, s *suite.Suite, n int) (kib float64, err error) {
	dir, err := os.MkdirTemp(s.Dir, "connections-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	before := inUse(true)
	c, err := newCounter(ctx, dir, n)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.end()) }()
	leave, err := startCrowd(ctx, c.addr, n)
	if err != nil {
		return 0, err
	}
	defer leave()
	if err := errors.Join(c.holder.Lead(1), c.holder.Connected(ctx, n+1)); err != nil {
		return 0, err
	}
	kib = float64(inUse(true)-before) / 1024 / float64(n)
	if is := c.node.Connections(); is != n {
		return 0, fmt.Errorf("%d of %d connections are left", is, n)
	}
	return kib, nil
}

// inUse is how many bytes of the heap are in use, and of stacks.
func inUse(stacks bool) int64 {
	runtime.GC()
	runtime.GC() // what the first one finalised
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if stacks {
		m.HeapAlloc += m.StackInuse
	}
	return int64(m.HeapAlloc)
}
