// Command files does what its standard input says with its files. What a guest must not
// be able to do it tries, and fails if it succeeds.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

func main() {
	mode, err := io.ReadAll(os.Stdin)
	check(err)
	fmt.Println("words on standard output")
	switch string(mode) {
	case "copy":
		b, err := os.ReadFile("/in/data")
		check(err)
		check(os.WriteFile("/out/tmp", bytes.ToUpper(b), 0o600))
		check(os.Rename("/out/tmp", "/out/a"))
		list, err := os.ReadDir("/in")
		check(err)
		for _, e := range list {
			fmt.Fprintln(os.Stderr, "in has", e.Name())
		}
	case "escape":
		for _, name := range []string{"/etc/passwd", "/out/../etc/passwd", "/out/../../etc/passwd", "/in/../../../etc/passwd", "../etc/passwd"} {
			deny("reading "+name, func() error { _, err := os.ReadFile(name); return err })
		}
		for _, name := range []string{"/out/../x", "/out/sub/x", "/in/x", "/in/data", "/out/../../tmp/skein-guest"} {
			deny("writing "+name, func() error { return os.WriteFile(name, []byte("x"), 0o600) })
		}
		deny("a symbolic link", func() error { return os.Symlink("/etc/passwd", "/out/a") })
		deny("a link", func() error { return os.Link("/in/data", "/out/a") })
		deny("a directory", func() error { return os.Mkdir("/out/a", 0o700) })
		check(os.WriteFile("/out/a", nil, 0o600))
	case "fill": // whatever it is told, it goes on
		f, err := os.Create("/out/a")
		check(err)
		b := make([]byte, 1<<20)
		for range 200 {
			_, _ = f.Write(b)
		}
		_ = f.Truncate(1)
	case "many":
		for i := range 17 {
			_ = os.WriteFile(fmt.Sprint("/out/f", i), nil, 0o600)
		}
	case "another":
		check(os.WriteFile("/out/b", nil, 0o600))
	case "none":
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func deny(what string, try func() error) {
	if try() == nil {
		fmt.Fprintln(os.Stderr, what, "succeeded")
		os.Exit(1)
	}
}
