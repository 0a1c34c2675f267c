package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mapping is a part of the address space, as /proc/self/smaps tells it.
type mapping struct {
	start, end uint64
	mode, file string
	resident   int64 // KiB
	anonymous  int64 // KiB that this process has of its own
}

// forgetProgram takes from the resident memory the pages of the program itself,
// and returns how many KiB they were. The kernel maps sixteen of them for each that
// is touched, so that nearly all of the program is resident after a start, of which
// a daemon goes on to use half. What it needs again is mapped from the page cache.
func forgetProgram() (int64, error) {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return 0, err
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return 0, err
	}
	var kib int64
	for _, m := range mappings(bytes.NewReader(smaps)) {
		// A page that differs from the file, as after relocation or where a debugger
		// has its breakpoints, would be lost.
		if m.file != exe || strings.Contains(m.mode, "w") || m.anonymous > 0 {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(m.start), uintptr(m.end-m.start), unix.MADV_DONTNEED); errno != 0 {
			err = errors.Join(err, os.NewSyscallError("madvise", errno))
			continue
		}
		kib += m.resident
	}
	return kib, err
}

// mappings reads /proc/PID/smaps (proc_pid_smaps(5)); what it does not know is left out.
func mappings(smaps io.Reader) (all []mapping) {
	for s := bufio.NewScanner(smaps); s.Scan(); {
		word := strings.Fields(s.Text())
		if len(word) < 2 {
			continue
		}
		if from, to, ok := strings.Cut(word[0], "-"); ok && len(word) >= 5 {
			m := mapping{mode: word[1], file: strings.Join(word[5:], " ")}
			var err, err2 error
			m.start, err = strconv.ParseUint(from, 16, 64)
			m.end, err2 = strconv.ParseUint(to, 16, 64)
			if err == nil && err2 == nil {
				all = append(all, m)
			}
			continue
		}
		if len(all) == 0 {
			continue
		}
		m := &all[len(all)-1]
		switch word[0] {
		case "Rss:":
			m.resident, _ = strconv.ParseInt(word[1], 10, 64)
		case "Anonymous:":
			m.anonymous, _ = strconv.ParseInt(word[1], 10, 64)
		}
	}
	return all
}
