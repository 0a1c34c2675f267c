package guestfs

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	experimental "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"

	"github.com/skein-project/skein/cluster/job"
)

// Dir is a directory. It implements the FS of package experimental/sys of wazero.
type Dir struct {
	experimental.UnimplementedFS

	epoch    int64 // when all was changed last, in nanoseconds
	writable bool
	limit    int64 // bytes of all files
	most     int   // files
	nodes    map[string]*node
	used     int64
	made     uint64 // nodes so far; their numbers follow that of the directory
	over     string
}

// dirNumber is the number of every directory.
const dirNumber = 1

// ReadOnly returns a directory of files that the guest may read. It keeps what is in
// files, and changes nothing.
func ReadOnly(epoch int64, files map[string][]byte) *Dir {
	d := &Dir{epoch: epoch, nodes: make(map[string]*node, len(files))}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		n := d.add(name)
		n.fixed, n.size = files[name], int64(len(files[name]))
	}
	return d
}

// Writable returns an empty directory for at most so many bytes in so many files.
func Writable(epoch, limit int64, most int) *Dir {
	return &Dir{epoch: epoch, writable: true, limit: limit, most: most, nodes: map[string]*node{}}
}

// Over says which bound the guest met, "": none.
func (d *Dir) Over() string { return d.over }

// Names lists the files.
func (d *Dir) Names() []string { return slices.Sorted(maps.Keys(d.nodes)) }

// WriteTo writes a file into w.
func (d *Dir) WriteTo(name string, w interface{ Write([]byte) (int, error) }) error {
	n, ok := d.nodes[name]
	if !ok {
		return fs.ErrNotExist
	}
	for at := int64(0); at < n.size; {
		part := n.part(at)
		if _, err := w.Write(part); err != nil {
			return err
		}
		at += int64(len(part))
	}
	return nil
}

func (d *Dir) add(name string) *node {
	d.made++
	n := &node{ino: dirNumber + d.made}
	d.nodes[name] = n
	return n
}

// exceed remembers the first bound that is met.
func (d *Dir) exceed(format string, args ...any) experimental.Errno {
	if d.over == "" {
		d.over = fmt.Sprintf(format, args...)
	}
	return experimental.EIO
}

// grow lets a file have another size, as far as there is room.
func (d *Dir) grow(n *node, size int64) experimental.Errno {
	if size > n.size && d.used+size-n.size > d.limit {
		return d.exceed("wrote more than %d bytes to its outputs", d.limit)
	}
	d.used += size - n.size
	n.resize(size)
	return 0
}

// find reads a path: the directory itself, or the name of what may be a file in it.
func find(path string) (name string, itself bool, errno experimental.Errno) {
	bare := strings.TrimRight(path, "/")
	switch {
	case bare == "" || bare == ".":
		return "", true, 0
	case strings.Contains(bare, "/"):
		return "", false, experimental.ENOENT // there are no directories below
	case bare != path:
		return "", false, experimental.ENOTDIR
	}
	return bare, false, 0
}

// OpenFile implements FS.
func (d *Dir) OpenFile(path string, flag experimental.Oflag, _ fs.FileMode) (experimental.File, experimental.Errno) {
	writes := flag&(experimental.O_RDWR|experimental.O_WRONLY) != 0
	name, itself, errno := find(path)
	switch {
	case errno != 0:
		return nil, errno
	case itself && (writes || flag&(experimental.O_CREAT|experimental.O_TRUNC) != 0):
		return nil, experimental.EISDIR
	case itself:
		o := &openDir{d: d}
		o.seek = o.rewind
		return o, 0
	}
	n, ok := d.nodes[name]
	switch {
	case ok && flag&experimental.O_CREAT != 0 && flag&experimental.O_EXCL != 0:
		return nil, experimental.EEXIST
	case ok && flag&experimental.O_DIRECTORY != 0:
		return nil, experimental.ENOTDIR
	case !ok && flag&experimental.O_CREAT == 0:
		return nil, experimental.ENOENT
	case !d.writable && (writes || !ok || flag&experimental.O_TRUNC != 0):
		return nil, experimental.EROFS
	case !ok:
		if _, err := job.ParseFileName(name); err != nil {
			return nil, experimental.EINVAL
		}
		if len(d.nodes) >= d.most {
			return nil, d.exceed("wrote more than %d outputs", d.most)
		}
		n = d.add(name)
	case flag&experimental.O_TRUNC != 0:
		if errno := d.grow(n, 0); errno != 0 {
			return nil, errno
		}
	}
	n.open++
	f := &openFile{d: d, n: n, reads: flag&experimental.O_WRONLY == 0, writes: writes, appends: flag&experimental.O_APPEND != 0}
	f.seek = f.move
	return f, 0
}

