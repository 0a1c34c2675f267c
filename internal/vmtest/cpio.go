package vmtest

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// File is one entry of a guest's initial file system.
type File struct {
	// Path is absolute inside the guest; its directories need no entries.
	Path string
	// Mode is the permission bits, with fs.ModeDir or fs.ModeSymlink.
	Mode fs.FileMode
	// Text is the content, or a symbolic link's target.
	Text string
	// Source is the file here that holds the content; it wins over Text.
	Source string
}

// Program is the file source as an executable at path.
func Program(guestPath, source string) File {
	return File{Path: guestPath, Mode: 0o755, Source: source}
}

// writeCPIO writes the files as an archive that the kernel unpacks (format
// newc), uncompressed: an emulated processor copies faster than it inflates.
func writeCPIO(w io.Writer, files []File) error {
	c := cpio{w: bufio.NewWriterSize(w, 1<<20), made: map[string]bool{"/": true}}
	for _, f := range files {
		if !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path {
			return fmt.Errorf("guest file %q: the path is not absolute and clean", f.Path)
		}
		if err := c.parents(f.Path); err != nil {
			return err
		}
		if err := c.file(f); err != nil {
			return fmt.Errorf("guest file %s: %w", f.Path, err)
		}
	}
	if err := c.entry("TRAILER!!!", 0, strings.NewReader(""), 0); err != nil {
		return err
	}
	return c.w.Flush()
}

// Types of file in a mode of the archive.
const (
	typeDir     = 0o040000
	typeRegular = 0o100000
	typeLink    = 0o120000
)

type cpio struct {
	w    *bufio.Writer
	made map[string]bool
	ino  int
}

func (c *cpio) parents(name string) error {
	var missing []string
	for dir := path.Dir(name); !c.made[dir]; dir = path.Dir(dir) {
		missing = append(missing, dir)
	}
	for _, dir := range slices.Backward(missing) {
		c.made[dir] = true
		if err := c.entry(dir[1:], typeDir|0o755, strings.NewReader(""), 0); err != nil {
			return err
		}
	}
	return nil
}

func (c *cpio) file(f File) error {
	name, perm := f.Path[1:], int(f.Mode.Perm())
	switch {
	case f.Mode.IsDir():
		if c.made[f.Path] {
			return nil
		}
		c.made[f.Path] = true
		return c.entry(name, typeDir|perm, strings.NewReader(""), 0)
	case f.Mode&fs.ModeSymlink != 0:
		return c.entry(name, typeLink|0o777, strings.NewReader(f.Text), int64(len(f.Text)))
	case f.Source == "":
		return c.entry(name, typeRegular|perm, strings.NewReader(f.Text), int64(len(f.Text)))
	}
	source, err := os.Open(f.Source)
	if err != nil {
		return err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	return c.entry(name, typeRegular|perm, source, info.Size())
}

// entry writes one header, name and content, each padded to four bytes.
func (c *cpio) entry(name string, mode int, content io.Reader, size int64) error {
	c.ino++
	// Fields: inode, mode, uid, gid, links, time, size, device, special
	// device, length of the name, checksum.
	if _, err := fmt.Fprintf(c.w, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		c.ino, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, len(name)+1, 0, name); err != nil {
		return err
	}
	if err := c.pad(110 + int64(len(name)) + 1); err != nil {
		return err
	}
	n, err := io.Copy(c.w, content)
	if err != nil {
		return err
	}
	if n != size {
		return fmt.Errorf("read %d of %d bytes", n, size)
	}
	return c.pad(size)
}

func (c *cpio) pad(written int64) error {
	_, err := c.w.WriteString("\x00\x00\x00"[:(4-written%4)%4])
	return err
}
