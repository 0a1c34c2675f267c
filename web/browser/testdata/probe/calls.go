//go:build wasip1

package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"unsafe"
)

// All functions of WASI but proc_exit, with addresses as numbers so that they may be wrong.

//go:wasmimport wasi_snapshot_preview1 args_get
func argsGet(a, b uint32) uint32

//go:wasmimport wasi_snapshot_preview1 args_sizes_get
func argsSizesGet(a, b uint32) uint32

//go:wasmimport wasi_snapshot_preview1 environ_get
func environGet(a, b uint32) uint32

//go:wasmimport wasi_snapshot_preview1 environ_sizes_get
func environSizesGet(a, b uint32) uint32

//go:wasmimport wasi_snapshot_preview1 clock_res_get
func clockResGet(id, a uint32) uint32

//go:wasmimport wasi_snapshot_preview1 clock_time_get
func clockTimeGet(id uint32, precision uint64, a uint32) uint32

//go:wasmimport wasi_snapshot_preview1 fd_advise
func fdAdvise(fd uint32, offset, length uint64, advice uint32) uint32

//go:wasmimport wasi_snapshot_preview1 fd_allocate
func fdAllocate(fd uint32, offset, length uint64) uint32

//go:wasmimport wasi_snapshot_preview1 fd_close
func fdClose(fd uint32) uint32

//go:wasmimport wasi_snapshot_preview1 fd_datasync
func fdDatasync(fd uint32) uint32

//go:wasmimport wasi_snapshot_preview1 fd_fdstat_get
func fdFdstatGet(fd, a uint32) uint32

//go:wasmimport wasi_snapshot_preview1 fd_fdstat_set_flags
func fdFdstatSetFlags(fd, flags uint32) uint32

//go:wasmimport wasi_snapshot_preview1 fd_fdstat_set_rights
func fdFdstatSetRights(fd uint32, base, inheriting uint64) uint32

//go:wasmimport wasi_snapshot_preview1 fd_filestat_get
func fdFilestatGet(fd, a uint32) uint32

//go:wasmimport wasi_snapshot_preview1 fd_filestat_set_size
func fdFilestatSetSize(fd uint32, size uint64) uint32

//go:wasmimport wasi_snapshot_preview1 fd_filestat_set_times
func fdFilestatSetTimes(fd uint32, atim, mtim uint64, flags uint32) uint32

//go:wasmimport wasi_snapshot_preview1 fd_pread
func fdPread(fd, iovs, n uint32, offset uint64, a uint32) uint32

//go:wasmimport wasi_snapshot_preview1 fd_prestat_get
func fdPrestatGet(fd, a uint32) uint32

//go:wasmimport wasi_snapshot_preview1 fd_prestat_dir_name
func fdPrestatDirName(fd, a, n uint32) uint32

//go:wasmimport wasi_snapshot_preview1 fd_pwrite
func fdPwrite(fd, iovs, n uint32, offset uint64, a uint32) uint32

//go:wasmimport wasi_snapshot_preview1 fd_read
func fdRead(fd, iovs, n, a uint32) uint32

//go:wasmimport wasi_snapshot_preview1 fd_readdir
func fdReaddir(fd, a, n uint32, cookie uint64, used uint32) uint32

//go:wasmimport wasi_snapshot_preview1 fd_renumber
func fdRenumber(fd, to uint32) uint32

//go:wasmimport wasi_snapshot_preview1 fd_seek
func fdSeek(fd uint32, offset uint64, whence, a uint32) uint32

//go:wasmimport wasi_snapshot_preview1 fd_sync
func fdSync(fd uint32) uint32

//go:wasmimport wasi_snapshot_preview1 fd_tell
func fdTell(fd, a uint32) uint32

//go:wasmimport wasi_snapshot_preview1 fd_write
func fdWrite(fd, iovs, n, a uint32) uint32

//go:wasmimport wasi_snapshot_preview1 path_create_directory
func pathCreateDirectory(fd, p, n uint32) uint32

//go:wasmimport wasi_snapshot_preview1 path_filestat_get
func pathFilestatGet(fd, flags, p, n, a uint32) uint32

//go:wasmimport wasi_snapshot_preview1 path_filestat_set_times
func pathFilestatSetTimes(fd, flags, p, n uint32, atim, mtim uint64, which uint32) uint32

//go:wasmimport wasi_snapshot_preview1 path_link
func pathLink(fd, flags, p, n, to, q, m uint32) uint32

//go:wasmimport wasi_snapshot_preview1 path_open
func pathOpen(fd, flags, p, n, oflags uint32, base, inheriting uint64, fdflags, a uint32) uint32

