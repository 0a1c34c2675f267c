package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/mesh"
	"github.com/skein-project/skein/mesh/topo"
)

// maxSecretFiles bounds how many files checkFileModes looks at.
const maxSecretFiles = 1000

// checkFileModes looks for keys and votes that others may read or write.
func checkFileModes(_ context.Context, f hostFacts) verdict {
	dir := f.cfg.StateDir
	info, err := os.Stat(dir)
	if err != nil {
		return unseen(dir, err)
	}
	if m := info.Mode().Perm(); m&0o077 != 0 {
		return failure("%s has mode %04o: others may look in", dir, m).advise("chmod 0700 %s", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return unseen(dir, err)
	}
	var open []string
	names := f.cfg.Mesh.NamesFile // is meant to be read
	for _, e := range entries[:min(len(entries), maxSecretFiles)] {
		if filepath.Join(dir, e.Name()) == names {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
			open = append(open, e.Name())
		}
	}
	if len(open) > 0 {
		return warning("others may read %s in %s", strings.Join(open, ", "), dir).advise("chmod go= %s/*", dir)
	}
	return good("%s is for its owner only", dir)
}

// unseen says why a file or directory could not be looked at.
func unseen(path string, err error) verdict {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return skipped("%s does not exist yet", path)
	case errors.Is(err, fs.ErrPermission):
		return skipped("%s cannot be read by uid %d", path, os.Geteuid()).advise("run this as root")
	}
	return failure("%v", err)
}

// checkStateDir writes a file where the daemon writes.
func checkStateDir(_ context.Context, f hostFacts) verdict {
	dir := f.cfg.StateDir
	if _, err := os.Stat(dir); err != nil {
		return unseen(dir, err)
	}
	if err := tryWrite(dir); err != nil {
		if errors.Is(err, fs.ErrPermission) && !f.running() {
			return skipped("uid %d may not write in %s", os.Geteuid(), dir).advise("run this as root or as the user of the daemon")
		}
		return failure("%v", err).advise("make %s writable for the user of the daemon, or set state_dir", dir)
	}
	return good("%s", dir)
}

func tryWrite(dir string) (err error) {
	file, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	if _, err := file.WriteString("written by skein doctor\n"); err != nil {
		return err
	}
	return file.Sync()
}

// checkNamesFile writes beside the names file, which is replaced as a whole.
func checkNamesFile(_ context.Context, f hostFacts) verdict {
	file := f.cfg.Mesh.NamesFile
	if file == "" {
		return skipped("mesh.names_file is not set")
	}
	dir := filepath.Dir(file)
	const hint = "choose a file in a directory that the daemon may write in and others may read, like /run/skein/hosts"
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !f.running():
		return skipped("%s does not exist yet", dir)
	case err != nil:
		return failure("%v", err).advise(hint)
	}
	if old, err := readNames(file); err == nil && !ownNames(old) {
		return failure("%s: %v", file, errNotNames).advise(hint)
	}
	if err := tryWrite(dir); err != nil {
		if errors.Is(err, fs.ErrPermission) && !f.running() {
			return skipped("uid %d may not write in %s", os.Geteuid(), dir).advise("run this as root or as the user of the daemon")
		}
		return failure("%v", err).advise(hint)
	}
	if info.Mode().Perm()&0o001 == 0 {
		return warning("%s has mode %04o: other programs cannot read the names there", dir, info.Mode().Perm()).advise(hint)
	}
	return good("%s", file)
}

// Free space below which the event log is in danger.
const (
	diskFail = 64 << 20
	diskWarn = 1 << 30
)

func checkDisk(_ context.Context, f hostFacts) verdict {
	dir := f.cfg.StateDir
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	free, err := freeBytes(dir)
	if err != nil {
		return skipped("%s: %v", dir, err)
	}
	return judgeDisk(dir, free, f.cfg.EventLog)
}

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

func checkCapabilities(_ context.Context, f hostFacts) verdict {
	if !f.needsAdmin() {
		return good("the netstack backend needs none")
	}
	has, err := hasNetAdmin()
	switch {
	case err != nil:
		return skipped("%v", err)
	case has:
		return good("CAP_NET_ADMIN is there")
	case !f.running():
		return skipped("uid %d has no CAP_NET_ADMIN; the unit gives it to the daemon", os.Geteuid()).
			advise("to see what the daemon sees, run this as root; to run it without rights, set mesh.backend to \"netstack\"")
	}
	return failure("CAP_NET_ADMIN is missing").
		advise("start the daemon by its unit or as root, or set mesh.backend to \"netstack\", which needs no rights")
}

// tunDevice is what TUN interfaces are made through.
const tunDevice = "/dev/net/tun"

func checkTUN(_ context.Context, f hostFacts) verdict {
	want := f.cfg.Mesh.Backend
	if want != config.BackendTUN && want != config.BackendAuto {
		return skipped("not used by the %s backend", want)
	}
	file, err := os.OpenFile(tunDevice, os.O_RDWR, 0)
	switch {
	case err == nil:
		_ = file.Close() // nothing was written
		return good("%s opens", tunDevice)
	case want == config.BackendAuto && kernelWireGuard() == nil:
		return good("not needed: the kernel has WireGuard")
	case errors.Is(err, fs.ErrNotExist):
		return failure("%v", err).advise("modprobe tun; a container needs the device handed in")
	}
	return failure("%v", err).advise("let the daemon open it: DeviceAllow=/dev/net/tun rw in its unit")
}

