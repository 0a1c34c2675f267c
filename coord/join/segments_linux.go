package join

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// segmentBytes of TCP fit into the smallest packet that every link must carry.
const segmentBytes = 1220

// smallSegments keeps the segments of a connection, in both directions, so
// small that a join works where larger packets vanish without a word.
func smallSegments(_, _ string, c syscall.RawConn) error {
	var err error
	if ctlErr := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, segmentBytes)
	}); ctlErr != nil {
		return ctlErr
	}
	return err
}
