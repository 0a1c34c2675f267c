package demo

import "testing"

// What tests of the rooms beside this one need of its tests.

// Bin is where the program and the example modules are.
func Bin() string { return bin }

// PlainSkein is the program without the race detector.
func PlainSkein() string { return plainSkein() }

// Proving says that figures are measured with full counts.
func Proving() bool { return proving() }

// Parallel lets a test run beside others, unless figures are to be measured.
func Parallel(t *testing.T) { t.Helper(); parallel(t) }

// Leisurely has what computes chunks in a test stand still for most of the time.
func Leisurely(t *testing.T, dirs ...string) uint64 { t.Helper(); return leisurely(t, dirs...) }

// Within has the demo make its directory in dir.
func (o Options) Within(dir string) Options { o.within = dir; return o }

// Warm has the demo's hosts find modules compiled.
func (o Options) Warm(t *testing.T) Options { o.made = warm(t); return o }