//go:wasmimport wasi_snapshot_preview1 path_readlink
func pathReadlink(fd, p, n, a, size, used uint32) uint32

//go:wasmimport wasi_snapshot_preview1 path_remove_directory
func pathRemoveDirectory(fd, p, n uint32) uint32

//go:wasmimport wasi_snapshot_preview1 path_rename
func pathRename(fd, p, n, to, q, m uint32) uint32

//go:wasmimport wasi_snapshot_preview1 path_symlink
func pathSymlink(p, n, fd, q, m uint32) uint32

//go:wasmimport wasi_snapshot_preview1 path_unlink_file
func pathUnlinkFile(fd, p, n uint32) uint32

//go:wasmimport wasi_snapshot_preview1 poll_oneoff
func pollOneoff(from, to, n, a uint32) uint32

//go:wasmimport wasi_snapshot_preview1 proc_raise
func procRaise(signal uint32) uint32

//go:wasmimport wasi_snapshot_preview1 random_get
func randomGet(a, n uint32) uint32

//go:wasmimport wasi_snapshot_preview1 sched_yield
func schedYield() uint32

//go:wasmimport wasi_snapshot_preview1 sock_accept
func sockAccept(fd, flags, a uint32) uint32

//go:wasmimport wasi_snapshot_preview1 sock_recv
func sockRecv(fd, data, n, flags, a, b uint32) uint32

//go:wasmimport wasi_snapshot_preview1 sock_send
func sockSend(fd, data, n, flags, a uint32) uint32

//go:wasmimport wasi_snapshot_preview1 sock_shutdown
func sockShutdown(fd, how uint32) uint32

// where all results go; a variable of the program does not move.
var space [4096]byte

func arena() uint32 { return uint32(uintptr(unsafe.Pointer(&space))) }

// outside are addresses at and behind the end of any memory.
var outside = []uint32{0xffffffff, 0xfffffff8}

