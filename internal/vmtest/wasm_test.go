package vmtest

import "encoding/binary"

// guestModule is a WASI command that prints text and ends: a job's chunk that
// an emulated processor compiles in no time.
func guestModule(text string) []byte {
	str := func(s string) []byte { return append(leb(len(s)), s...) }
	section := func(id byte, body ...[]byte) []byte {
		var all []byte
		for _, b := range body {
			all = append(all, b...)
		}
		return append(append([]byte{id}, leb(len(all))...), all...)
	}
	const at, result = 16, 8 // of the text, and of how much was written
	vector := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, at), uint32(len(text)))
	module := []byte("\x00asm\x01\x00\x00\x00")
	for _, s := range [][]byte{
		// Types: fd_write(i32, i32, i32, i32) i32, and _start().
		section(1, []byte{2, 0x60, 4, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f, 0x60, 0, 0}),
		section(2, []byte{1}, str("wasi_snapshot_preview1"), str("fd_write"), []byte{0, 0}),
		section(3, []byte{1, 1}),
		section(5, []byte{1, 0, 1}), // one page of memory
		section(7, []byte{2}, str("memory"), []byte{2, 0}, str("_start"), []byte{0, 1}),
		// fd_write(1, 0, 1, result); drop
		section(10, []byte{1, 13, 0, 0x41, 1, 0x41, 0, 0x41, 1, 0x41, result, 0x10, 0, 0x1a, 0x0b}),
		section(11, []byte{2, 0, 0x41, 0, 0x0b}, leb(len(vector)), vector, []byte{0, 0x41, at, 0x0b}, str(text)),
	} {
		module = append(module, s...)
	}
	return module
}

// leb is an unsigned number in the encoding of WebAssembly.
func leb(n int) []byte { return binary.AppendUvarint(nil, uint64(n)) }
