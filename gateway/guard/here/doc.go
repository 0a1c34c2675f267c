// Package here is a guard.Guard of one host, in its memory; and Front, which puts such a
// memory before a Guard that several gateways share: whoever is known here to have to wait is
// refused here.
//
// Non-goals: to outlive the process. Goroutines: none.
package here
