package guestfs

import (
	"io"
	"maps"
	"slices"

	experimental "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// pageBytes is the piece in which a file grows: what is there is never moved, as the
// collector of garbage rests while a guest runs.
const pageBytes = 64 << 10

// node is a file.
type node struct {
	ino   uint64
	fixed []byte   // of a file that is not changed; or
	pages [][]byte // each of pageBytes, or nil: only zeros
	size  int64
	open  int
	gone  bool // out of its directory
}

var zeros [pageBytes]byte

// part is what lies at an offset below the size, up to the end of its page.
func (n *node) part(at int64) []byte {
	if n.fixed != nil {
		return n.fixed[at:n.size]
	}
	page, from := n.pages[at/pageBytes], at%pageBytes
	if page == nil {
		page = zeros[:]
	}
	return page[from:min(pageBytes, from+n.size-at)]
}

func (n *node) resize(size int64) {
	if size < n.size {
		if rest := size % pageBytes; rest != 0 && n.pages[size/pageBytes] != nil {
			clear(n.pages[size/pageBytes][rest:])
		}
	}
	pages := int((size + pageBytes - 1) / pageBytes)
	if pages < len(n.pages) {
		clear(n.pages[pages:])
		n.pages = n.pages[:pages]
	} else {
		n.pages = append(n.pages, make([][]byte, pages-len(n.pages))...)
	}
	n.size = size
}

// write writes within the size.
func (n *node) write(b []byte, at int64) {
	for len(b) > 0 {
		page := &n.pages[at/pageBytes]
		if *page == nil {
			*page = make([]byte, pageBytes)
		}
		k := copy((*page)[at%pageBytes:], b)
		b, at = b[k:], at+int64(k)
	}
}

// seeking has the Seek of a descriptor. It is not that of io.Seeker, for which go vet
// takes every Seek that is declared with an int64.
type seeking[N ~int64] struct {
	seek func(offset N, whence int) (N, experimental.Errno)
}

// Seek implements File.
func (s seeking[N]) Seek(offset N, whence int) (N, experimental.Errno) { return s.seek(offset, whence) }

// openFile is a descriptor of a file.
type openFile struct {
	seeking[int64]

	d              *Dir
	n              *node
	at             int64
	reads, writes  bool
	appends, close bool
}

// Dev implements File, as the next ones do.
func (f *openFile) Dev() (uint64, experimental.Errno) { return 0, 0 }

// Ino implements File.
func (f *openFile) Ino() (sys.Inode, experimental.Errno) { return f.n.ino, 0 }

// IsDir implements File.
func (f *openFile) IsDir() (bool, experimental.Errno) { return false, 0 }

// IsAppend implements File.
func (f *openFile) IsAppend() bool { return f.appends }

// SetAppend implements File.
func (f *openFile) SetAppend(on bool) experimental.Errno {
	f.appends = on
	return 0
}

// Stat implements File.
func (f *openFile) Stat() (sys.Stat_t, experimental.Errno) { return f.d.statOf(f.n), 0 }

// Read implements File.
func (f *openFile) Read(b []byte) (int, experimental.Errno) {
	n, errno := f.Pread(b, f.at)
	f.at += int64(n)
	return n, errno
}

// Pread implements File.
func (f *openFile) Pread(b []byte, at int64) (n int, errno experimental.Errno) {
	switch {
	case !f.reads:
		return 0, experimental.EBADF
	case at < 0:
		return 0, experimental.EINVAL
	}
	for n < len(b) && at < f.n.size {
		k := copy(b[n:], f.n.part(at))
		n, at = n+k, at+int64(k)
	}
	return n, 0
}

// move sets where the next bytes are read or written.
func (f *openFile) move(offset int64, whence int) (int64, experimental.Errno) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += f.at
	case io.SeekEnd:
		offset += f.n.size
	default:
		return 0, experimental.EINVAL
	}
	if offset < 0 {
		return 0, experimental.EINVAL
	}
	f.at = offset
	return offset, 0
}

