package executor

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/worker/artefact"
	"github.com/skein-project/skein/worker/runner"
)

// TestMain lets the test binary stand in for the daemon's program: as a
// runner, and as a daemon that will be killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "runner":
			os.Exit(runner.Main(os.Stdin, os.Stdout, os.Stderr))
		case "program":
			os.Exit(program(os.Args[2], os.Args[3]))
		case "daemon":
			os.Exit(doomedDaemon(os.Args[2], os.Args[3]))
		case "exec daemon":
			os.Exit(doomedExecDaemon(os.Args[2], os.Args[3], os.Args[4]))
		}
	}
	var err error
	if cacheDir, err = os.MkdirTemp("", "skein-worker-cache-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(cacheDir)
	os.Exit(code)
}

// cacheDir lets the tests of one run compile each module once.
var cacheDir string

// doomedDaemon runs an endless guest until it is killed. It prints a line when
// the guest runs.
func doomedDaemon(dir, hash string) int {
	store, err := artefact.New(artefact.Options{Dir: dir})
	if err != nil {
		return 1
	}
	e, err := NewWASM(WASMOptions{Artefacts: store, Slots: 1})
	if err != nil {
		return 1
	}
	h, err := cluster.ParseHash(hash)
	if err != nil {
		return 1
	}
	go func() { _ = e.Run(context.Background()) }()
	go func() {
		spec := job.Spec{Key: "k", Artefact: h, Iterations: 1, TimeoutSeconds: 3600}.WithDefaults()
		_, err := e.Execute(context.Background(), 0, Task{Attempt: job.Attempt{Job: "j", Number: 1}, Spec: spec})
		fmt.Println("ended early:", err)
	}()
	for { // until the child is there
		e.mu.Lock()
		for c := range e.live {
			fmt.Println(c.cmd.Process.Pid)
			e.mu.Unlock()
			select {}
		}
		e.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
}

// wasmHost is an executor with its store, running for the time of a test.
type wasmHost struct {
	*WASM
	store *artefact.Store
}

func newWASMHost(t *testing.T, change func(*WASMOptions)) wasmHost {
	t.Helper()
	store, err := artefact.New(artefact.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	o := WASMOptions{Artefacts: store, Slots: 2, CacheDir: cacheDir, Logger: zerolog.Nop()}
	if change != nil {
		change(&o)
	}
	if o.FetchPatience == 0 {
		o.FetchPatience = -1
	}
	e, err := NewWASM(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _ = e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-e.ended
	})
	return wasmHost{e, o.Artefacts}
}

// put stores b and returns a task of the job that runs it.
func (h wasmHost) put(t *testing.T, module []byte) Task {
	t.Helper()
	hash, err := h.store.Put(bytes.NewReader(module), job.MaxModuleBytes)
	if err != nil {
		t.Fatal(err)
	}
	spec := job.Spec{
		Key: "k", Artefact: hash, Iterations: 100, Chunk: 10, TimeoutSeconds: 60, Seed: 42, MemoryBytes: 64 << 20,
	}.WithDefaults()
	return Task{Attempt: job.Attempt{Job: "j", Chunk: 3, Number: 1}, Spec: spec}
}

// buildGuest compiles a Go program to WASI.
func buildGuest(t *testing.T, dir string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "guest.wasm")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, dir)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", dir, err, msg)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// patience is how long a test waits for what must happen: far longer than it
// takes, for a machine may be busy.
const patience = 2 * time.Minute

// poll waits until ok.
func poll(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", patience, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
