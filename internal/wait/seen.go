package wait

import "context"

// Seen looks until there reports true, again after each change, or until ctx ends and then
// returns the error of ctx. changed is asked before each look, so that no change is missed.
func Seen(ctx context.Context, changed func() <-chan struct{}, there func() bool) error {
	for {
		next := changed()
		if there() {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