// Write implements File.
func (f *openFile) Write(b []byte) (int, experimental.Errno) {
	if f.appends {
		f.at = f.n.size
	}
	n, errno := f.Pwrite(b, f.at)
	f.at += int64(n)
	return n, errno
}

// Pwrite implements File.
func (f *openFile) Pwrite(b []byte, at int64) (int, experimental.Errno) {
	switch {
	case !f.writes:
		return 0, experimental.EBADF
	case at < 0:
		return 0, experimental.EINVAL
	case len(b) == 0:
		return 0, 0
	case at > f.d.limit || int64(len(b)) > f.d.limit-at:
		return 0, f.d.grow(f.n, f.d.limit+f.n.size+1)
	}
	if end := at + int64(len(b)); end > f.n.size {
		if errno := f.d.grow(f.n, end); errno != 0 {
			return 0, errno
		}
	}
	f.n.write(b, at)
	return len(b), 0
}

// Truncate implements File.
func (f *openFile) Truncate(size int64) experimental.Errno {
	switch {
	case !f.writes:
		return experimental.EBADF
	case size < 0:
		return experimental.EINVAL
	case size > f.d.limit:
		size = f.d.limit + f.n.size + 1 // too large in any case
	}
	return f.d.grow(f.n, size)
}

// Readdir implements File.
func (f *openFile) Readdir(int) ([]experimental.Dirent, experimental.Errno) {
	return nil, experimental.ENOTDIR
}

// Sync implements File.
func (f *openFile) Sync() experimental.Errno { return 0 }

// Datasync implements File.
func (f *openFile) Datasync() experimental.Errno { return 0 }

// Utimens implements File.
func (f *openFile) Utimens(_, _ int64) experimental.Errno { return 0 }

// Close implements File.
func (f *openFile) Close() experimental.Errno {
	if !f.close {
		f.close = true
		f.n.open--
		f.d.free(f.n)
	}
	return 0
}

// openDir is a descriptor of a directory.
type openDir struct {
	experimental.DirFile
	seeking[int64]

	d  *Dir
	at int
	// names are those when reading began.
	names []string
}

// Dev implements File, as the next ones do.
func (o *openDir) Dev() (uint64, experimental.Errno) { return 0, 0 }

// Ino implements File.
func (o *openDir) Ino() (sys.Inode, experimental.Errno) { return dirNumber, 0 }

// IsDir implements File.
func (o *openDir) IsDir() (bool, experimental.Errno) { return true, 0 }

// Stat implements File.
func (o *openDir) Stat() (sys.Stat_t, experimental.Errno) { return o.d.stat(), 0 }

// rewind has the directory read again from its beginning.
func (o *openDir) rewind(offset int64, whence int) (int64, experimental.Errno) {
	if offset != 0 || whence != io.SeekStart {
		return 0, experimental.EINVAL
	}
	o.at, o.names = 0, nil
	return 0, 0
}

// Readdir implements File.
func (o *openDir) Readdir(n int) (out []experimental.Dirent, errno experimental.Errno) {
	if o.names == nil {
		o.names = slices.Sorted(maps.Keys(o.d.nodes))
	}
	for o.at < len(o.names) && (n < 0 || len(out) < n) {
		name := o.names[o.at]
		o.at++
		if node, ok := o.d.nodes[name]; ok {
			out = append(out, experimental.Dirent{Ino: node.ino, Name: name})
		}
	}
	return out, 0
}

// Sync implements File.
func (o *openDir) Sync() experimental.Errno { return 0 }

// Datasync implements File.
func (o *openDir) Datasync() experimental.Errno { return 0 }

// Utimens implements File.
func (o *openDir) Utimens(_, _ int64) experimental.Errno { return 0 }

// Close implements File.
func (o *openDir) Close() experimental.Errno { return 0 }
