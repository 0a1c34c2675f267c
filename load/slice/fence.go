package slice

import "time"

// remembered is for how many frames it is known when they were counted.
const remembered = 64

// fence says until when a slice may send: for a time after it counted the last frame that
// a holder is known to have. When a request comes nobody knows whether its answer will
// arrive; but a holder that asks for what is behind a frame has that frame, and has heard
// of this host since it was counted. The Host's mutex guards it.
type fence struct {
	limit time.Duration      // 0: there is none
	until chan time.Duration // the latest of it; capacity 1, the newer one takes the place of the older; never closed
	begin time.Duration      // when it was told when to begin: nobody does its part before it could have been heard
	next  uint64             // behind the newest frame
	acked uint64
	at    [remembered]time.Duration // when a frame was counted, by its number
}

// begun notes that the slice is told when to begin, and says until when it may send by that.
func (f *fence) begun(now time.Duration) time.Duration {
	if f.limit == 0 {
		return 0
	}
	f.begin = now
	return f.begin + f.limit
}

// counted notes that a frame is there.
func (f *fence) counted(n uint64, now time.Duration) {
	f.at[n%remembered] = now
	f.next = n + 1
}

// told notes that a holder has the frames before one.
func (f *fence) told(after uint64) {
	if f.limit == 0 || after <= f.acked || after > f.next || f.next-after >= remembered {
		return
	}
	f.acked = after
	select {
	case <-f.until:
	default:
	}
	f.until <- max(f.begin, f.at[(after-1)%remembered]) + f.limit // what setup counted was long before
}
