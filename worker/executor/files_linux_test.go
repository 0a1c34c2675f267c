package executor

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/worker/artefact"
	"github.com/skein-project/skein/worker/words"
)

func outputStore(t *testing.T, quota int64) *artefact.Store {
	t.Helper()
	s, err := artefact.New(artefact.Options{Dir: t.TempDir(), Quota: quota})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// withFiles gives a task a file, and has its chunks leave one.
func withFiles(t *testing.T, task Task, store *artefact.Store) Task {
	t.Helper()
	h, err := store.Put(strings.NewReader("hello"), 100)
	if err != nil {
		t.Fatal(err)
	}
	task.Spec.Result, task.Spec.Outputs, task.Spec.Files = job.ResultNone, []string{"a"}, map[string]cluster.Hash{"data": h}
	task.Words = &words.Words{}
	return task
}

// left is what an output of a result is.
func left(t *testing.T, r job.ChunkResult, store *artefact.Store) string {
	t.Helper()
	b, err := store.Read(r.Outputs["a"].Hash, 1<<20)
	if err != nil || len(r.Outputs) != 1 || int64(len(b)) != r.Outputs["a"].Size {
		t.Fatalf("outputs %+v: %v", r.Outputs, err)
	}
	return string(b)
}

// TestFilesOfPrograms: a program finds its files and leaves others, each a plain one of
// its own that its job lists; what else it leaves fails the attempt.
func TestFilesOfPrograms(t *testing.T) {
	outputs := outputStore(t, 0)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("of the host"), 0o600); err != nil {
		t.Fatal(err)
	}
	scripts := map[string]struct{ script, want string }{
		"good":       {`tr a-z A-Z <"$SKEIN_IN/data" >"$SKEIN_OUT/a"; echo said; echo also >&2`, ""},
		"link":       {`ln -s "` + secret + `" "$SKEIN_OUT/a"`, "outputs: a is a link, want a plain file"},
		"hardlink":   {`echo x >y; ln y "$SKEIN_OUT/a"`, "outputs: a is a link to a file that is elsewhere as well"},
		"pipe":       {`mkfifo "$SKEIN_OUT/a"`, "outputs: a is a device, a pipe or a socket"},
		"directory":  {`mkdir "$SKEIN_OUT/a"`, "outputs: a is a directory"},
		"locked":     {`mkdir -p "$SKEIN_OUT/a/b"; chmod 0 "$SKEIN_OUT/a"`, "outputs: a is a directory"},
		"missing":    {`true`, "outputs: there is no file a"},
		"another":    {`echo >"$SKEIN_OUT/a"; echo >"$SKEIN_OUT/b"`, "outputs: file b is not among those that the job lists"},
		"odd_name":   {`echo >"$SKEIN_OUT/a"; echo >"$SKEIN_OUT/b c"`, `outputs: "b c" is not the name of a file`},
		"many":       {`for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do echo >"$SKEIN_OUT/f$i"; done`, "outputs: more than 16 files"},
		"large":      {`head -c 1001 /dev/zero >"$SKEIN_OUT/a"`, "outputs: more than the bytes that a chunk may leave, with file a"},
		"replaced":   {`rmdir "$SKEIN_OUT"; ln -s "$SKEIN_IN" "$SKEIN_OUT"`, "outputs: the directory is gone"},
		"fails":      {`echo >"$SKEIN_OUT/a"; echo sorry; exit 3`, "exit code 3; standard output: sorry"},
		"first_file": {`exit 0`, "outputs: there is no file a"},
	}
	h := newExecHost(t, func(o *ExecOptions) {
		o.Outputs = outputs
		for name, s := range scripts {
			o.Programs[name] = []string{"/bin/sh", "-c", s.script}
		}
	})
	for name, s := range scripts {
		task := withFiles(t, h.task(name), h.store)
		task.Spec.OutputBytes = 1000
		r, err := h.Execute(t.Context(), 0, task)
		if s.want != "" {
			if err == nil || !strings.Contains(err.Error(), s.want) || ClassOf(err) != job.FailedWork {
				t.Errorf("%s: %v of class %q, want %q", name, err, ClassOf(err), s.want)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := left(t, r, outputs); got != "HELLO" || r.Iterations != 10 || len(r.Metrics) != 0 {
			t.Errorf("%s: left %q, result %+v", name, got, r)
		}
		if said := string(task.Words.Said().Text()); !strings.Contains(said, "said\n") || !strings.Contains(said, "also\n") {
			t.Errorf("%s: said %q", name, said)
		}
	}
	// What an attempt here left is found here.
	task := withFiles(t, h.task("good"), outputs)
	if r, err := h.Execute(t.Context(), 0, task); err != nil || left(t, r, outputs) != "HELLO" {
		t.Errorf("an output as a file: %v", err)
	}
}

// TestStoreOfOutputsIsFull: that a host has no room is not the work's fault.
func TestStoreOfOutputsIsFull(t *testing.T) {
	for what, store := range map[string]*artefact.Store{"full": outputStore(t, 3), "none": nil} {
		h := newExecHost(t, func(o *ExecOptions) {
			o.Outputs = store
			o.Programs["good"] = []string{"/bin/sh", "-c", `echo hello >"$SKEIN_OUT/a"`}
		})
		_, err := h.Execute(t.Context(), 0, withFiles(t, h.task("good"), h.store))
		if err == nil || ClassOf(err) != job.FailedInfra {
			t.Errorf("%s: %v of class %q", what, err, ClassOf(err))
		}
		if store != nil {
			if used, _ := store.Used(); used != 0 {
				t.Errorf("%d bytes are taken by what was not stored", used)
			}
		}
	}
}

// TestFilesWithoutRoom: a small file under many names does not fill the disk of a host.
func TestFilesWithoutRoom(t *testing.T) {
	h := newExecHost(t, func(o *ExecOptions) {
		o.Outputs, o.ScratchBytes = outputStore(t, 0), 1<<20
		o.Programs["good"] = []string{"/bin/sh", "-c", `echo hello >"$SKEIN_OUT/a"`}
	})
	task := withFiles(t, h.task("good"), h.store)
	hash, err := h.store.Put(bytes.NewReader(make([]byte, 100<<10)), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, copies := range []int{10, 11} {
		for i := range copies {
			task.Spec.Files[fmt.Sprint("copy", i)] = hash
		}
		_, err := h.Execute(t.Context(), 0, task)
		if full := copies == 11; full != (err != nil) || full && (ClassOf(err) != job.FailedInfra || !strings.Contains(err.Error(), "exec.scratch_bytes")) {
			t.Errorf("%d copies: %v of class %q", copies, err, ClassOf(err))
		}
	}
}

// TestFilesOfGuests: the same of a guest, for which its directories are all there is.
func TestFilesOfGuests(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a guest")
	}
	outputs, scratch := outputStore(t, 0), filepath.Join(t.TempDir(), "scratch")
	h := newWASMHost(t, func(o *WASMOptions) { o.Outputs, o.ScratchDir = outputs, scratch })
	plain := h.put(t, buildGuest(t, "./testdata/files"))
	run := func(mode string) (job.ChunkResult, string, error) {
		t.Helper()
		task := withFiles(t, plain, h.store)
		config, err := h.store.Put(bytes.NewReader([]byte(mode)), 100)
		if err != nil {
			t.Fatal(err)
		}
		task.Spec.Config = config
		r, err := h.Execute(t.Context(), 0, task)
		return r, string(task.Words.Said().Text()), err
	}
	r, said, err := run("copy")
	if err != nil || left(t, r, outputs) != "HELLO" {
		t.Errorf("copy: %+v, %v", r, err)
	}
	if !strings.Contains(said, "in has data\n") || !strings.Contains(said, "words on standard output\n") {
		t.Errorf("copy: said %q", said)
	}
	if r, said, err := run("escape"); err != nil || left(t, r, outputs) != "" {
		t.Errorf("escape: %v, said %q", err, said)
	}
	for mode, want := range map[string]string{
		"fill": "wrote more than 67108864 bytes to its outputs", "many": "wrote more than 16 outputs", "another": "outputs: file b is not among those that the job lists",
		"none": "outputs: there is no file a",
	} {
		if _, _, err := run(mode); err == nil || !strings.Contains(err.Error(), want) || ClassOf(err) != job.FailedWork {
			t.Errorf("%s: %v of class %q, want %q", mode, err, ClassOf(err), want)
		}
	}
	if dirs, err := os.ReadDir(scratch); err != nil || len(dirs) > 0 {
		t.Errorf("left in the scratch directory: %v, %v", dirs, err)
	}
}
