// Package skeinwasm is what a skein job written in Go needs: the chunk it is
// to compute, random numbers that never overlap between chunks, running
// statistics, and the result in the form that the worker reads.
//
// A job is a WASI command (GOOS=wasip1 GOARCH=wasm). It reads its chunk from
// the environment and its config from standard input, and writes one JSON
// object to standard output. An exit code other than 0 fails the attempt; the
// end of standard error becomes the reason.
//
// The same chunk must give the same result on every host: derive random
// numbers from the seed and the iteration's index only. Package math computes
// the same bits on every host when compiled for wasm.
//
// It starts no goroutines.
package skeinwasm
