package eligible

import (
	"fmt"

	"github.com/skein-project/skein/scheduler/plan/order"
)

// Check returns what is wrong about where w stands. It is for tests.
func (t *Classes) Check(w *Worker, s Standing) error {
	for _, c := range t.list {
		is := s.Serves && t.Allows(c, w)
		if c.Has(w.Index) != is || c.open.Has(w.Index) != (is && s.Open) {
			return fmt.Errorf("is out of place in the class of %+v", c.need)
		}
		if c.open.Has(w.Index) && c.open.Bucket(w.Index) != order.BucketOf(s.Drain) {
			return fmt.Errorf("stands in the wrong bucket")
		}
		for a := range audiences {
			if c.in[a].Has(w.Index) != (is && a.Admits(w)) {
				return fmt.Errorf("is out of place in audience %d of the class of %+v", a, c.need)
			}
		}
		if own := is && s.Open && !w.Stranger; c.own.Has(w.Index) != own || own && c.own.Bucket(w.Index) != order.BucketOf(s.Drain) {
			return fmt.Errorf("is out of place among the members of the class of %+v", c.need)
		}
	}
	return nil
}
