package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/mesh/device"
	"github.com/skein-project/skein/mesh/hostsfile"
	"github.com/skein-project/skein/mesh/topo"
)

// Host is what the checks of a host need to know beforehand; the rest they find
// out themselves.
type Host struct {
	Config config.Fixed
	// NamesFile is mesh.names_file; empty if it is not set.
	NamesFile string
	// Networks of the mesh; the default one for a host that is not a member yet.
	Networks []netip.Prefix
	// Cluster is the id of the cluster; empty for a host that is not a member yet.
	Cluster string
	// Backend is the mesh backend in use; empty if no daemon runs in this process.
	Backend string
	// Unasked says that a daemon seems to run here that may not be asked.
	Unasked bool

	uid int // of this process
}

func (f Host) running() bool { return f.Backend != "" }

// needsAdmin reports whether the mesh needs CAP_NET_ADMIN.
func (f Host) needsAdmin() bool { return f.Config.Mesh.Backend != config.BackendNetstack }

// hostChecks returns the checks that need no other host.
func hostChecks(f Host) []check {
	one := func(name string, run func(context.Context, Host) verdict) check {
		return check{groupHost, name, func(ctx context.Context) verdict { return run(ctx, f) }}
	}
	return []check{
		one("file-modes", checkFileModes),
		one("state-files", checkFiles),
		one("state-dir-writable", checkStateDir),
		one("disk-space", checkDisk),
		one("names-file", checkNamesFile),
		one("capabilities", checkCapabilities),
		one("tun-device", checkTUN),
		one("wireguard-backend", checkBackend),
		one("mesh-interface", checkInterface),
		one("udp-port", checkUDPPort),
		one("join-port", checkJoinPort),
		one("route-overlap", checkOverlap),
		one("onion-target", checkTargets),
		one("redis", checkRedis),
		one("centrifugo", checkCentrifugo),
		one("postgres", checkPostgres),
	}
}

// unseen says why a file or directory could not be examined.
func unseen(h Host, path string, err error) verdict {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return skipped("%s does not exist yet", path)
	case errors.Is(err, fs.ErrPermission):
		return skipped("%s cannot be read by uid %d", path, h.uid).advise("run this as root")
	}
	return failure("%v", err)
}

// writing is how writing a file in a directory went.
type writing struct {
	mode  fs.FileMode // of the directory
	stat  error       // why there is no directory
	write error
}

// notAllowed is the verdict on a write that only the daemon may do.
func notAllowed(h Host, dir string) verdict {
	return skipped("uid %d may not write in %s", h.uid, dir).advise("run this as root or as the user of the daemon")
}

// judgeStateDir judges whether the daemon can write its state.
func judgeStateDir(h Host, w writing) verdict {
	dir := h.Config.StateDir
	switch {
	case w.stat != nil:
		return unseen(h, dir, w.stat)
	case errors.Is(w.write, fs.ErrPermission) && !h.running():
		return notAllowed(h, dir)
	case w.write != nil:
		return failure("%v", w.write).advise("make %s writable for the user of the daemon, or set state_dir", dir)
	}
	return good("%s", dir)
}

// judgeNamesFile judges whether the names file can be replaced, and be read by
// other programs; foreign says that somebody else's file is there.
func judgeNamesFile(h Host, foreign bool, w writing) verdict {
	const hint = "choose a file in a directory that the daemon may write in and others may read, like /run/skein/hosts"
	dir := filepath.Dir(h.NamesFile)
	switch {
	case errors.Is(w.stat, fs.ErrNotExist) && !h.running():
		return skipped("%s does not exist yet", dir)
	case foreign:
		return failure("%s: %v", h.NamesFile, hostsfile.ErrForeign).advise(hint)
	case w.stat != nil:
		return failure("%v", w.stat).advise(hint)
	case errors.Is(w.write, fs.ErrPermission) && !h.running():
		return notAllowed(h, dir)
	case w.write != nil:
		return failure("%v", w.write).advise(hint)
	case w.mode.Perm()&0o001 == 0:
		return warning("%s has mode %04o: other programs cannot read the names there", dir, w.mode.Perm()).advise(hint)
	}
	return good("%s", h.NamesFile)
}

// Free space below which the event log is at risk.
const (
	diskFail = 64 << 20
	diskWarn = 1 << 30
)

func judgeDisk(dir string, free uint64, log config.EventLog) verdict {
	const hint = "make room: with eventlog.reserve_bytes left this host takes no new jobs, with nothing left it gives up the lease"
	text := fmt.Sprintf("%d MiB free for %s", free>>20, dir)
	switch {
	case free < max(diskFail, uint64(max(0, log.Reserve))):
		return failure("%s", text).advise(hint)
	case free < max(diskWarn, uint64(max(0, log.LowWater))):
		return warning("%s", text).advise(hint)
	}
	return good("%s", text)
}

