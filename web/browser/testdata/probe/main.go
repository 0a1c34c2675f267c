//go:build wasip1

// Command probe is a guest that tells what it sees. The first line of its config says
// what it looks at; equal outputs say that two executors are alike to a guest.
package main

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"os"
	"strings"
	"time"
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	what := line()
	switch what {
	case "sees":
		sees(out)
	case "calls":
		calls(out)
	case "progress":
		fmt.Fprint(os.Stderr, "begun\nskein-progress 18446744073709551615\nskein-progress x\nskein-pro")
	case "memory":
		var all [][]byte
		for {
			all = append(all, make([]byte, 1<<20))
			all[len(all)-1][0] = byte(len(all))
		}
	case "panic":
		var m map[string]int
		m["a"] = 1
	case "words":
		fmt.Fprintf(os.Stderr, "%s\x1b[31m \xff\xfe tief \u00e4\u4e16\u202e \n", strings.Repeat("wörter ", 900))
		os.Exit(250)
	case "times":
		fdFilestatSetTimes(1, 0, 0, 0)
	case "wrap":
		pollOneoff(arena(), arena(), 0x10000000, arena()+512)
	case "deaf":
		fmt.Fprint(out, "lost")
		fdClose(1)
	default:
		fmt.Fprintf(os.Stderr, "what is %q?\n", what)
		os.Exit(9)
	}
	if out.Flush() != nil {
		os.Exit(8)
	}
}

// line reads the first line of standard input, and nothing behind it.
func line() string {
	var text []byte
	b := make([]byte, 1)
	for {
		if n, err := os.Stdin.Read(b); n == 0 || err != nil || b[0] == '\n' {
			return string(text)
		}
		text = append(text, b[0])
	}
}

func sees(out io.Writer) {
	say := func(what string, values ...any) { fmt.Fprintln(out, append([]any{what}, values...)...) }
	say("environment", os.Environ(), os.Args)
	began := time.Now()
	say("time", began.UnixNano(), began.UTC())
	for range 3 {
		say("later", time.Since(began), time.Now().UnixNano())
	}
	time.Sleep(1500 * time.Millisecond)
	say("slept", time.Since(began))
	time.Sleep(3 * time.Hour)
	say("slept", time.Since(began))
	ticker := time.NewTicker(time.Second)
	for range 3 {
		say("tick", (<-ticker.C).UnixNano())
	}
	for _, n := range []int{1, 7, 8, 300, 5000} {
		b := make([]byte, n)
		if _, err := rand.Read(b); err != nil {
			say("random", err)
		}
		say("random", fmt.Sprintf("%x", b))
	}
	m := map[int]bool{}
	for i := range 100 {
		m[i] = true
	}
	for range 3 {
		for i := range m {
			fmt.Fprint(out, i, " ")
		}
		fmt.Fprintln(out)
	}
	say("seeded by itself", mathrand.Uint64(), mathrand.Float64(), mathrand.Perm(20))
	done := make(chan int)
	for i := range 20 {
		go func() { done <- i }()
	}
	for range 20 {
		fmt.Fprint(out, <-done, " ")
	}
	fmt.Fprintln(out)
	_, err := os.Open("/etc/passwd")
	say("open", err)
	say("create", os.WriteFile("x", nil, 0o600), os.Mkdir("d", 0o700), os.Remove("x"))
	_, err = os.ReadDir(".")
	say("list", err)
	_, err = os.Getwd()
	say("where", err)
	_, err = net.Dial("tcp", "127.0.0.1:1")
	say("dial", err)
	_, err = os.Stdout.Seek(0, io.SeekCurrent)
	say("seek", err)
	info, err := os.Stdin.Stat()
	say("stat", err)
	if err == nil {
		say("stat", info.Mode(), info.Size(), info.ModTime().UTC())
	}
	_, err = os.Stdout.Read(make([]byte, 1))
	say("read standard output", err)
	_, err = os.Stdin.Write([]byte("x"))
	say("write standard input", err, errors.Unwrap(err))
	rest, err := io.ReadAll(os.Stdin)
	say("rest", string(rest), err)
}
