// Package statetest makes configurations and state directories for tests. Only
// tests import it. It starts no goroutine that outlives a call.
package statetest
