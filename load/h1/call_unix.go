//go:build unix && !linux

package h1

import "syscall"

func write(fd uintptr, b []byte) (int, error) { return syscall.Write(int(fd), b) }

func read(fd uintptr, b []byte) (int, error) { return syscall.Read(int(fd), b) }