func calls(out io.Writer) {
	a := arena()
	// try tells what a call returned and what it wrote.
	try := func(name string, f func() uint32) {
		errno := f()
		fmt.Fprintf(out, "%s %d %x\n", name, errno, crc32.ChecksumIEEE(space[:]))
		clear(space[:])
	}
	put := func(at int, values ...uint32) {
		for i, v := range values {
			binary.LittleEndian.PutUint32(space[at+4*i:], v)
		}
	}
	descriptors := []uint32{0, 1, 2, 3, 0x7fffffff, 0x80000000, 0xffffffff}
	where := append([]uint32{a, a + 1}, outside...)
	round := func(descriptors []uint32) {
		for _, fd := range descriptors {
			name := func(f string, more ...any) string { return fmt.Sprint(f, " ", int32(fd), " ", more) }
			for _, advice := range []uint32{0, 5, 6, 256, 255} {
				try(name("fd_advise", advice), func() uint32 { return fdAdvise(fd, 0, 1, advice) })
			}
			for _, c := range [][2]uint64{{0, 0}, {0, 1}, {1 << 63, 0}, {1 << 63, 1 << 63}, {1<<63 - 1, 1}} {
				try(name("fd_allocate", c), func() uint32 { return fdAllocate(fd, c[0], c[1]) })
			}
			try(name("fd_datasync"), func() uint32 { return fdDatasync(fd) })
			try(name("fd_sync"), func() uint32 { return fdSync(fd) })
			for flags := range uint32(33) {
				try(name("fd_fdstat_set_flags", flags), func() uint32 { return fdFdstatSetFlags(fd, flags) })
			}
			try(name("fd_fdstat_set_flags high"), func() uint32 { return fdFdstatSetFlags(fd, 0x10004) })
			try(name("fd_fdstat_set_rights"), func() uint32 { return fdFdstatSetRights(fd, 1, 1) })
			try(name("fd_filestat_set_size"), func() uint32 { return fdFilestatSetSize(fd, 5) })
			for _, flags := range []uint32{3, 12, 15, 14} { // the others trap
				try(name("fd_filestat_set_times", flags), func() uint32 { return fdFilestatSetTimes(fd, 1, 2, flags) })
			}
			for i, at := range where {
				try(name("fd_fdstat_get", i), func() uint32 { return fdFdstatGet(fd, at) })
				try(name("fd_filestat_get", i), func() uint32 { return fdFilestatGet(fd, at) })
				try(name("fd_prestat_get", i), func() uint32 { return fdPrestatGet(fd, at) })
				for _, n := range []uint32{0, 1, 0xffffffff} {
					try(name("fd_prestat_dir_name", i, n), func() uint32 { return fdPrestatDirName(fd, at, n) })
				}
				try(name("fd_seek", i), func() uint32 { return fdSeek(fd, 1, 0, at) })
				try(name("fd_seek whence", i), func() uint32 { return fdSeek(fd, 1, 77, at) })
				try(name("fd_tell", i), func() uint32 { return fdTell(fd, at) })
				try(name("sock_accept", i), func() uint32 { return sockAccept(fd, 4, at) })
				for _, n := range []uint32{0, 23, 24, 100} {
					try(name("fd_readdir", i, n), func() uint32 { return fdReaddir(fd, at, n, 0, a) })
				}
			}
			for _, flags := range []uint32{0, 1, 8} {
				try(name("sock_recv", flags), func() uint32 { return sockRecv(fd, a, 1, flags, a+64, a+72) })
				try(name("sock_send", flags), func() uint32 { return sockSend(fd, a, 1, flags, a+64) })
				try(name("sock_shutdown", flags), func() uint32 { return sockShutdown(fd, flags) })
			}
			for _, to := range descriptors {
				try(name("fd_renumber", int32(to)), func() uint32 { return fdRenumber(fd, to) })
			}
			// Lists of pieces: none, empty ones, one outside, more than there is, and a count that wraps.
			for i, list := range [][]uint32{{}, {a + 256, 0}, {a + 256, 3}, {a + 256, 0, a + 300, 4, a + 320, 2}, {0xffffffff, 2}, {0xffffffff, 0}, {a + 256, 1, 0xfffffff0, 64}} {
				n := uint32(len(list) / 2)
				try(name("fd_pread", i), func() uint32 { put(0, list...); return fdPread(fd, a, n, 7, a+512) })
				try(name("fd_pwrite", i), func() uint32 { put(0, list...); return fdPwrite(fd, a, n, 7, a+512) })
				try(name("fd_read", i), func() uint32 { put(0, list...); return fdRead(fd, a, n, a+512) })
				if fd != 1 { // it would be among the results
					try(name("fd_write", i), func() uint32 { put(0, list...); return fdWrite(fd, a, n, a+512) })
				}
				try(name("fd_read result outside", i), func() uint32 { put(0, list...); return fdRead(fd, a, n, 0xfffffffe) })
			}
			try(name("fd_read many"), func() uint32 { return fdRead(fd, a, 0x20000000, a+512) })
			try(name("fd_write many"), func() uint32 { return fdWrite(fd, a, 0x20000000, a+512) })
			try(name("fd_read outside"), func() uint32 { return fdRead(fd, 0xfffffff0, 9, a+512) })
			try(name("fd_write outside"), func() uint32 { return fdWrite(fd, 0xfffffff0, 9, a+512) })
			paths := []string{"", ".", "..", "/", "a", "a/", "/a", "a/../..", "a/../b", "./a/.././..", "...", "..a", "a//b", "\xff", "\xff/..", "\xc0\x80", "\xed\xa0\x80", "\xef\xbb\xbf", "a\x00b", "ä/世"}
			for _, p := range paths {
				with := func(f func(p, n uint32) uint32) func() uint32 {
					return func() uint32 { copy(space[1024:], p); return f(a+1024, uint32(len(p))) }
				}
				try(name("path_create_directory", p), with(func(p, n uint32) uint32 { return pathCreateDirectory(fd, p, n) }))
				try(name("path_filestat_get", p), with(func(p, n uint32) uint32 { return pathFilestatGet(fd, 1, p, n, a) }))
				try(name("path_link", p), with(func(p, n uint32) uint32 { return pathLink(fd, 0, p, n, 3, p, n) }))
				try(name("path_open", p), with(func(p, n uint32) uint32 { return pathOpen(fd, 1, p, n, 1, 2, 2, 0, a) }))
				try(name("path_readlink", p), with(func(p, n uint32) uint32 { return pathReadlink(fd, p, n, a, 9, a+64) }))
				try(name("path_readlink nowhere", p), with(func(p, n uint32) uint32 { return pathReadlink(fd, p, n, a, 0, a+64) }))
				try(name("path_remove_directory", p), with(func(p, n uint32) uint32 { return pathRemoveDirectory(fd, p, n) }))
				try(name("path_rename", p), with(func(p, n uint32) uint32 { return pathRename(fd, p, n, 3, p, n) }))
				try(name("path_symlink", p), with(func(p, n uint32) uint32 { return pathSymlink(p, n, fd, p, n) }))
				try(name("path_unlink_file", p), with(func(p, n uint32) uint32 { return pathUnlinkFile(fd, p, n) }))
				for flags := range uint32(16) {
					try(name("path_filestat_set_times", p, flags), with(func(p, n uint32) uint32 { return pathFilestatSetTimes(fd, 1, p, n, 1, 2, flags) }))
				}
			}
			try(name("path_open outside"), func() uint32 { return pathOpen(fd, 1, 0xffffffff, 5, 1, 2, 2, 0, a) })
			polls(fd, a, name, try, put)
		}
	}
	for i, at := range where {
		name := func(f string, more ...any) string { return fmt.Sprint(f, " at ", i, more) }
		try(name("args_sizes_get"), func() uint32 { return argsSizesGet(at, a+100) })
		try(name("args_sizes_get second"), func() uint32 { return argsSizesGet(a+100, at) })
		try(name("args_get"), func() uint32 { return argsGet(at, a+100) })
		try(name("args_get second"), func() uint32 { return argsGet(a+100, at) })
		try(name("environ_sizes_get"), func() uint32 { return environSizesGet(at, a+100) })
		try(name("environ_sizes_get second"), func() uint32 { return environSizesGet(a+100, at) })
		try(name("environ_get"), func() uint32 { return environGet(at, a+100) })
		try(name("environ_get second"), func() uint32 { return environGet(a+100, at) })
		for _, id := range []uint32{0, 1, 2, 3, 4, 0xffffffff} {
			try(name("clock_res_get", id), func() uint32 { return clockResGet(id, at) })
			try(name("clock_time_get", id), func() uint32 { return clockTimeGet(id, 1, at) })
			try(name("clock_time_get exactly", id), func() uint32 { return clockTimeGet(id, 0, at) })
		}
		for _, n := range []uint32{0, 1, 5, 8, 9, 500, 0xffffffff} {
			try(name("random_get", n), func() uint32 { return randomGet(at, n) })
		}
	}
	try("sched_yield", schedYield)
	try("proc_raise", func() uint32 { return procRaise(9) })
	round(descriptors)
	for _, fd := range []uint32{2, 0, 3, 0xffffffff} {
		try(fmt.Sprint("fd_close ", fd), func() uint32 { return fdClose(fd) })
		try(fmt.Sprint("fd_close again ", fd), func() uint32 { return fdClose(fd) })
		round([]uint32{0, 1, 2})
	}
}

