//go:build wasip1

// Sign is a hook for load tests: it signs what a request carries, with a key that stands
// here for one of yours.
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o sign.wasm ./examples/load/sign
package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"unsafe"
)

var in, out []byte // of the call that is under way

//go:wasmexport alloc
func alloc(size uint32) uint32 {
	in = make([]byte, max(1, size))
	return at(in)
}

func at(b []byte) uint32 { return uint32(uintptr(unsafe.Pointer(&b[0]))) }

// sign gets the request as lines, an empty one and the body, and answers with the fields
// that it sets, an empty line and the body.
//
//go:wasmexport sign
func sign(_, size uint32) uint64 {
	_, body, _ := bytes.Cut(in[:size], []byte("\n\n"))
	mac := hmac.New(sha256.New, []byte("a key"))
	mac.Write(body)
	out = append([]byte("X-Signature: "+hex.EncodeToString(mac.Sum(nil))+"\n\n"), body...)
	return uint64(at(out))<<32 | uint64(len(out))
}

func main() {}
