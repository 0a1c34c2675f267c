package doctor

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/mesh/device"
	"github.com/skein-project/skein/mesh/hostnet"
)

// Preflight reports, before an invite is spent, why the mesh could not run on
// this host: missing rights, missing kernel support, or networks that are in use
// for something else. Networks that are not known yet are left out.
func Preflight(cfg config.Config, networks ...netip.Prefix) error {
	want := cfg.Mesh.Backend
	if want == config.BackendNetstack {
		return nil
	}
	if has, err := hasNetAdmin(); err == nil && !has {
		return fmt.Errorf("mesh.backend %s: %w", want, device.ErrPermission)
	} else if err != nil {
		return nil // not known on this system; the start will report it
	}
	kernel := kernelWireGuard()
	if want == config.BackendKernel && kernel != nil {
		return fmt.Errorf("mesh.backend %s: %w: %w", want, device.ErrUnsupported, kernel)
	}
	if want == config.BackendTUN || kernel != nil {
		file, err := os.OpenFile(tunDevice, os.O_RDWR, 0)
		if err != nil {
			return fmt.Errorf("mesh.backend %s: %w", want, err)
		}
		_ = file.Close() // nothing was written
	}
	return CheckNetworks(cfg, networks)
}

// CheckNetworks refuses networks that this host uses for something else.
func CheckNetworks(cfg config.Config, networks []netip.Prefix) error {
	if cfg.Mesh.Backend == config.BackendNetstack || len(networks) == 0 {
		return nil
	}
	if err := hostnet.CheckOverlap(cfg.Mesh.Interface, networks); errors.Is(err, device.ErrOverlap) {
		return err
	}
	return nil // the start reports what cannot be read now
}