// polls waits for the clock, for the descriptor, for both and for what is no event.
func polls(fd, a uint32, name func(string, ...any) string, try func(string, func() uint32), put func(int, ...uint32)) {
	const mark = 0x01020304
	clock := func(at int, ns uint64, flags uint32) {
		put(at, mark, ^uint32(mark), 0, 0, 1, 0, uint32(ns), uint32(ns>>32), 0, 0, flags, 0)
	}
	file := func(at int, kind uint32) { put(at, mark+uint32(at), 5, kind, 0, fd, 0, 0, 0, 0, 0, 0, 0) }
	now := func() uint32 { return clockTimeGet(1, 0, a+2048) }
	for i, set := range []struct {
		n    uint32
		fill func()
	}{
		{0, func() {}},
		{1, func() { clock(0, 5000, 0) }},
		{1, func() { clock(0, 0, 0) }},
		{1, func() { clock(0, 1<<63, 0) }},
		{1, func() { clock(0, 5000, 1) }},
		{1, func() { clock(0, 5000, 2) }},
		{1, func() { clock(0, 1<<62, 0) }},
		{2, func() { clock(0, 9000, 0); clock(48, 7000, 0) }},
		{2, func() { clock(0, 9000, 0); clock(48, 7000, 1) }},
		{1, func() { file(0, 1) }},
		{1, func() { file(0, 2) }},
		{1, func() { file(0, 3) }},
		{2, func() { file(0, 1); clock(48, 1000_000, 0) }},
		{3, func() { file(0, 1); file(48, 2); clock(96, 1000_000, 0) }},
		{3, func() { file(0, 1); file(48, 1); file(96, 2) }},
		{2, func() { file(0, 2); put(48, 1, 2, 77) }},
	} {
		for j, to := range []uint32{a + 1024, a + 32, a + 49, 0xfffffff0} {
			try(name("poll_oneoff", i, j), func() uint32 { set.fill(); return pollOneoff(a, to, set.n, a+2000) })
			try(name("and the clock", i, j), now)
		}
		try(name("poll_oneoff count outside", i), func() uint32 { set.fill(); return pollOneoff(a, a+1024, set.n, 0xfffffffe) })
		try(name("poll_oneoff outside", i), func() uint32 { set.fill(); return pollOneoff(0xfffffff0, a+1024, set.n, a+2000) })
	}
}
