package guestfs

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	experimental "github.com/tetratelabs/wazero/experimental/sys"
)

const create = experimental.O_RDWR | experimental.O_CREAT

func open(t *testing.T, d *Dir, name string, flag experimental.Oflag) experimental.File {
	t.Helper()
	f, errno := d.OpenFile(name, flag, 0)
	if errno != 0 {
		t.Fatalf("open %s: %v", name, errno)
	}
	return f
}

func text(t *testing.T, d *Dir, name string) string {
	t.Helper()
	var b bytes.Buffer
	if err := d.WriteTo(name, &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestFilesAsBytes holds a file against a slice of bytes, over pages and holes.
func TestFilesAsBytes(t *testing.T) {
	d := Writable(5, 1<<20, 2)
	f := open(t, d, "a", create)
	var want []byte
	put := func(b []byte, at int) {
		if n := at + len(b); n > len(want) {
			want = append(want, make([]byte, n-len(want))...)
		}
		copy(want[at:], b)
	}
	for i, step := range []struct{ at, n int }{{0, 10}, {5, pageBytes}, {3*pageBytes + 7, 20}, {pageBytes - 3, 6}, {2 * pageBytes, 1}} {
		b := bytes.Repeat([]byte{byte('a' + i)}, step.n)
		if n, errno := f.Pwrite(b, int64(step.at)); n != len(b) || errno != 0 {
			t.Fatalf("write %d: %d, %v", i, n, errno)
		}
		put(b, step.at)
		if text(t, d, "a") != string(want) {
			t.Fatalf("after write %d the file is another", i)
		}
	}
	for _, size := range []int{2*pageBytes + 1, 100, 0, 3 * pageBytes, pageBytes} {
		if errno := f.Truncate(int64(size)); errno != 0 {
			t.Fatal(errno)
		}
		if size <= len(want) {
			want = want[:size:size]
		}
		want = append(want, make([]byte, size-len(want))...)
		if st, _ := f.Stat(); st.Size != int64(size) || text(t, d, "a") != string(want) || d.used != int64(size) {
			t.Fatalf("cut to %d: %d bytes, %d counted", size, st.Size, d.used)
		}
	}
	if at, errno := f.Seek(-3, io.SeekEnd); at != pageBytes-3 || errno != 0 {
		t.Fatal(at, errno)
	}
	b := make([]byte, 10)
	if n, errno := f.Read(b); n != 3 || errno != 0 {
		t.Errorf("read %d, %v at the end", n, errno)
	}
	if n, errno := f.Read(b); n != 0 || errno != 0 {
		t.Errorf("read %d, %v behind the end", n, errno)
	}
	if _, errno := f.Seek(-1, io.SeekStart); errno != experimental.EINVAL {
		t.Error("a place before the beginning")
	}
	appends := open(t, d, "a", create|experimental.O_APPEND)
	if _, errno := appends.Write([]byte("end")); errno != 0 || !strings.HasSuffix(text(t, d, "a"), "\x00end") {
		t.Error("what is appended is not at the end")
	}
}

// TestNothingLeadsOut: there are files only, by their plain names.
func TestNothingLeadsOut(t *testing.T) {
	in, out := ReadOnly(5, map[string][]byte{"x": []byte("one")}), Writable(5, 100, 16)
	_ = open(t, out, "x", create).Close()
	for name, d := range map[string]*Dir{"in": in, "out": out} {
		for _, path := range []string{"..", "../x", "../../etc/passwd", "/etc/passwd", "sub/x", "x/", "x/y", "a b", "\x00"} {
			if _, errno := d.OpenFile(path, create, 0); errno == 0 {
				t.Errorf("%s: %q was opened", name, path)
			}
			if _, errno := d.Stat(path); errno == 0 {
				t.Errorf("%s: %q is there", name, path)
			}
		}
		for what, errno := range map[string]experimental.Errno{
			"link": d.Link("x", "y"), "symbolic link": d.Symlink("/etc/passwd", "y"), "directory": d.Mkdir("y", 0o700), "removal": d.Rmdir("x"),
			"rename out": d.Rename("x", "../x"), "rename of all": d.Rename(".", "y"), "rename to nothing": d.Rename("x", "."),
		} {
			if errno == 0 {
				t.Errorf("%s: %s succeeded", name, what)
			}
		}
		if names := d.Names(); len(names) != 1 || names[0] != "x" {
			t.Errorf("%s has %q", name, names)
		}
		dir := open(t, d, ".", experimental.O_RDONLY|experimental.O_DIRECTORY)
		for range 2 {
			if list, errno := dir.Readdir(-1); errno != 0 || len(list) != 1 || list[0].Name != "x" || list[0].Ino == 0 {
				t.Errorf("%s: %v, %v", name, list, errno)
			}
			if _, errno := dir.Seek(0, io.SeekStart); errno != 0 {
				t.Error(errno)
			}
		}
	}
	for _, flag := range []experimental.Oflag{experimental.O_RDWR, experimental.O_WRONLY, experimental.O_RDONLY | experimental.O_TRUNC} {
		if _, errno := in.OpenFile("x", flag, 0); errno != experimental.EROFS {
			t.Errorf("a file to read was opened to write: %v", errno)
		}
	}
	f := open(t, in, "x", experimental.O_RDONLY)
	if _, errno := f.Write([]byte("y")); errno == 0 || text(t, in, "x") != "one" {
		t.Error("a file to read was written")
	}
	if in.Unlink("x") == 0 || in.Rename("x", "y") == 0 {
		t.Error("a file to read was moved")
	}
}

// TestBounds: bytes and files are bounded, what is removed counts no more when nobody has
// it open, and meeting a bound is remembered.
func TestBounds(t *testing.T) {
	d := Writable(5, 1000, 3)
	f := open(t, d, "a", create)
	if _, errno := f.Write(make([]byte, 600)); errno != 0 {
		t.Fatal(errno)
	}
	if d.Unlink("a") != 0 || d.used != 600 {
		t.Errorf("%d bytes of what is open and removed", d.used)
	}
	_, _ = f.Close(), f.Close()
	if d.used != 0 {
		t.Errorf("%d bytes of nothing", d.used)
	}
	for i := range 3 {
		g := open(t, d, fmt.Sprint("f", i), create)
		if _, errno := g.Write(make([]byte, 300)); errno != 0 {
			t.Fatal(errno)
		}
		_ = g.Close()
	}
	if d.Rename("f0", "f1") != 0 || d.used != 600 || len(d.Names()) != 2 {
		t.Errorf("%d bytes in %q after a file took the place of another", d.used, d.Names())
	}
	if d.Over() != "" {
		t.Errorf("over: %s", d.Over())
	}
	g := open(t, d, "f1", create|experimental.O_TRUNC)
	for name, try := range map[string]func() experimental.Errno{
		"write":    func() experimental.Errno { _, errno := g.Write(make([]byte, 701)); return errno },
		"far":      func() experimental.Errno { _, errno := g.Pwrite([]byte{1}, 1<<62); return errno },
		"truncate": func() experimental.Errno { return g.Truncate(1 << 62) },
	} {
		d.over = ""
		if errno := try(); errno == 0 || d.Over() != "wrote more than 1000 bytes to its outputs" || d.used != 300 {
			t.Errorf("%s: %v, %q, %d bytes", name, errno, d.Over(), d.used)
		}
	}
	d.over = ""
	_ = open(t, d, "f0", create).Close()
	if _, errno := d.OpenFile("f9", create, 0); errno == 0 || d.Over() != "wrote more than 3 outputs" {
		t.Errorf("%v, %q", errno, d.Over())
	}
}
