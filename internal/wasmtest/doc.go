// Package wasmtest assembles small WebAssembly commands for tests of whatever
// runs them, and spares the hosts of tests the compilation of large ones.
package wasmtest
