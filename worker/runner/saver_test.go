package runner

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	experimental "github.com/tetratelabs/wazero/experimental/sys"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/worker/guestfs"
)

// TestSaver: what a guest saves is written where its parent finds it, whole, and not again too
// soon; what it leaves at its end goes nowhere else.
func TestSaver(t *testing.T) {
	dir := t.TempDir()
	left := guestfs.Writable(0, 1<<20, 4)
	write := func(name, text string) {
		f, errno := left.OpenFile(name, experimental.O_CREAT|experimental.O_WRONLY|experimental.O_TRUNC, 0)
		if errno != 0 {
			t.Fatal(errno)
		}
		if _, errno := f.Write([]byte(text)); errno != 0 {
			t.Fatal(errno)
		}
		if errno := f.Close(); errno != 0 {
			t.Fatal(errno)
		}
	}
	read := func() string {
		b, _ := os.ReadFile(filepath.Join(dir, job.CheckpointName)) // it may not be there
		return string(b)
	}
	save := saver(left, Task{OutDir: dir, SaveEvery: time.Hour})
	if save() || read() != "" {
		t.Error("saved what is not there")
	}
	write(job.CheckpointName, "one")
	if !save() || read() != "one" {
		t.Errorf("saved %q", read())
	}
	write(job.CheckpointName, "two")
	if save() || read() != "one" {
		t.Errorf("saved %q at once", read())
	}
	write("a", "output")
	if err := writeFiles(left, dir); err != nil || read() != "one" {
		t.Errorf("%q: %v", read(), err)
	}
	if saver(left, Task{OutDir: dir}) != nil || saver(nil, Task{SaveEvery: 1}) != nil {
		t.Error("saves where nobody wants it")
	}
}
