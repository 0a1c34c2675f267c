//go:build linux

package netns_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/nstest"
)

// nemesis does random harm to the hosts of an arena.
type nemesis struct {
	*arena
	down    map[*daemon]bool // killed
	stopped map[*daemon]bool
	shaped  map[*daemon]bool // cut, deaf or lossy
	did     map[string]int
}

func newNemesis(a *arena) *nemesis {
	return &nemesis{arena: a, down: map[*daemon]bool{}, stopped: map[*daemon]bool{}, shaped: map[*daemon]bool{}, did: map[string]int{}}
}

// chooseSeed is SKEIN_SEED, or any, and logged.
func chooseSeed(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64N(1 << 32)
	if text := os.Getenv("SKEIN_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SKEIN_SEED=%d", seed)
	return seed
}

// harms are what it does to one host or to all. Each is undone by mend or by
// its own opposite, at random.
func (n *nemesis) harms() map[string]func(*daemon) {
	return map[string]func(*daemon){
		"kill": func(d *daemon) {
			if n.down[d] {
				d.run()
			} else {
				n.resume(d)
				d.end(syscall.SIGKILL)
			}
			n.down[d] = !n.down[d]
		},
		"stop": func(d *daemon) {
			if n.down[d] {
				return
			}
			if n.stopped[d] {
				n.resume(d)
				return
			}
			d.signal(syscall.SIGSTOP)
			n.stopped[d] = true
		},
		"restart": func(d *daemon) {
			if !n.down[d] && !n.stopped[d] {
				d.end(syscall.SIGTERM)
				d.run()
			}
		},
		"cut":   func(d *daemon) { n.shape(d, nstest.Shape{Apart: n.addrs(d)}, true) },
		"mute":  func(d *daemon) { n.shape(d, nstest.Shape{Loss: 100}, false) },
		"lossy": func(d *daemon) { n.shape(d, nstest.Shape{Loss: 10 + n.rand.IntN(30)}, false) },
		"split": func(*daemon) { n.split() },
		"heal":  func(*daemon) { n.unshape() },
		"hand over": func(d *daemon) {
			if !n.down[d] && !n.stopped[d] {
				// Only the holder can, and not at all times.
				_, _ = d.skein("lease", "step-down", "--socket", d.socket())
			}
		},
	}
}

func (n *nemesis) resume(d *daemon) {
	if n.stopped[d] {
		d.signal(syscall.SIGCONT)
		n.stopped[d] = false
	}
}

// addrs are those of all hosts but d.
func (n *nemesis) addrs(d *daemon) (out []netip.Addr) {
	for _, o := range n.all {
		if o != d {
			out = append(out, o.Addr())
		}
	}
	return out
}

// shape spoils what d sends, and with both what the others send to it.
func (n *nemesis) shape(d *daemon, s nstest.Shape, both bool) {
	n.unshape()
	d.Shape(s)
	n.shaped[d] = true
	for _, o := range n.all {
		if both && o != d {
			o.Shape(nstest.Shape{Apart: []netip.Addr{d.Addr()}})
			n.shaped[o] = true
		}
	}
}

// split parts the hosts in two.
func (n *nemesis) split() {
	n.unshape()
	side := map[*daemon]bool{}
	for _, d := range n.all {
		side[d] = n.rand.IntN(2) == 0
	}
	for _, d := range n.all {
		var apart []netip.Addr
		for _, o := range n.all {
			if side[o] != side[d] {
				apart = append(apart, o.Addr())
			}
		}
		if len(apart) > 0 {
			d.Shape(nstest.Shape{Apart: apart})
			n.shaped[d] = true
		}
	}
}

func (n *nemesis) unshape() {
	for d := range n.shaped {
		d.Shape(nstest.Shape{})
	}
	clear(n.shaped)
}

// mend undoes everything.
func (n *nemesis) mend() {
	n.unshape()
	for _, d := range n.all {
		n.resume(d)
		if n.down[d] {
			d.run()
			n.down[d] = false
		}
	}
}

// rage does harm until the end: often to few hosts, at times to so many that
// nobody can hold.
func (n *nemesis) rage(end time.Time) {
	n.t.Helper()
	harms := n.harms()
	names := []string{"kill", "kill", "stop", "stop", "stop", "restart", "cut", "cut", "mute", "lossy", "split", "heal", "hand over"}
	for time.Now().Before(end) {
		name := names[n.rand.IntN(len(names))]
		harms[name](n.all[n.rand.IntN(len(n.all))])
		n.did[name]++
		n.rest(time.Duration(n.rand.Int64N(int64(2 * n.timing.Lease))))
		if n.rand.IntN(8) == 0 {
			n.mend()
			n.rest(2 * n.timing.Lease)
		}
	}
}

// rest lets time go by; hosts may be down.
func (n *nemesis) rest(d time.Duration) {
	select {
	case <-n.ctx.Done():
		n.t.Fatal(n.ctx.Err())
	case <-time.After(d):
	}
}

// TestLeaseNemesis does random harm to five hosts under load, mends it all, and
// judges. SKEIN_SEED=n repeats a run, as far as real processes can be repeated.
func TestLeaseNemesis(t *testing.T) {
	t.Parallel()
	seed := chooseSeed(t)
	a := newArena(t, cluster.ProfileFast, 5, seed)
	n := newNemesis(a)
	for range pick(1, 6) {
		n.rage(time.Now().Add(pick(15*time.Second, 30*time.Second)))
		n.mend()
		mended := time.Now()
		v := a.calm()
		t.Logf("after %v: calm %.1f s after the last repair", n.did, time.Since(mended).Seconds())
		a.mind(v, fmt.Sprintf("SKEIN_SEED=%d", seed))
		a.load.start()
	}
	v := a.calm()
	a.mind(v, "the end")
	a.done(v)
}
