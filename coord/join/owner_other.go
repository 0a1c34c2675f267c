//go:build !unix

package join

// sameOwner has nothing to do here.
func sameOwner(_, _ string) error { return nil }
