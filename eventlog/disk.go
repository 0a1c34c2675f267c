package eventlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// DiskState says how much room there is for the log.
type DiskState string

// What the room is.
const (
	DiskOK DiskState = "ok"
	// DiskLow is a warning.
	DiskLow DiskState = "low"
	// DiskFull: only the reserve is left. New work is refused; what ends work
	// and passes the lease on is written.
	DiskFull DiskState = "full"
	// DiskOut: not even that could be written. A host in this state should not
	// hold the lease.
	DiskOut DiskState = "out"
)

// Disk is the room for the log.
type Disk struct {
	State DiskState
	Free  int64 // bytes on the file system, -1 if it does not say
	Size  int64 // bytes of all segments
	Limit int64 // Options.MaxBytes
	// Ballast is the part of the reserve that is held as a file.
	Ballast int64
}

const (
	ballastFile = "ballast"
	diskEvery   = time.Second
	maxBallast  = 64 << 20
)

// disk watches the room and keeps the reserve. The writer tells it what it
// wrote, the watcher looks at the file system.
type disk struct {
	o Options
	m *metrics

	mu      sync.Mutex
	state   DiskState
	free    int64 // at the last look, less what was written since; -1: unknown
	size    int64 // of the segments
	stuck   bool  // an essential append found no room
	ballast int64
}

func newDisk(o Options, m *metrics) *disk {
	d := &disk{o: o, m: m, state: DiskOK, free: -1}
	d.tell()
	return d
}

// Disk returns how much room the log has.
func (l *Log) Disk() Disk { return l.disk.view() }

// TakesWork says whether the disk has room for new work: drafts that are not
// essential. Append refuses them with ErrDiskFull otherwise.
func (l *Log) TakesWork() bool { return l.disk.takes(false) }

func (d *disk) view() Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.viewLocked()
}

func (d *disk) viewLocked() Disk {
	return Disk{State: d.state, Free: d.free, Size: d.size, Limit: d.o.MaxBytes, Ballast: d.ballast}
}

// takes says whether there is room for what is not essential: of this host, or
// of others, whose facts may use half of the reserve.
func (d *disk) takes(ofOthers bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.state == DiskOut:
		return false
	case d.state != DiskFull || !ofOthers:
		return d.state != DiskFull
	}
	return d.judgeLocked(d.o.Reserve/2, d.o.MaxBytes/32) == DiskOK
}

// roomFor returns how many bytes the log may still grow to, -1 if nobody knows.
func (d *disk) roomFor() int64 {
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

// measured notes what the segments hold together.
func (d *disk) measured(size int64) {
	d.mu.Lock()
	d.size = size
	d.mu.Unlock()
}

// adopt takes over the ballast of an earlier process.
func (d *disk) adopt() {
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

// grew notes that the segments have n bytes more.
func (d *disk) grew(n int64) {
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

// judgeLocked says DiskFull when no more than the reserve is left: free of the
// file system, or left below the limit of the log.
func (d *disk) judgeLocked(free, left int64) DiskState {
	if d.free >= 0 && free > 0 && d.free <= free {
		return DiskFull
	}
	if d.o.MaxBytes > 0 && d.o.MaxBytes-d.size <= left {
		return DiskFull
	}
	return DiskOK
}

// updateLocked computes the state. A better one than before takes an eighth more
// room than keeping it, so that it does not flap.
func (d *disk) updateLocked() (changed bool, now Disk) {
	limit := d.o.MaxBytes
	full := func(x, y int64) bool { return d.judgeLocked(x, y) == DiskFull }
	more := func(n int64, bad bool) int64 {
		if bad {
			return n + n/8
		}
		return n
	}
	wasFull := d.state == DiskFull || d.state == DiskOut
	wasLow := wasFull || d.state == DiskLow
	next := DiskOK
	switch {
	case d.stuck:
		next = DiskOut
	case full(more(d.o.Reserve, wasFull), more(limit/16, wasFull)):
		next = DiskFull
	case full(more(d.o.LowWater, wasLow), more(limit/8, wasLow)):
		next = DiskLow
	}
	changed = next != d.state
	d.state = next
	return changed, d.viewLocked()
}

func (d *disk) changed(now Disk) {
	d.tell()
	level := zerolog.WarnLevel
	switch now.State {
	case DiskOK:
		level = zerolog.InfoLevel
	case DiskOut:
		level = zerolog.ErrorLevel
	}
	d.o.Logger.WithLevel(level).Str("component", "eventlog").Str("state", string(now.State)).Int64("free_bytes", now.Free).
		Int64("log_bytes", now.Size).Msg("room for the event log")
	d.o.OnDisk(now)
}

func (d *disk) tell() {
	v := d.view()
	d.m.diskFree.Set(float64(v.Free))
	for _, s := range []DiskState{DiskOK, DiskLow, DiskFull, DiskOut} {
		on := 0.0
		if s == v.State {
			on = 1
		}
		d.m.diskState.WithLabelValues(string(s)).Set(on)
	}
}

// look asks the file system, and fills up the ballast when there is room.
func (d *disk) look() {
	free, err := d.o.Free(d.o.Dir)
	if err != nil {
		free = -1
	}
	d.mu.Lock()
	d.free = free
	if d.stuck && (free < 0 || free > max(d.o.Reserve/4, 4*minPrealloc)) {
		d.stuck = false // worth another try
	}
	change, now := d.updateLocked()
	want := d.wantLocked()
	fill := want > d.ballast && free > d.o.Reserve+2*want
	d.mu.Unlock()
	if change {
		d.changed(now)
	}
	d.m.diskFree.Set(float64(free))
	if fill {
		d.fill(want)
	}
}

func (d *disk) wantLocked() int64 { return min(d.o.Reserve/4, maxBallast) }

// fill makes the ballast; that it cannot be made is no harm.
func (d *disk) fill(want int64) {
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

func (d *disk) path() string { return filepath.Join(d.o.Dir, ballastFile) }

// sawFull notes that the file system has no room, whatever the last look said.
func (d *disk) sawFull() {
	d.mu.Lock()
	d.free = min(d.free, 0)
	change, now := d.updateLocked()
	d.mu.Unlock()
	if change {
		d.changed(now)
	}
}

// release gives the ballast back to the file system and reports whether there
// was one.
func (d *disk) release() bool {
	d.mu.Lock()
	had := d.ballast > 0
	d.ballast = 0
	d.mu.Unlock()
	return had && d.o.FS.Remove(d.path()) == nil
}

// ranOut notes that an essential append found no room.
func (d *disk) ranOut() {
	d.mu.Lock()
	d.stuck = true
	change, now := d.updateLocked()
	d.mu.Unlock()
	if change {
		d.changed(now)
	}
}

// watchDisk measures now and then until ctx ends.
func (l *Log) watchDisk(ctx context.Context) {
	for {
		l.measure()
		if !after(ctx, diskEvery) {
			return
		}
	}
}

// noRoomError says that a group was not written because there is no room for
// it: it has left no trace.
type noRoomError struct{ error }

func (e noRoomError) Unwrap() error { return e.error }

func noRoom(err error) bool {
	_, ok := errors.AsType[noRoomError](err)
	return ok
}

// beforeWriting marks an error of preparing a write, if it says that the disk
// is full.
func beforeWriting(err error) error {
	if err != nil && isFull(err) {
		return noRoomError{err}
	}
	return err
}

func refusedForRoom(err error) error { return fmt.Errorf("%w: %w", ErrDiskFull, err) }
