// Command guest tries what a guest must not be able to do and fails with exit
// code 1 if anything of it succeeds. Else it reports what it can see as
// metrics, one sample each.
package main

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"time"
)

func main() {
	deny := func(what string, err error) {
		if err == nil {
			fmt.Fprintf(os.Stderr, "%s succeeded\n", what)
			os.Exit(1)
		}
	}
	_, err := os.ReadFile("/etc/passwd")
	deny("reading a file", err)
	_, err = os.ReadFile("../../etc/passwd")
	deny("reading a relative file", err)
	deny("writing a file", os.WriteFile("/tmp/skein-guest", []byte("x"), 0o600))
	_, err = os.ReadDir("/")
	deny("listing a directory", err)
	deny("making a directory", os.Mkdir("x", 0o700))
	_, err = net.Dial("tcp", "127.0.0.1:22")
	deny("dialing", err)
	_, err = os.FindProcess(1)
	_ = err // never fails
	for fd := uintptr(3); fd < 64; fd++ {
		_, err = os.NewFile(fd, "fd").Write([]byte("x"))
		deny("writing to a descriptor "+strconv.Itoa(int(fd)), err)
	}
	env := os.Environ()
	slices.Sort(env)
	if len(env) != 4 || len(os.Args) != 1 {
		fmt.Fprintf(os.Stderr, "environment %q, arguments %q\n", env, os.Args)
		os.Exit(1)
	}
	config, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	began := time.Now()
	time.Sleep(time.Hour) // takes no time here
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(err)
	}
	n, _ := strconv.Atoi(os.Getenv("SKEIN_ITERATIONS"))
	values := map[string]float64{
		"iterations": float64(n),
		"offset":     number("SKEIN_SEED_OFFSET"),
		"chunk":      number("SKEIN_CHUNK_ID"),
		"seed":       number("SKEIN_SEED"),
		"config":     float64(len(config)),
		"unix":       float64(began.Unix()),
		"slept":      time.Since(began).Truncate(time.Hour).Hours(),
		"random":     float64(binary.BigEndian.Uint32(b[:])),
	}
	fmt.Printf(`{"iterations":%d,"metrics":{`, n)
	sep := ""
	for name, v := range values {
		fmt.Printf(`%s"%s":{"n":1,"mean":%g,"m2":0,"min":%g,"max":%g}`, sep, name, v, v, v)
		sep = ","
	}
	fmt.Print("}}\n")
}

func number(name string) float64 {
	v, err := strconv.ParseFloat(os.Getenv(name), 64)
	if err != nil {
		panic(err)
	}
	return v
}
