package runner

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/skein-project/skein/cluster/job"
)

// wasiModule is the only module that a guest may import from.
const wasiModule = "wasi_snapshot_preview1"

// Section ids and kinds of the WebAssembly binary format.
const (
	secImport = 2
	secExport = 7
	secCode   = 10
	secData   = 11
	secCount  = 12 // number of data segments
	secTag    = 13
	kindFunc  = 0
)

// ErrModule is wrapped by every error of CheckModule.
var ErrModule = errors.New("invalid module")

// CheckModule reports why b is not a WASI command that the wasm executor can
// run: a WebAssembly module that exports the function _start and imports only
// functions of wasi_snapshot_preview1. It reads the structure, in time
// proportional to b; WASM.Compile validates the code itself.
func CheckModule(b []byte) error {
	if err := checkModule(b); err != nil {
		return fmt.Errorf("%w: %w", ErrModule, err)
	}
	return nil
}

func checkModule(b []byte) error {
	switch {
	case len(b) == 0:
		return errors.New("the file is empty")
	case len(b) > job.MaxModuleBytes:
		return fmt.Errorf("%d bytes, at most %d are allowed", len(b), job.MaxModuleBytes)
	case len(b) < 8 || !bytes.Equal(b[:4], []byte("\x00asm")):
		return errors.New("not a WebAssembly file")
	case bytes.Equal(b[4:8], []byte{0x0d, 0, 1, 0}):
		return errors.New("a WebAssembly component; compile for wasip1 to get a core module")
	case !bytes.Equal(b[4:8], []byte{1, 0, 0, 0}):
		return fmt.Errorf("WebAssembly version %x, only 1 is known", b[4:8])
	}
	d := decoder{b: b, at: 8}
	imports, start := uint32(0), int64(-1)
	order := 0
	for d.at < len(b) {
		id := d.byte()
		size := d.u32()
		if d.err != nil || uint64(size) > uint64(len(b)-d.at) {
			return fmt.Errorf("section %d at byte %d is cut off", id, d.at)
		}
		if id != 0 {
			rank := sectionRank(id)
			if rank <= order {
				return fmt.Errorf("section %d at byte %d is unknown or out of order", id, d.at)
			}
			order = rank
		}
		s := decoder{b: b[d.at : d.at+int(size)]}
		d.at += int(size)
		var err error
		switch id {
		case secImport:
			imports, err = s.imports()
		case secExport:
			start, err = s.exportedStart()
		}
		if err != nil {
			return err
		}
	}
	switch {
	case start < 0:
		return errors.New("no function _start is exported: not a command")
	case start < int64(imports):
		return errors.New("_start is an imported function")
	}
	return nil
}

// sectionRank gives the place of a section in the file; 0: unknown.
func sectionRank(id byte) int {
	switch {
	case id == secTag: // between memory (5) and global (6)
		return 2*5 + 1
	case id == secCount:
		return 2*secCode - 1
	case id >= 1 && id <= secData:
		return 2 * int(id)
	}
	return 0
}

// decoder reads the binary format; after an error it yields zeros.
type decoder struct {
	b   []byte
	at  int
	err error
}

func (d *decoder) byte() byte {
	if d.err != nil || d.at >= len(d.b) {
		d.err = errors.New("cut off")
		return 0
	}
	d.at++
	return d.b[d.at-1]
}

// u32 reads an unsigned LEB128 number.
func (d *decoder) u32() uint32 {
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		c := d.byte()
		v |= uint64(c&0x7f) << shift
		if c&0x80 == 0 {
			if v > 1<<32-1 {
				d.err = errors.New("number too large")
				return 0
			}
			return uint32(v)
		}
	}
	d.err = errors.New("number too long")
	return 0
}

func (d *decoder) name() string {
	n := d.u32()
	if d.err != nil || uint64(n) > uint64(len(d.b)-d.at) {
		d.err = errors.New("cut off")
		return ""
	}
	d.at += int(n)
	return string(d.b[d.at-int(n) : d.at])
}

// imports returns the number of imported functions.
func (d *decoder) imports() (uint32, error) {
	n := d.u32()
	for range n {
		module, name, kind := d.name(), d.name(), d.byte()
		if d.err != nil {
			return 0, fmt.Errorf("import section: %w", d.err)
		}
		if module != wasiModule {
			return 0, fmt.Errorf("imports %s.%s; only functions of %s are there", job.Clip(job.OneLine(module), 64), job.Clip(job.OneLine(name), 64), wasiModule)
		}
		if kind != kindFunc {
			return 0, fmt.Errorf("imports %s.%s, which is not a function", wasiModule, job.Clip(job.OneLine(name), 64))
		}
		d.u32() // its type
	}
	if d.err != nil {
		return 0, fmt.Errorf("import section: %w", d.err)
	}
	return n, nil
}

// exportedStart returns the index of the function _start, -1 if there is none.
func (d *decoder) exportedStart() (int64, error) {
	start := int64(-1)
	n := d.u32()
	for range n {
		name, kind, index := d.name(), d.byte(), d.u32()
		if d.err != nil {
			break
		}
		if name == "_start" && kind == kindFunc {
			start = int64(index)
		}
	}
	if d.err != nil {
		return 0, fmt.Errorf("export section: %w", d.err)
	}
	return start, nil
}
