package worker

import (
	"bytes"
	"encoding/binary"
	"io"
)

// A small assembler for guests. Functions 0, 1 and 2 are fd_write, proc_exit
// and random_get; 3 is _start. Memory holds one iovec at 0 that describes text
// at 16.

func bytesReader(b []byte) io.Reader { return bytes.NewReader(b) }

func uleb(n int) []byte { return binary.AppendUvarint(nil, uint64(n)) }

func sleb(n int32) []byte {
	var out []byte
	for {
		b := byte(n & 0x7f)
		n >>= 7
		if n == 0 && b&0x40 == 0 || n == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

func cat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func vec(items ...[]byte) []byte { return append(uleb(len(items)), cat(items...)...) }

func text(s string) []byte { return append(uleb(len(s)), s...) }

func section(id byte, body []byte) []byte { return cat([]byte{id}, uleb(len(body)), body) }

var wasmHeader = []byte("\x00asm\x01\x00\x00\x00")

func importFunc(module, name string, kind byte) []byte {
	return cat(text(module), text(name), []byte{0, kind})
}

// assemble makes a command with the given body of _start.
func assemble(out string, body ...[]byte) []byte {
	iovec := binary.LittleEndian.AppendUint32(nil, 16)
	iovec = binary.LittleEndian.AppendUint32(iovec, uint32(len(out)))
	memory := cat(iovec, make([]byte, 8), []byte(out))
	pages := len(memory)/wasmPage + 1
	code := cat(uleb(0), cat(body...), []byte{0x0b})
	return cat(wasmHeader,
		section(1, vec(
			[]byte{0x60, 0, 0}, // () -> ()
			[]byte{0x60, 4, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f}, // fd_write
			[]byte{0x60, 1, 0x7f, 0},                         // proc_exit
			[]byte{0x60, 2, 0x7f, 0x7f, 1, 0x7f},             // random_get
		)),
		section(2, vec(importFunc(wasiModule, "fd_write", 1), importFunc(wasiModule, "proc_exit", 2), importFunc(wasiModule, "random_get", 3))),
		section(3, vec([]byte{0})),
		section(4, vec([]byte{0x70, 0, 0})), // one empty table of functions
		section(5, vec(cat([]byte{0}, uleb(pages)))),
		section(7, vec(cat(text("memory"), []byte{2, 0}), cat(text("_start"), []byte{0, 3}))),
		section(10, vec(cat(uleb(len(code)), code))),
		section(11, vec(cat([]byte{0, 0x41, 0, 0x0b}, uleb(len(memory)), memory))),
	)
}

func i32(n int32) []byte { return append([]byte{0x41}, sleb(n)...) }

func call(f byte) []byte { return []byte{0x10, f} }

// write prints the text to a descriptor.
func write(fd int32) []byte { return cat(i32(fd), i32(0), i32(1), i32(8), call(0), []byte{0x1a}) }

func exit(code int32) []byte { return cat(i32(code), call(1)) }

func forever(body ...[]byte) []byte {
	return cat([]byte{0x03, 0x40}, cat(body...), []byte{0x0c, 0, 0x0b})
}

// untilRefused repeats grow, which leaves -1 when it could not.
func untilRefused(grow []byte) []byte {
	return cat([]byte{0x03, 0x40}, grow, i32(-1), []byte{0x47, 0x0d, 0, 0x0b})
}

var (
	unreachable = []byte{0x00}
	growMemory  = cat(i32(16), []byte{0x40, 0})
	growTable   = cat([]byte{0xd0, 0x70}, i32(10_000_000), []byte{0xfc, 0x0f, 0})
)

// good prints a valid result of a chunk of n iterations.
const goodResult = `{"iterations":10,"metrics":{"x":{"n":10,"mean":2,"m2":10,"min":1,"max":3}}}`
