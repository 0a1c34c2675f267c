package gossip

import (
	"context"
	"sync"

	"github.com/skein-project/skein/coord/member"
)

// saver writes membership records down, the latest that it was given, so that
// the loop does not wait for the disk.
type saver struct {
	save func(member.Records) error
	wake chan struct{} // capacity 1; a full one already wakes
	fail func(error)

	mu     sync.Mutex
	latest *member.Records
}

func (v *saver) set(rs member.Records) {
	v.mu.Lock()
	v.latest = &rs
	v.mu.Unlock()
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// run saves until ctx ends, and then what is still waiting.
func (v *saver) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			v.flush()
			return
		case <-v.wake:
			v.flush()
		}
	}
}

func (v *saver) flush() {
	v.mu.Lock()
	rs := v.latest
	v.latest = nil
	v.mu.Unlock()
	if rs == nil {
		return
	}
	if err := v.save(*rs); err != nil {
		v.fail(err)
	}
}
