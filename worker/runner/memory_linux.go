package runner

import (
	"context"

	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"
)

// withGuestMemory keeps linear memory outside of Go's heap: reserved whole,
// made usable as it grows, given back at the end of the guest. Growing copies
// nothing and leaves no garbage while the collector is off.
func withGuestMemory(ctx context.Context) context.Context {
	return experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(reserveMemory))
}

func reserveMemory(_, limit uint64) experimental.LinearMemory {
	region, err := unix.Mmap(-1, 0, int(max(limit, PageBytes)), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return &guestMemory{} // every Reallocate is refused
	}
	return &guestMemory{region: region}
}

// guestMemory is one linear memory.
type guestMemory struct {
	region []byte
	usable uint64
}

// Reallocate implements experimental.LinearMemory; nil refuses to grow.
func (m *guestMemory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.region)) {
		return nil
	}
	if size > m.usable {
		if err := unix.Mprotect(m.region[m.usable:size], unix.PROT_READ|unix.PROT_WRITE); err != nil {
			return nil
		}
		m.usable = size
	}
	return m.region[:size:size]
}

// Free implements experimental.LinearMemory.
func (m *guestMemory) Free() {
	if m.region != nil {
		_ = unix.Munmap(m.region) // the whole mapping, made by us
		m.region = nil
	}
}
