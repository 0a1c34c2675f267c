package daemon

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/mesh"
)

// checkMesh finds out before anything is spent on it whether the mesh could
// run on this host: the right, the kernel's part, and that its networks are
// not in use otherwise. Networks that are not known are none.
func checkMesh(cfg config.Config, networks ...netip.Prefix) error {
	want := cfg.Mesh.Backend
	if want == config.BackendNetstack {
		return nil
	}
	if has, err := hasNetAdmin(); err == nil && !has {
		return fmt.Errorf("mesh.backend %s: %w", want, mesh.ErrPermission)
	} else if err != nil {
		return nil // this system does not tell: the start will
	}
	kernel := kernelWireGuard()
	if want == config.BackendKernel && kernel != nil {
		return fmt.Errorf("mesh.backend %s: %w: %w", want, mesh.ErrUnsupported, kernel)
	}
	if want == config.BackendTUN || kernel != nil {
		file, err := os.OpenFile(tunDevice, os.O_RDWR, 0)
		if err != nil {
			return fmt.Errorf("mesh.backend %s: %w", want, err)
		}
		_ = file.Close() // nothing was written
	}
	return checkNetworks(cfg, networks)
}

// checkNetworks refuses networks that this host uses otherwise.
func checkNetworks(cfg config.Config, networks []netip.Prefix) error {
	if cfg.Mesh.Backend == config.BackendNetstack || len(networks) == 0 {
		return nil
	}
	if err := mesh.CheckOverlap(cfg.Mesh.Interface, networks); errors.Is(err, mesh.ErrOverlap) {
		return err
	}
	return nil // what cannot be read now is told by the start
}

// privateNetworks are those that no host of the internet has.
func privateNetworks() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"),
		netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("100.64.0.0/10"),
	}
}

// PublicNetwork reports whether p holds addresses that belong to others on the
// internet, which the hosts of a cluster in it could not reach.
func PublicNetwork(p netip.Prefix) bool {
	for _, private := range privateNetworks() {
		if private.Bits() <= p.Bits() && private.Contains(p.Addr()) {
			return false
		}
	}
	return true
}
