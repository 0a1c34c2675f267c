package relief

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/internal/breaker"
	"github.com/skein-project/skein/pressure"
)

// TestBreakers: a host that does not answer is left alone for a while, which metrics and the
// error say, until its pause is over, it starts anew, or lives again; what fails here for
// reasons of this host does not count.
func TestBreakers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, began := &fakeCoord{}, time.Now()
		n2 := coord.MemberView{}
		n2.Node, n2.Epoch, n2.Health = "n2", 7, cluster.Alive
		c.set(func(c *fakeCoord) { c.view.Members = []coord.MemberView{n2} })
		r, err := New(Options{
			Coord: func() Coord { return c }, Scheduler: func() Scheduler { return away{} }, Log: quietLog{},
			Setting: func() pressure.Setting { return pressure.Of(true, 0) }, Registerer: prometheus.NewRegistry(),
			Now: func() time.Duration { return time.Since(began) }, Logger: zerolog.Nop(),
		})
		if err != nil {
			t.Fatal(err)
		}
		fails, dials := error(transport.ErrBusy), 0
		dial := r.Dialer(breaker.Blob, func(context.Context, cluster.NodeID) (net.Conn, error) {
			dials++
			return nil, &transport.DialError{To: "n2", Proto: "p", Err: fails}
		})
		try := func(n int) (err error) {
			for range n {
				_, err = dial(t.Context(), "n2")
			}
			return err
		}
		refused := func(err error) bool { _, is := errors.AsType[*breaker.OpenError](err); return is }
		is := func(open, refusals float64) {
			t.Helper()
			if o, n := valueOf(t, r.breakers.open.WithLabelValues(breaker.Blob)), valueOf(t, r.breakers.refused.WithLabelValues(breaker.Blob)); o != open || n != refusals {
				t.Errorf("open %g, refused %g; want %g, %g", o, n, open, refusals)
			}
		}
		if err := try(20); refused(err) {
			t.Fatalf("after what was busy here: %v", err)
		}
		is(0, 0)
		fails = syscall.ECONNREFUSED
		if err := try(5); refused(err) {
			t.Fatal(err)
		}
		if err := try(1); !refused(err) || dials != 25 || valueOf(t, r.breakers.opens.WithLabelValues(breaker.Blob)) != 1 {
			t.Fatalf("after 5 failures: %v, %d dials", err, dials)
		}
		is(1, 1)
		if o := r.Overload(); len(o.Silent) != 1 || o.Silent[0] != (api.SilentHost{Node: "n2", Kind: breaker.Blob, WaitSeconds: o.Silent[0].WaitSeconds}) || !(o.Silent[0].WaitSeconds >= 8) {
			t.Errorf("left alone: %+v", o.Silent)
		}
		for _, change := range []func(){func() { n2.Health = cluster.Suspect }, func() { n2.Health = cluster.Alive }, func() { n2.Epoch++ }} {
			change()
			c.set(func(c *fakeCoord) { c.view.Members = []coord.MemberView{n2} })
			if err := try(1); refused(err) {
				t.Errorf("%s at epoch %d is not tried: %v", n2.Health, n2.Epoch, err)
			}
			if err := try(1); !refused(err) {
				t.Errorf("tried again at once: %v", err)
			}
		}
		time.Sleep(72*time.Second + 1) // the longest pause
		if err := try(1); refused(err) {
			t.Errorf("after the pause: %v", err)
		}
		is(1, 4)
	})
}

// valueOf is the value of a gauge or a counter.
func valueOf(t *testing.T, m prometheus.Metric) float64 {
	t.Helper()
	var d dto.Metric
	if err := m.Write(&d); err != nil {
		t.Fatal(err)
	}
	return d.GetGauge().GetValue() + d.GetCounter().GetValue()
}
