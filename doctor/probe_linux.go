package doctor

import (
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// freeBytes is what unprivileged programs may still write at path.
func freeBytes(path string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, fmt.Errorf("free space: %w", err)
	}
	return st.Bavail * uint64(max(0, st.Bsize)), nil
}

// hasNetAdmin reports whether this process may change the network.
func hasNetAdmin() (bool, error) {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return false, fmt.Errorf("capabilities: %w", err)
	}
	return data[unix.CAP_NET_ADMIN/32].Effective&(1<<(unix.CAP_NET_ADMIN%32)) != 0, nil
}

// kernelWireGuard reports why the kernel has no WireGuard; nil: it has. Asking
// loads the module if there is one.
func kernelWireGuard() error {
	_, err := netlink.GenlFamilyGet("wireguard")
	if errors.Is(err, unix.ENOENT) {
		return errors.New("no such module")
	}
	return err
}

// checkKernelClock asks the kernel whether somebody keeps its clock right.
func checkKernelClock() verdict {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	switch {
	case err != nil:
		return skipped("the kernel does not tell: %v", err)
	case state == unix.TIME_ERROR || t.Status&unix.STA_UNSYNC != 0:
		return warning("nobody keeps the clock of this host right").
			advise("run chrony or systemd-timesyncd: messages that are more than clock.tolerance_seconds off are refused")
	}
	return good("kept right, within %s", (time.Duration(t.Maxerror) * time.Microsecond).Round(time.Millisecond))
}
