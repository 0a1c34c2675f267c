package main

import (
	"os"
	"slices"
	"testing"
)

// TestOneThread has each way to let two things run at once noticed, in a package, in
// its tests, and in what it imports.
func TestOneThread(t *testing.T) {
	for _, c := range []struct {
		name, code string
		imports    []string
		want       bool
	}{
		{"values only", "func f(a int) int { return a + 1 }", []string{"fmt", "net/netip", "time", "testing"}, true},
		{"go", "func f() { go f() }", nil, false},
		{"channel", "func f(c chan int) {}", nil, false},
		{"select", "func f() { select {} }", nil, false},
		{"timer", "var _ = time.AfterFunc", []string{"time"}, false},
		{"parallel test", "func f(t *testing.T) { t.Parallel() }", []string{"testing"}, false},
		{"sync", "", []string{"sync"}, false},
		{"atomic", "", []string{"sync/atomic"}, false},
		{"context", "", []string{"context"}, false},
		{"server", "", []string{"net/http/httptest"}, false},
		{"unsafe", "", []string{"unsafe"}, false},
		{"of others", "", []string{"example.com/x"}, false},
	} {
		read := func(file string) ([]byte, error) {
			if file == "/d/bad.go" {
				return []byte("package p\n" + c.code), nil
			}
			return []byte("package p\n"), nil
		}
		plain := goPackage{ImportPath: "m/plain", Dir: "/d", TestGoFiles: []string{"p_test.go"}, Imports: []string{"fmt"}}
		code := goPackage{ImportPath: "m/code", Dir: "/d", GoFiles: []string{"bad.go"}, TestGoFiles: []string{"p_test.go"}, Imports: c.imports}
		test := goPackage{ImportPath: "m/test", Dir: "/d", XTestGoFiles: []string{"bad.go"}, XTestImports: slices.Concat(c.imports, []string{"m/test"})}
		user := goPackage{ImportPath: "m/user", Dir: "/d", TestGoFiles: []string{"p_test.go"}, TestImports: []string{"m/code"}}
		untested := goPackage{ImportPath: "m/untested", Dir: "/d"}
		got, err := oneThread([]goPackage{user, plain, code, test, untested}, read)
		want := []string{"m/plain"}
		if c.want {
			want = []string{"m/user", "m/plain", "m/code", "m/test"}
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, want)
		}
	}
	broken := []goPackage{{ImportPath: "m/a", Dir: "/d", TestGoFiles: []string{"a_test.go"}}}
	if _, err := oneThread(broken, func(string) ([]byte, error) { return []byte("no Go"), nil }); err == nil {
		t.Error("a file that is no Go is fine")
	}
	if _, err := oneThread(broken, func(string) ([]byte, error) { return nil, os.ErrNotExist }); err == nil {
		t.Error("a file that is not there is fine")
	}
}