func (d *Dir) stat() sys.Stat_t {
	mode := fs.ModeDir | 0o555
	if d.writable {
		mode |= 0o200
	}
	return sys.Stat_t{Ino: dirNumber, Mode: mode, Nlink: 1, Atim: d.epoch, Mtim: d.epoch, Ctim: d.epoch}
}

func (d *Dir) statOf(n *node) sys.Stat_t {
	mode := fs.FileMode(0o444)
	if d.writable {
		mode |= 0o200
	}
	return sys.Stat_t{Ino: n.ino, Mode: mode, Nlink: 1, Size: n.size, Atim: d.epoch, Mtim: d.epoch, Ctim: d.epoch}
}

// Stat implements FS.
func (d *Dir) Stat(path string) (sys.Stat_t, experimental.Errno) {
	name, itself, errno := find(path)
	switch n, ok := d.nodes[name]; {
	case errno != 0:
		return sys.Stat_t{}, errno
	case itself:
		return d.stat(), 0
	case !ok:
		return sys.Stat_t{}, experimental.ENOENT
	default:
		return d.statOf(n), 0
	}
}

// Lstat implements FS: there are no links.
func (d *Dir) Lstat(path string) (sys.Stat_t, experimental.Errno) { return d.Stat(path) }

// Unlink implements FS.
func (d *Dir) Unlink(path string) experimental.Errno {
	name, itself, errno := find(path)
	n, ok := d.nodes[name]
	switch {
	case errno != 0:
		return errno
	case itself:
		return experimental.EISDIR
	case !ok:
		return experimental.ENOENT
	case !d.writable:
		return experimental.EROFS
	}
	d.drop(name, n)
	return 0
}

// drop takes a file out of the directory. What is open of it goes when it is closed.
func (d *Dir) drop(name string, n *node) {
	delete(d.nodes, name)
	n.gone = true
	d.free(n)
}

func (d *Dir) free(n *node) {
	if n.gone && n.open == 0 {
		d.used -= n.size
		n.resize(0)
	}
}

// Rename implements FS.
func (d *Dir) Rename(from, to string) experimental.Errno {
	old, itself, errno := find(from)
	name, over, errno2 := find(to)
	n, ok := d.nodes[old]
	switch {
	case errno != 0:
		return errno
	case errno2 != 0:
		return errno2
	case itself || over:
		return experimental.EINVAL
	case !ok:
		return experimental.ENOENT
	case !d.writable:
		return experimental.EROFS
	case old == name:
		return 0
	}
	if _, err := job.ParseFileName(name); err != nil {
		return experimental.EINVAL
	}
	if replaced, ok := d.nodes[name]; ok {
		d.drop(name, replaced)
	}
	delete(d.nodes, old)
	d.nodes[name] = n
	return 0
}

// Mkdir implements FS, as the next ones do: there are files only.
func (d *Dir) Mkdir(string, fs.FileMode) experimental.Errno { return experimental.EPERM }

// Rmdir implements FS.
func (d *Dir) Rmdir(path string) experimental.Errno {
	if name, _, errno := find(path); errno == 0 && d.nodes[name] != nil {
		return experimental.ENOTDIR
	}
	return experimental.EPERM
}

// Link implements FS.
func (d *Dir) Link(_, _ string) experimental.Errno { return experimental.EPERM }

// Symlink implements FS.
func (d *Dir) Symlink(_, _ string) experimental.Errno { return experimental.EPERM }

// Readlink implements FS.
func (d *Dir) Readlink(string) (string, experimental.Errno) { return "", experimental.EINVAL }

// Chmod implements FS, and changes nothing.
func (d *Dir) Chmod(path string, _ fs.FileMode) experimental.Errno {
	_, errno := d.Stat(path)
	return errno
}

// Utimens implements FS, and changes nothing: all times are the same.
func (d *Dir) Utimens(path string, _, _ int64) experimental.Errno {
	_, errno := d.Stat(path)
	return errno
}