func checkBackend(_ context.Context, f hostFacts) verdict {
	want := f.cfg.Mesh.Backend
	if f.running() {
		if want == config.BackendAuto && f.backend != config.BackendKernel {
			return good("%s is in use: the kernel had no WireGuard at the start", f.backend)
		}
		return good("%s is in use", f.backend)
	}
	if want != config.BackendKernel && want != config.BackendAuto {
		return good("%s needs nothing of the kernel's WireGuard", want)
	}
	err := kernelWireGuard()
	switch {
	case err == nil:
		return good("the kernel has WireGuard")
	case want == config.BackendAuto:
		return good("no WireGuard in the kernel (%v): the daemon will use TUN", err)
	}
	return failure("no WireGuard in the kernel: %v", err).
		advise("modprobe wireguard (Linux 5.6 or later), or set mesh.backend to \"auto\"")
}

// checkInterface looks for a device of somebody else under the mesh's name.
func checkInterface(_ context.Context, f hostFacts) verdict {
	name := f.cfg.Mesh.Interface
	switch {
	case !f.needsAdmin():
		return good("the netstack backend makes no device")
	case f.running():
		return good("%s belongs to this daemon", name)
	}
	err := mesh.CheckInterface(name)
	switch {
	case errors.Is(err, mesh.ErrForeign):
		return failure("%v", err).advise("set mesh.interface to another name, or remove that device if nothing needs it")
	case err != nil:
		return skipped("%v", err)
	}
	return good("%s is free, or was left by an earlier skein", name)
}

func checkUDPPort(ctx context.Context, f hostFacts) verdict {
	at := f.cfg.Mesh.Listen.String()
	if f.running() {
		return good("%s belongs to this daemon", at)
	}
	var lc net.ListenConfig
	conn, err := lc.ListenPacket(ctx, "udp", at)
	if errors.Is(err, syscall.EADDRINUSE) && f.needsAdmin() {
		if _, e := net.InterfaceByName(f.cfg.Mesh.Interface); e == nil {
			return skipped("%s is taken, as by the device %s that a daemon leaves for its next start", at, f.cfg.Mesh.Interface)
		}
	}
	if err != nil {
		return portTaken("mesh.listen", err)
	}
	_ = conn.Close() // only probed
	return good("%s is free", at)
}

func checkJoinPort(ctx context.Context, f hostFacts) verdict {
	at := f.cfg.Join.Listen.String()
	if f.running() {
		return good("%s belongs to this daemon, if it may admit hosts", at)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", at)
	if err != nil {
		return portTaken("join.listen", err)
	}
	_ = l.Close() // only probed
	return good("%s is free", at)
}

func portTaken(key string, err error) verdict {
	v := failure("%s: %v", key, err)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return v.advise("another program has it, or a daemon of skein that does not answer, or the kernel device that one left "+
			"(`skein net cleanup`): see `ss -lntup`, or set %s", key)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return v.advise("no interface of this host has that address: set %s", key)
	}
	return v.advise("set %s", key)
}

func checkOverlap(_ context.Context, f hostFacts) verdict {
	if !f.needsAdmin() {
		return good("the netstack backend uses no routes of this host")
	}
	err := mesh.CheckOverlap(f.cfg.Mesh.Interface, f.networks)
	switch {
	case errors.Is(err, mesh.ErrOverlap):
		return failure("%v", err).
			advise("the cluster's network is fixed by `skein init --network`: give the other use of it another one, or start the cluster with another")
	case err != nil:
		return skipped("%v", err)
	}
	names := make([]string, len(f.networks))
	for i, n := range f.networks {
		names[i] = n.String()
	}
	return good("%s not in use otherwise", strings.Join(names, " and "))
}

// probeRoute stands for the peers of a host that knows none: an address for
// documentation, to which nothing is sent.
const probeRoute = "192.0.2.1"

// checkUnderlayMTU looks how large packets towards the peers may be.
func checkUnderlayMTU(towards []netip.Addr) verdict {
	alone := len(towards) == 0
	if alone {
		towards = []netip.Addr{netip.MustParseAddr(probeRoute)}
	}
	least, where := 0, netip.Addr{}
	var last error
	for _, a := range slices.Compact(slices.SortedFunc(slices.Values(towards), netip.Addr.Compare)) {
		mtu, err := mesh.PathMTU(a)
		if err != nil {
			last = err
			continue
		}
		if least == 0 || mtu < least {
			least, where = mtu, a
		}
	}
	switch {
	case least == 0 && alone:
		return skipped("no default route, and no peers known yet: %v", last).
			advise("sponsors and peers outside this host's own networks cannot be reached without a route")
	case least == 0:
		return skipped("%v", last)
	}
	return judgeUnderlay(least, where)
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
