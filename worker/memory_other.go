//go:build !linux

package worker

import "context"

// withGuestMemory leaves linear memory on Go's heap.
func withGuestMemory(ctx context.Context) context.Context { return ctx }
