package door

import (
	"errors"
	"net"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxGroups is NGROUPS_MAX of Linux.
const maxGroups = 65536

// Credentials reads the uid, gid and supplementary groups that the peer had
// when it connected.
func Credentials(conn *net.UnixConn) (Peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var p Peer
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil {
			failed = err
			return
		}
		p.UID = cred.Uid
		p.Groups = append(supplementary(fd), cred.Gid)
	})
	if err != nil {
		return Peer{}, err
	}
	return p, failed
}

// supplementary returns the peer's further groups; none if the kernel does not
// tell, which only takes rights away.
func supplementary(fd uintptr) []uint32 {
	buf := make([]uint32, 64)
	for {
		size := uint32(len(buf) * 4)
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&buf[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch {
		case errno == 0:
			return buf[:size/4]
		case errors.Is(errno, unix.ERANGE) && int(size/4) > len(buf) && size/4 <= maxGroups:
			buf = make([]uint32, size/4)
		default:
			return nil
		}
	}
}
