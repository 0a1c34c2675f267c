package runner

import (
	"errors"
	"strings"
	"testing"

	"github.com/skein-project/skein/internal/wasmtest"
)

func TestCheckModule(t *testing.T) {
	good := wasmtest.Assemble(wasmtest.GoodResult, wasmtest.Write(1))
	if err := CheckModule(good); err != nil {
		t.Fatal(err)
	}
	start := wasmtest.Section(7, wasmtest.Vec(wasmtest.Cat(wasmtest.Text("_start"), []byte{0, 1})))
	for name, c := range map[string]struct {
		module []byte
		want   string
	}{
		"empty":         {nil, "empty"},
		"text":          {[]byte("hello, world"), "not a WebAssembly file"},
		"component":     {[]byte("\x00asm\x0d\x00\x01\x00"), "component"},
		"version":       {[]byte("\x00asm\x02\x00\x00\x00"), "version"},
		"no start":      {wasmtest.Header(), "_start"},
		"foreign":       {wasmtest.Cat(wasmtest.Header(), wasmtest.Section(2, wasmtest.Vec(wasmtest.ImportFunc("env", "system", 0))), start), "imports env.system"},
		"memory import": {wasmtest.Cat(wasmtest.Header(), wasmtest.Section(2, wasmtest.Vec(wasmtest.Cat(wasmtest.Text(wasiModule), wasmtest.Text("m"), []byte{2, 0, 1}))), start), "not a function"},
		"start import":  {wasmtest.Cat(wasmtest.Header(), wasmtest.Section(2, wasmtest.Vec(wasmtest.ImportFunc(wasiModule, "f", 0))), wasmtest.Section(7, wasmtest.Vec(wasmtest.Cat(wasmtest.Text("_start"), []byte{0, 0})))), "imported"},
		"cut":           {good[:len(good)-1], "cut off"},
		"out of order":  {wasmtest.Cat(wasmtest.Header(), start, wasmtest.Section(1, wasmtest.Vec())), "out of order"},
		"unknown":       {wasmtest.Cat(wasmtest.Header(), wasmtest.Section(99, nil)), "unknown"},
		"long number":   {wasmtest.Cat(wasmtest.Header(), wasmtest.Section(7, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})), "too l"},
	} {
		if err := CheckModule(c.module); !errors.Is(err, ErrModule) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func FuzzCheckModule(f *testing.F) {
	f.Add(wasmtest.Assemble(wasmtest.GoodResult, wasmtest.Write(1)))
	f.Add(wasmtest.StrangeImport("x"))
	f.Add(wasmtest.Cat(wasmtest.Header(), wasmtest.Section(2, wasmtest.Vec(wasmtest.ImportFunc("env", "system", 0)))))
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := CheckModule(b); err != nil && len(err.Error()) > 512 {
			t.Fatalf("error of %d bytes", len(err.Error()))
		}
	})
}
