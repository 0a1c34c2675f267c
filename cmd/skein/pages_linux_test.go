package main

import (
	"os"
	"runtime"
	"strings"
	"testing"
)

// TestForgetProgram: the pages of the program go and come back.
func TestForgetProgram(t *testing.T) {
	mapped := func() (kib int64) {
		exe, err := os.Readlink("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		smaps, err := os.ReadFile("/proc/self/smaps")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range mappings(strings.NewReader(string(smaps))) {
			if m.file == exe {
				kib += m.resident
			}
		}
		return kib
	}
	before := mapped()
	gone, err := forgetProgram()
	if err != nil {
		t.Fatal(err)
	}
	after := mapped()
	t.Logf("%d KiB of the program resident, %d given back, %d resident after it", before, gone, after)
	if gone == 0 || after >= before {
		t.Errorf("%d KiB of the program are resident, %d before; %d were given back", after, before, gone)
	}
	runtime.GC() // walks stacks, which needs the tables of the program
	if again := mapped(); again < after {
		t.Errorf("%d KiB resident after a collection, %d before it", again, after)
	}
}

// TestMappings: pages that are this process's own are told apart.
func TestMappings(t *testing.T) {
	got := mappings(strings.NewReader(`00400000-012cc000 r-xp 00000000 fe:00 9986119   /opt/a b/skein (deleted)
Size:              15152 kB
Rss:               12784 kB
Anonymous:             4 kB
VmFlags: rd ex mr mw me
xyz-123 r-xp 00000000 fe:00 1 /bin/no
7ffd12147000-7ffd12168000 rw-p 00000000 00:00 0
Rss:                  16 kB
`))
	want := []mapping{
		{start: 0x400000, end: 0x12cc000, mode: "r-xp", file: "/opt/a b/skein (deleted)", resident: 12784, anonymous: 4},
		{start: 0x7ffd12147000, end: 0x7ffd12168000, mode: "rw-p", resident: 16},
	}
	if len(got) != len(want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	for i, m := range got {
		if m != want[i] {
			t.Errorf("got %+v, want %+v", m, want[i])
		}
	}
}
