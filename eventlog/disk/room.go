package disk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/wait"
)

// State says how much room there is for the log.
type State string

// The states of the disk.
const (
	OK State = "ok"
	// Low is a warning.
	Low State = "low"
	// Full: only the reserve is left. New work is refused; events that end work
	// or pass the lease on are written.
	Full State = "full"
	// Out: not even those could be written. A host in this state should not
	// hold the lease.
	Out State = "out"
)

// Report says how much room the log has.
type Report struct {
	State State
	Free  int64 // bytes on the file system, -1 if it does not say
	Size  int64 // bytes of all segments
	Limit int64 // Options.MaxBytes
	// Ballast is the part of the reserve that is held as a file.
	Ballast int64
}

const (
	// BallastFile is the file that holds part of the reserve.
	BallastFile = "ballast"

	lookEvery  = time.Second
	maxBallast = 64 << 20
	// retryRoom is how much must be free before writing is tried again after
	// there was no room even for essential events.
	retryRoom = 256 << 10
)

// Options configure a Room. Dir and FS are required.
type Options struct {
	Dir string
	FS  FS
	// Free returns how many bytes the file system of dir has left, and a
	// negative number where that means nothing. Default FreeBytes.
	Free func(dir string) (int64, error)
	// LowWater and Reserve are bytes that the file system should have left: at
	// LowWater the state is Low, at Reserve Full. 0: not looked at.
	LowWater, Reserve int64
	// MaxBytes is how large the segments may become. 0: not limited.
	MaxBytes int64
	// SourceBytes is how much one other host may take, 0: three quarters of the
	// room; SourceRate how many bytes a second in the long run.
	SourceBytes, SourceRate int64
	// OnChange is called when the state changes. It must not block. May be nil.
	OnChange func(Report)

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // may be nil
}

// Room watches how much room there is, keeps the reserve and bounds what each
// host takes. The writer of the log reports what it wrote; Run looks at the
// file system.
type Room struct {
	o     Options
	m     *metrics
	quota *quota

	mu      sync.Mutex
	state   State
	free    int64 // at the last look, less what was written since; -1: unknown
	size    int64 // of the segments
	stuck   bool  // an essential append found no room
	ballast int64
}

// NewRoom returns a Room whose state is OK until Measure was called.
func NewRoom(o Options) (*Room, error) {
	if o.Free == nil {
		o.Free = FreeBytes
	}
	if o.OnChange == nil {
		o.OnChange = func(Report) {}
	}
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	d := &Room{o: o, m: m, quota: newQuota(o), state: OK, free: -1}
	d.show()
	return d, nil
}

// Run measures each second until ctx ends; sizes returns how many bytes the
// segments of each host hold.
func (d *Room) Run(ctx context.Context, sizes func() map[cluster.NodeID]int64) {
	tick := wait.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		d.Measure(sizes())
		select {
		case <-tick.C:
			tick.Next()
		case <-ctx.Done():
			return
		}
	}
}

// Measure notes how many bytes the segments of each host hold, and looks at the
// file system.
func (d *Room) Measure(held map[cluster.NodeID]int64) {
	var total int64
	for _, n := range held {
		total += n
	}
	d.quota.set(held, time.Now())
	d.mu.Lock()
	d.size = total
	d.mu.Unlock()
	d.look()
}

// Report returns how much room there is.
func (d *Room) Report() Report {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reportLocked()
}

func (d *Room) reportLocked() Report {
	return Report{State: d.state, Free: d.free, Size: d.size, Limit: d.o.MaxBytes, Ballast: d.ballast}
}

// Takes says whether there is room for events that are not essential: this
// host's own, or those of other hosts, which may use half of the reserve.
func (d *Room) Takes(ofOthers bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.state == Out:
		return false
	case d.state != Full || !ofOthers:
		return d.state != Full
	}
	return d.judgeLocked(d.o.Reserve/2, d.o.MaxBytes/32) == OK
}

// roomFor returns how many bytes the log may still grow to, -1 if that is unknown.
func (d *Room) roomFor() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	total := int64(-1)
	if d.free >= 0 {
		total = d.size + max(0, d.free-d.o.Reserve)
	}
	if d.o.MaxBytes > 0 && (total < 0 || total > d.o.MaxBytes) {
		total = d.o.MaxBytes
	}
	return total
}

// Adopt takes over the ballast of an earlier process.
func (d *Room) Adopt() {
	if d.o.Reserve == 0 {
		_ = d.o.FS.Remove(d.path()) // best effort: it only takes room
		return
	}
	f, err := d.o.FS.OpenFile(d.path(), os.O_RDWR, 0)
	if err != nil {
		return // there is none
	}
	size, err := f.Size()
	_ = f.Close() // only looked at
	if err != nil {
		return
	}
	d.mu.Lock()
	d.ballast = size
	d.mu.Unlock()
}

