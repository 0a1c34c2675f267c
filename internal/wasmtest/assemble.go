package wasmtest

import (
	"bytes"
	"encoding/binary"
)

// A small assembler for guests. Functions 0, 1 and 2 are fd_write, proc_exit
// and random_get; 3 is _start. Memory holds one iovec at 0 that describes text
// at 16.

// wasiModule is the module of WASI.
const wasiModule = "wasi_snapshot_preview1"

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

// Cat joins parts.
func Cat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// Vec is a vector of items.
func Vec(items ...[]byte) []byte { return append(uleb(len(items)), Cat(items...)...) }

// Text is a name.
func Text(s string) []byte { return append(uleb(len(s)), s...) }

// Section is a section of a module.
func Section(id byte, body []byte) []byte { return Cat([]byte{id}, uleb(len(body)), body) }

// Header begins a module.
func Header() []byte { return []byte("\x00asm\x01\x00\x00\x00") }

// ImportFunc is the import of a function.
func ImportFunc(module, name string, kind byte) []byte {
	return Cat(Text(module), Text(name), []byte{0, kind})
}

// Assemble makes a command with the given body of _start.
func Assemble(out string, body ...[]byte) []byte {
	iovec := binary.LittleEndian.AppendUint32(nil, 16)
	iovec = binary.LittleEndian.AppendUint32(iovec, uint32(len(out)))
	memory := Cat(iovec, make([]byte, 8), []byte(out))
	pages := len(memory)/(64<<10) + 1
	code := Cat(uleb(0), Cat(body...), []byte{0x0b})
	return Cat(Header(),
		Section(1, Vec(
			[]byte{0x60, 0, 0}, // () -> ()
			[]byte{0x60, 4, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f}, // fd_write
			[]byte{0x60, 1, 0x7f, 0},                         // proc_exit
			[]byte{0x60, 2, 0x7f, 0x7f, 1, 0x7f},             // random_get
		)),
		Section(2, Vec(ImportFunc(wasiModule, "fd_write", 1), ImportFunc(wasiModule, "proc_exit", 2), ImportFunc(wasiModule, "random_get", 3))),
		Section(3, Vec([]byte{0})),
		Section(4, Vec([]byte{0x70, 0, 0})), // one empty table of functions
		Section(5, Vec(Cat([]byte{0}, uleb(pages)))),
		Section(7, Vec(Cat(Text("memory"), []byte{2, 0}), Cat(Text("_start"), []byte{0, 3}))),
		Section(10, Vec(Cat(uleb(len(code)), code))),
		Section(11, Vec(Cat([]byte{0, 0x41, 0, 0x0b}, uleb(len(memory)), memory))),
	)
}

// I32 pushes a number.
func I32(n int32) []byte { return append([]byte{0x41}, sleb(n)...) }

// Call calls a function.
func Call(f byte) []byte { return []byte{0x10, f} }

// Write prints the text to a descriptor.
func Write(fd int32) []byte { return Cat(I32(fd), I32(0), I32(1), I32(8), Call(0), []byte{0x1a}) }

// Exit ends the guest with a code.
func Exit(code int32) []byte { return Cat(I32(code), Call(1)) }

// Forever repeats body.
func Forever(body ...[]byte) []byte {
	return Cat([]byte{0x03, 0x40}, Cat(body...), []byte{0x0c, 0, 0x0b})
}

// UntilRefused repeats grow, which leaves -1 when it could not.
func UntilRefused(grow []byte) []byte {
	return Cat([]byte{0x03, 0x40}, grow, I32(-1), []byte{0x47, 0x0d, 0, 0x0b})
}

// Unreachable is a trap.
func Unreachable() []byte { return []byte{0x00} }

// GrowMemory asks for a MiB more of linear memory.
func GrowMemory() []byte { return Cat(I32(16), []byte{0x40, 0}) }

// GrowTable asks for ten million more entries of the table.
func GrowTable() []byte { return Cat([]byte{0xd0, 0x70}, I32(10_000_000), []byte{0xfc, 0x0f, 0}) }

// GoodResult is a valid result of a chunk of ten iterations.
const GoodResult = `{"iterations":10,"metrics":{"x":{"n":10,"mean":2,"m2":10,"min":1,"max":3}}}`

// StrangeImport makes a command that imports a function of WASI by that name.
func StrangeImport(name string) []byte {
	return Cat(Header(),
		Section(1, Vec([]byte{0x60, 0, 0})),
		Section(2, Vec(ImportFunc(wasiModule, name, 0))),
		Section(3, Vec([]byte{0})),
		Section(7, Vec(Cat(Text("_start"), []byte{0, 1}))),
		Section(10, Vec([]byte{2, 0, 0x0b})),
	)
}
