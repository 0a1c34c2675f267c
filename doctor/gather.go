package doctor

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/mesh/hostnet"
	"github.com/skein-project/skein/mesh/hostsfile"
)

// gatherAlone reads from the state directory what a host knows without a daemon:
// its networks and the underlay addresses of its peers.
func gatherAlone(cfg config.Config) (h Host, towards []netip.Addr) {
	h = Host{uid: os.Geteuid(), Config: cfg.Fixed, NamesFile: cfg.Live.NamesFile, Networks: []netip.Prefix{netip.MustParsePrefix(config.DefaultNetwork)}}
	id, records, err := join.Load(cfg.StateDir)
	if err != nil {
		return h, nil
	}
	h.Networks, h.Cluster = Networks(id), id.Cluster.String()
	table := member.NewTable(id.Verifier())
	_, _ = table.Restore(records, time.Now()) // the daemon reports what is refused
	for _, m := range table.Members() {
		if m.Node == id.Node {
			continue
		}
		for _, e := range m.Endpoints {
			towards = append(towards, e.Addr())
		}
	}
	return h, towards
}

// MeshNetworks are the networks of the mesh that the host of a state directory is in;
// where it cannot be read, as by another user, the default one; nil: it is in none.
func MeshNetworks(stateDir string) []netip.Prefix {
	if _, err := os.Stat(stateDir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	id, _, err := join.Load(stateDir)
	if err != nil {
		return []netip.Prefix{netip.MustParsePrefix(config.DefaultNetwork)}
	}
	return Networks(id)
}

// Networks returns the networks of a member's cluster.
func Networks(id *join.Identity) []netip.Prefix {
	return []netip.Prefix{id.Network.Masked(), member.ULAPrefix(id.Cluster)}
}

func checkStateDir(_ context.Context, h Host) verdict {
	return judgeStateDir(h, tryWriting(h.Config.StateDir))
}

// checkNamesFile writes a file beside the names file, which is replaced as a whole.
func checkNamesFile(_ context.Context, h Host) verdict {
	if h.NamesFile == "" {
		return skipped("mesh.names_file is not set")
	}
	if hostsfile.Foreign(h.NamesFile) {
		return judgeNamesFile(h, true, writing{})
	}
	return judgeNamesFile(h, false, tryWriting(filepath.Dir(h.NamesFile)))
}

// tryWriting writes a file in dir, as the daemon would.
func tryWriting(dir string) writing {
	info, err := os.Stat(dir)
	if err != nil {
		return writing{stat: err}
	}
	return writing{mode: info.Mode(), write: tryWrite(dir)}
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

// checkDisk looks at the file system of the state directory, or of its nearest
// parent that exists.
func checkDisk(_ context.Context, h Host) verdict {
	dir := h.Config.StateDir
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
	return judgeDisk(dir, free, h.Config.EventLog)
}

func checkCapabilities(_ context.Context, h Host) verdict {
	if !h.needsAdmin() {
		return good("the netstack backend needs none")
	}
	has, err := hasNetAdmin()
	return judgeCapabilities(h, has, err)
}

// tunDevice is the device through which TUN interfaces are made.
const tunDevice = "/dev/net/tun"

func checkTUN(_ context.Context, h Host) verdict {
	want := h.Config.Mesh.Backend
	if want != config.BackendTUN && want != config.BackendAuto {
		return skipped("not used by the %s backend", want)
	}
	file, err := os.OpenFile(tunDevice, os.O_RDWR, 0)
	if err == nil {
		_ = file.Close() // nothing was written
		return judgeTUN(h, nil, nil)
	}
	return judgeTUN(h, err, askKernel(h))
}

func checkBackend(_ context.Context, h Host) verdict {
	if h.running() {
		return judgeBackend(h, nil)
	}
	return judgeBackend(h, askKernel(h))
}

// askKernel says why the kernel has no WireGuard; nil if it has, or if the backend
// that is wanted does not need it: asking loads the kernel's module.
func askKernel(h Host) error {
	if want := h.Config.Mesh.Backend; want != config.BackendKernel && want != config.BackendAuto {
		return nil
	}
	return kernelWireGuard()
}

func checkInterface(_ context.Context, h Host) verdict {
	name := h.Config.Mesh.Interface
	switch {
	case !h.needsAdmin():
		return good("the netstack backend makes no device")
	case h.running():
		return good("%s belongs to this daemon", name)
	}
	return judgeInterface(name, hostnet.CheckInterface(name))
}

func checkUDPPort(ctx context.Context, h Host) verdict {
	at := h.Config.Mesh.Listen.String()
	if h.running() {
		return good("%s belongs to this daemon", at)
	}
	var lc net.ListenConfig
	conn, err := lc.ListenPacket(ctx, "udp", at)
	if err == nil {
		_ = conn.Close() // only probed
		return judgeUDPPort(h, nil, false)
	}
	_, missing := net.InterfaceByName(h.Config.Mesh.Interface)
	return judgeUDPPort(h, err, missing == nil)
}

func checkJoinPort(ctx context.Context, h Host) verdict {
	at := h.Config.Join.Listen.String()
	if h.running() {
		return good("%s belongs to this daemon, if it may admit hosts", at)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", at)
	if err == nil {
		_ = l.Close() // only probed
	}
	return judgeJoinPort(h, err)
}

func checkOverlap(_ context.Context, h Host) verdict {
	if !h.needsAdmin() {
		return good("the netstack backend uses no routes of this host")
	}
	return judgeOverlap(h, hostnet.CheckOverlap(h.Config.Mesh.Interface, h.Networks))
}

// probeRoute stands for the peers of a host that knows none: an address for
// documentation, to which nothing is sent.
const probeRoute = "192.0.2.1"

// checkUnderlayMTU finds the smallest packet size on the ways to the peers.
func checkUnderlayMTU(towards []netip.Addr) verdict {
	alone := len(towards) == 0
	if alone {
		towards = []netip.Addr{netip.MustParseAddr(probeRoute)}
	}
	least, where := 0, netip.Addr{}
	var last error
	for _, a := range slices.Compact(slices.SortedFunc(slices.Values(towards), netip.Addr.Compare)) {
		mtu, err := hostnet.PathMTU(a)
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
