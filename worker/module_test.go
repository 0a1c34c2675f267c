package worker

import (
	"errors"
	"strings"
	"testing"
)

func strangeImport(name string) []byte {
	return cat(wasmHeader,
		section(1, vec([]byte{0x60, 0, 0})),
		section(2, vec(importFunc(wasiModule, name, 0))),
		section(3, vec([]byte{0})),
		section(7, vec(cat(text("_start"), []byte{0, 1}))),
		section(10, vec([]byte{2, 0, 0x0b})),
	)
}

func TestCheckModule(t *testing.T) {
	good := assemble(goodResult, write(1))
	if err := CheckModule(good); err != nil {
		t.Fatal(err)
	}
	start := section(7, vec(cat(text("_start"), []byte{0, 1})))
	for name, c := range map[string]struct {
		module []byte
		want   string
	}{
		"empty":         {nil, "empty"},
		"text":          {[]byte("hello, world"), "not a WebAssembly file"},
		"component":     {[]byte("\x00asm\x0d\x00\x01\x00"), "component"},
		"version":       {[]byte("\x00asm\x02\x00\x00\x00"), "version"},
		"no start":      {wasmHeader, "_start"},
		"foreign":       {cat(wasmHeader, section(2, vec(importFunc("env", "system", 0))), start), "imports env.system"},
		"memory import": {cat(wasmHeader, section(2, vec(cat(text(wasiModule), text("m"), []byte{2, 0, 1}))), start), "not a function"},
		"start import":  {cat(wasmHeader, section(2, vec(importFunc(wasiModule, "f", 0))), section(7, vec(cat(text("_start"), []byte{0, 0})))), "imported"},
		"cut":           {good[:len(good)-1], "cut off"},
		"out of order":  {cat(wasmHeader, start, section(1, vec())), "out of order"},
		"unknown":       {cat(wasmHeader, section(99, nil)), "unknown"},
		"long number":   {cat(wasmHeader, section(7, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})), "too l"},
	} {
		if err := CheckModule(c.module); !errors.Is(err, ErrModule) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func FuzzCheckModule(f *testing.F) {
	f.Add(assemble(goodResult, write(1)))
	f.Add(strangeImport("x"))
	f.Add(cat(wasmHeader, section(2, vec(importFunc("env", "system", 0)))))
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := CheckModule(b); err != nil && len(err.Error()) > 512 {
			t.Fatalf("error of %d bytes", len(err.Error()))
		}
	})
}
