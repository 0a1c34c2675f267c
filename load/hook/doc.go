// Package hook lets WASM modules change the requests of a load test before they are sent: to
// sign them, or to make what they carry. A module exports its memory, alloc(size) -> pointer,
// and functions (pointer, size) -> pointer << 32 | size: bytes in, bytes out. What it exports as
// _initialize is called before. It is given WASI without arguments, variables and files, and
// random numbers; it keeps nothing that counts from one call to the next, as there are several
// instances.
//
// Non-goals: what the bytes mean (load/engine).
//
// Goroutines: none.
package hook