// judgeCapabilities judges whether the daemon may change the network; has is about
// this process.
func judgeCapabilities(h Host, has bool, err error) verdict {
	switch {
	case err != nil:
		return skipped("%v", err)
	case has:
		return good("CAP_NET_ADMIN is there")
	case !h.running():
		return skipped("uid %d has no CAP_NET_ADMIN; the unit gives it to the daemon", h.uid).
			advise("to see what the daemon sees, run this as root; to run it without rights, set mesh.backend to \"netstack\"")
	}
	return failure("CAP_NET_ADMIN is missing").
		advise("start the daemon by its unit or as root, or set mesh.backend to \"netstack\", which needs no rights")
}

// judgeTUN judges the outcome of opening the TUN device; kernel says why the kernel
// has no WireGuard, nil if it has.
func judgeTUN(h Host, open, kernel error) verdict {
	switch {
	case open == nil:
		return good("%s opens", tunDevice)
	case h.Config.Mesh.Backend == config.BackendAuto && kernel == nil:
		return good("not needed: the kernel has WireGuard")
	case errors.Is(open, fs.ErrNotExist):
		return failure("%v", open).advise("modprobe tun; a container needs the device handed in")
	}
	return failure("%v", open).advise("let the daemon open it: DeviceAllow=/dev/net/tun rw in its unit")
}

// judgeBackend judges the backend in use, or without a daemon whether the one that
// is wanted could be used; kernel is as for judgeTUN.
func judgeBackend(h Host, kernel error) verdict {
	want := h.Config.Mesh.Backend
	switch {
	case h.running() && want == config.BackendAuto && h.Backend != config.BackendKernel:
		return good("%s is in use: the kernel had no WireGuard at the start", h.Backend)
	case h.running():
		return good("%s is in use", h.Backend)
	case want != config.BackendKernel && want != config.BackendAuto:
		return good("%s needs nothing of the kernel's WireGuard", want)
	case kernel == nil:
		return good("the kernel has WireGuard")
	case want == config.BackendAuto:
		return good("no WireGuard in the kernel (%v): the daemon will use TUN", kernel)
	}
	return failure("no WireGuard in the kernel: %v", kernel).
		advise("modprobe wireguard (Linux 5.6 or later), or set mesh.backend to \"auto\"")
}

// judgeInterface judges what hostnet says of the mesh's interface name.
func judgeInterface(name string, err error) verdict {
	switch {
	case errors.Is(err, device.ErrForeign):
		return failure("%v", err).advise("set mesh.interface to another name, or remove that device if nothing needs it")
	case err != nil:
		return skipped("%v", err)
	}
	return good("%s is free, or was left by an earlier skein", name)
}

// judgeUDPPort judges the outcome of binding mesh.listen; left says that a device of
// the mesh's name is there, which keeps its port.
func judgeUDPPort(h Host, bind error, left bool) verdict {
	at := h.Config.Mesh.Listen.String()
	switch {
	case errors.Is(bind, syscall.EADDRINUSE) && left && h.needsAdmin():
		return skipped("%s is taken, as by the device %s that a daemon leaves for its next start", at, h.Config.Mesh.Interface)
	case bind != nil:
		return portTaken(h, "mesh.listen", bind)
	}
	return good("%s is free", at)
}

// judgeJoinPort judges the outcome of binding join.listen.
func judgeJoinPort(h Host, bind error) verdict {
	if bind != nil {
		return portTaken(h, "join.listen", bind)
	}
	return good("%s is free", h.Config.Join.Listen)
}

func portTaken(h Host, key string, err error) verdict {
	v := failure("%s: %v", key, err)
	switch {
	case errors.Is(err, syscall.EADDRINUSE) && h.Unasked:
		return skipped("%s is taken, as by the daemon, which uid %d may not ask", key, h.uid).advise("to see whether it is the daemon, run this as one who may ask it")
	case errors.Is(err, syscall.EADDRINUSE):
		return v.advise("another program has it, or a daemon of skein that does not answer, or the kernel device that one left "+
			"(`skein net cleanup`): see `ss -lntup`, or set %s", key)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return v.advise("no interface of this host has that address: set %s", key)
	}
	return v.advise("set %s", key)
}

// judgeOverlap judges what hostnet says of the mesh's networks.
func judgeOverlap(h Host, err error) verdict {
	switch {
	case errors.Is(err, device.ErrOverlap):
		return failure("%v", err).
			advise("the cluster's network is fixed by `skein init --network`: give the other use of it another one, or start the cluster with another")
	case err != nil:
		return skipped("%v", err)
	}
	list := make([]string, len(h.Networks))
	for i, n := range h.Networks {
		list[i] = n.String()
	}
	return good("%s not in use otherwise", strings.Join(list, " and "))
}

// wireguardOverhead is what WireGuard and IPv6 outside it add to a packet.
const wireguardOverhead = 80

func judgeUnderlay(mtu int, towards netip.Addr) verdict {
	switch inner := mtu - wireguardOverhead; {
	case inner < topo.MinMTU:
		return failure("packets of %d bytes towards %s leave %d for the mesh, IPv6 needs %d", mtu, towards, inner, topo.MinMTU).
			advise("raise the MTU of that interface or route to %d or more", topo.MinMTU+wireguardOverhead)
	default:
		return good("packets of %d bytes towards %s", mtu, towards)
	}
}
