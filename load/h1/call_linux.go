package h1

import (
	"syscall"
	"unsafe"
)

// write and read are calls of the kernel of which the runtime is not told. They are for
// sockets that do not block, so they end at once, and there is nothing that it would do
// meanwhile: to be told costs it more than it costs to fill a template, and where this
// process was at rest, as it is when the target is what is slow, it has its monitor look each
// 20 µs what became of the call. b is not empty.
func write(fd uintptr, b []byte) (int, error) { return call(syscall.SYS_WRITE, fd, b) }

func read(fd uintptr, b []byte) (int, error) { return call(syscall.SYS_READ, fd, b) }

func call(number, fd uintptr, b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
