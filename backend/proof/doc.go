// Package proof answers what proves an event to whoever knows the root key of the
// cluster: its exact bytes and those of the events after it up to a signed head of its
// chain, and the certificates of the key that signed it. It is not for many events (an
// export has those), and judges nothing: whoever gets a proof does.
//
// Goroutines: none.
package proof
