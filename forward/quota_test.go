package forward

import (
	"errors"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// TestQuotas stops a member that goes on changing what all rely on, and no
// other; it may go on after a while.
func TestQuotas(t *testing.T) {
	var now time.Duration
	r, err := New(Options{Self: "n1", Lease: func() Lease { return Lease{} }, Now: func() time.Duration { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range Operations() {
		q := info.Quota
		if q.Burst == 0 || info.Name == OnionGrant.Name || info.Name == OnionPublish.Name { // which shares that of OnionDrain
			continue
		}
		many := func(from cluster.NodeID) int {
			for i := range 100 {
				if err := r.asker(from, "", &entry{info: info}).Spend(); err != nil {
					p, ok := errors.AsType[*api.Problem](err)
					if !ok || p.Code != api.CodeOverloaded || p.RetryAfterSeconds == nil {
						t.Errorf("refused with %+v", err)
					}
					return i
				}
			}
			return 100
		}
		if got := many("n2"); got != q.Burst {
			t.Errorf("%s: %d at once, want %d", q.Name, got, q.Burst)
		}
		if got := many("n3"); got != q.Burst {
			t.Errorf("%s: another has %d left", q.Name, got)
		}
		if got := many("n1"); got != 100 {
			t.Errorf("%s: this host has %d", q.Name, got)
		}
		now += 2*q.Every + q.Every/2
		if got := many("n2"); got != 2 {
			t.Errorf("%s: %d after a while, want 2", q.Name, got)
		}
		if now += q.Every / 2; many("n2") != 1 {
			t.Errorf("%s: half a while is lost", q.Name)
		}
		if now += time.Hour; many("n2") != q.Burst {
			t.Errorf("%s: not all forgotten after an hour", q.Name)
		}
	}
}
