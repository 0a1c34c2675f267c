//go:build !linux

package runner

import "context"

// withGuestMemory leaves linear memory on Go's heap.
func withGuestMemory(ctx context.Context) context.Context { return ctx }