// Grew notes that the segments of a host have n bytes more.
func (d *Room) Grew(node cluster.NodeID, n int64) {
	d.quota.grew(node, n, time.Now())
	d.mu.Lock()
	d.size += n
	if d.free >= 0 {
		d.free = max(0, d.free-n)
	}
	change, now := d.updateLocked()
	d.mu.Unlock()
	if change {
		d.changed(now)
	}
}

// judgeLocked says Full when no more than the reserve is left: free of the
// file system, or left below the limit of the log.
func (d *Room) judgeLocked(free, left int64) State {
	if d.free >= 0 && free > 0 && d.free <= free {
		return Full
	}
	if d.o.MaxBytes > 0 && d.o.MaxBytes-d.size <= left {
		return Full
	}
	return OK
}

// updateLocked computes the state. Leaving a state for a better one takes an
// eighth more room than staying in it, so that the state does not flap.
func (d *Room) updateLocked() (changed bool, now Report) {
	limit := d.o.MaxBytes
	full := func(x, y int64) bool { return d.judgeLocked(x, y) == Full }
	more := func(n int64, bad bool) int64 {
		if bad {
			return n + n/8
		}
		return n
	}
	wasFull := d.state == Full || d.state == Out
	wasLow := wasFull || d.state == Low
	next := OK
	switch {
	case d.stuck:
		next = Out
	case full(more(d.o.Reserve, wasFull), more(limit/16, wasFull)):
		next = Full
	case full(more(d.o.LowWater, wasLow), more(limit/8, wasLow)):
		next = Low
	}
	changed = next != d.state
	d.state = next
	return changed, d.reportLocked()
}

func (d *Room) changed(now Report) {
	d.show()
	level := zerolog.WarnLevel
	switch now.State {
	case OK:
		level = zerolog.InfoLevel
	case Out:
		level = zerolog.ErrorLevel
	}
	d.o.Logger.WithLevel(level).Str("component", "eventlog").Str("state", string(now.State)).Int64("free_bytes", now.Free).
		Int64("log_bytes", now.Size).Msg("room for the event log")
	d.o.OnChange(now)
}

// show sets the metrics.
func (d *Room) show() {
	v := d.Report()
	d.m.free.Set(float64(v.Free))
	for _, s := range []State{OK, Low, Full, Out} {
		on := 0.0
		if s == v.State {
			on = 1
		}
		d.m.state.WithLabelValues(string(s)).Set(on)
	}
}

// look asks the file system, and creates the ballast when there is room.
func (d *Room) look() {
	free, err := d.o.Free(d.o.Dir)
	if err != nil {
		free = -1
	}
	d.mu.Lock()
	d.free = free
	if d.stuck && (free < 0 || free > max(d.o.Reserve/4, retryRoom)) {
		d.stuck = false // worth another try
	}
	change, now := d.updateLocked()
	want := d.wantLocked()
	fill := want > d.ballast && free > d.o.Reserve+2*want
	d.mu.Unlock()
	if change {
		d.changed(now)
	}
	d.m.free.Set(float64(free))
	if fill {
		d.fill(want)
	}
}

func (d *Room) wantLocked() int64 { return min(d.o.Reserve/4, maxBallast) }

// fill creates the ballast; it does no harm if that fails.
func (d *Room) fill(want int64) {
	f, err := d.o.FS.OpenFile(d.path(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	err = f.Preallocate(0, want)
	size, sizeErr := f.Size()
	if errors.Join(err, sizeErr, f.Close()) != nil {
		_ = d.o.FS.Remove(d.path()) // best effort: half a ballast is of no use
		return
	}
	d.mu.Lock()
	d.ballast = size // 0 where files cannot be preallocated
	d.mu.Unlock()
}

func (d *Room) path() string { return filepath.Join(d.o.Dir, BallastFile) }

// SawFull notes that the file system has no room, whatever the last look said.
func (d *Room) SawFull() {
	d.mu.Lock()
	d.free = min(d.free, 0)
	change, now := d.updateLocked()
	d.mu.Unlock()
	if change {
		d.changed(now)
	}
}

// Release gives the ballast back to the file system and reports whether there
// was one.
func (d *Room) Release() bool {
	d.mu.Lock()
	had := d.ballast > 0
	d.ballast = 0
	d.mu.Unlock()
	return had && d.o.FS.Remove(d.path()) == nil
}

// RanOut notes that an essential append found no room.
func (d *Room) RanOut() {
	d.mu.Lock()
	d.stuck = true
	change, now := d.updateLocked()
	d.mu.Unlock()
	if change {
		d.changed(now)
	}
}

// noRoomError says that a group was not written because there is no room for
// it, and that it left no trace.
type noRoomError struct{ error }

func (e noRoomError) Unwrap() error { return e.error }

// NoRoom reports whether err was marked by BeforeWriting.
func NoRoom(err error) bool {
	_, ok := errors.AsType[noRoomError](err)
	return ok
}

// BeforeWriting marks an error from preparing a write if it says that the disk
// is full: nothing was written, and it may be tried again.
func BeforeWriting(err error) error {
	if err != nil && IsFull(err) {
		return noRoomError{err}
	}
	return err
}
