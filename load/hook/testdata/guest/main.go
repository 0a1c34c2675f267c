//go:build wasip1

package main

import (
	"os"
	"unsafe"
)

var in, out []byte

//go:wasmexport alloc
func alloc(size uint32) uint32 {
	in = make([]byte, max(1, size))
	return uint32(uintptr(unsafe.Pointer(&in[0])))
}

//go:wasmexport twice
func twice(_, size uint32) uint64 {
	out = append(append([]byte{}, in[:size]...), in[:size]...)
	return uint64(uint32(uintptr(unsafe.Pointer(&out[0]))))<<32 | uint64(len(out))
}

//go:wasmexport spin
func spin(_, _ uint32) uint64 {
	for {
	}
}

//go:wasmexport wide
func wide(_, _ uint32) uint64 { return 0xfffffff0<<32 | 4096 }

//go:wasmexport huge
func huge(_, _ uint32) uint64 { return 1<<32 | 0x7fffffff }

//go:wasmexport trap
func trap(_, _ uint32) uint64 { panic("no") }

// files answers with what of this host can be seen.
//
//go:wasmexport files
func files(_, _ uint32) uint64 {
	text := "nothing"
	if list, err := os.ReadDir("/"); err == nil && len(list) > 0 || len(os.Environ()) > 0 {
		text = "something"
	}
	out = []byte(text)
	return uint64(uint32(uintptr(unsafe.Pointer(&out[0]))))<<32 | uint64(len(out))
}

//go:wasmexport odd
func odd(_ uint32) uint32 { return 0 }

func main() {}
