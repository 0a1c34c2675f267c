// Package wasmtest assembles small WebAssembly commands for tests of whatever
// runs them.
package wasmtest
