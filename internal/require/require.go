package require

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skein-project/skein/internal/tool"
)

// Variable is the environment variable that lists the needs, separated by
// commas, whose absence is a failure.
const Variable = "REQUIRE"

// What is something that a machine may lack.
type What string

// The needs that a test can state.
const (
	// Netns is root, new network and mount namespaces with veth links,
	// /dev/net/tun and the programs ip and nft.
	Netns What = "netns"
	// TUN is root and a usable /dev/net/tun; REQUIRE=netns covers it.
	TUN What = "tun"
	// KernelWG is root and a kernel that has WireGuard.
	KernelWG What = "kernelwg"
	// VM is what the QEMU guests are built with, on an x86-64 Debian.
	VM What = "vm"
	// Rootfs is what a bootable Debian tree is built with; REQUIRE=vm covers it.
	Rootfs What = "rootfs"
	// Systemd is a systemd-analyze that judges unit files offline.
	Systemd What = "systemd"
	// Cgroup is root and a mounted cgroup v2 in which groups can be made.
	Cgroup What = "cgroup"
	// Tor is the programs tor and tor-gencert.
	Tor What = "tor"
	// Deb is what builds the Debian package and judges it, and what a Debian tree
	// to install it in is built with.
	Deb What = "deb"
	// Image is buildah, which builds images and runs them without a daemon; REQUIRE=deb
	// covers it.
	Image What = "image"
	// Man is mandoc and groff, which judge manual pages; REQUIRE=deb covers it.
	Man What = "man"
	// Prom is promtool, which judges rules and metrics of Prometheus, and Prometheus itself.
	Prom What = "prom"
	// Web is the browser Chromium.
	Web What = "web"
	// Postgres is the programs of a PostgreSQL server.
	Postgres What = "postgres"
	// Redis is the program of a Redis server.
	Redis What = "redis"
	// Centrifugo is the program of a Centrifugo server, which make builds.
	Centrifugo What = "centrifugo"
	// Tmux is tmux, a terminal in which programs are typed to.
	Tmux What = "tmux"
)

// covers names, for a need, the other words of REQUIRE that demand it as well.
var covers = map[What]string{TUN: "netns", Rootfs: "vm", Man: "deb", Image: "deb"}

// Need skips the test if the machine lacks w, or fails it if REQUIRE names w.
func Need(t testing.TB, w What) {
	t.Helper()
	need(t, w, os.Getenv(Variable), Missing(w))
}

func need(t testing.TB, w What, list string, missing error) {
	t.Helper()
	if err := validate(list); err != nil {
		t.Fatal(err)
	}
	switch {
	case missing == nil:
	case demanded(w, list):
		t.Fatalf("%s names %s, which is missing here: %v (hint: make deps)", Variable, w, missing)
	default:
		t.Skipf("skipped: no %s here: %v", w, missing)
	}
}

// Missing says why the machine lacks w; nil: it does not.
func Missing(w What) error {
	check, ok := checks()[w]
	if !ok {
		return fmt.Errorf("%q is no need that this package knows", string(w))
	}
	return check()
}

func checks() map[What]func() error {
	return map[What]func() error{
		Netns: func() error {
			if err := errors.Join(root(), programs("ip", "nft"), tun()); err != nil {
				return oneLine(err)
			}
			return netns()
		},
		TUN:      func() error { return oneLine(errors.Join(root(), tun())) },
		KernelWG: func() error { return firstError(root, kernelWG) },
		VM: func() error {
			return firstError(amd64, func() error {
				return programs("qemu-system-x86_64", "apt-get", "dpkg-deb", "depmod", "busybox")
			}, staticBusybox)
		},
		Rootfs: func() error {
			return firstError(root, amd64, func() error { return programs("debootstrap", "mkfs.ext4") })
		},
		Systemd: systemd,
		Cgroup: func() error {
			return firstError(root, func() error {
				_, err := CgroupMount()
				return err
			})
		},
		Tor: func() error { return programs("tor", "tor-gencert") },
		Web: func() error { return programs("chromium") },
		Postgres: func() error {
			if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres"); len(found) > 0 { // where Debian keeps it
				return nil
			}
			return programs("postgres", "initdb")
		},
		Redis: func() error { return programs("redis-server") },
		Centrifugo: func() error {
			_, err := tool.Find("centrifugo")
			return err
		},
		Tmux: func() error { return programs("tmux") },
		Deb: func() error {
			return firstError(root, amd64, func() error {
				return programs("lintian", "dpkg-deb", "debootstrap", "mkfs.ext4", "git", "make")
			})
		},
		Image: func() error {
			return firstError(root, func() error { return programs("buildah", "busybox", "install", "ldd") })
		},
		Man: func() error { return programs("mandoc", "groff") },
		Prom: func() error {
			_, err := Promtool()
			if err == nil {
				_, err = tool.Find("prometheus")
			}
			return err
		},
	}
}

// validate refuses a list with a word that means nothing: a misspelt demand
// would demand nothing.
func validate(list string) error {
	for word := range words(list) {
		if _, ok := checks()[What(word)]; !ok {
			return fmt.Errorf("%s=%s: %q is no need; known are centrifugo, cgroup, deb, image, kernelwg, man, netns, postgres, prom, redis, rootfs, systemd, tmux, tor, tun, vm, web", Variable, list, word)
		}
	}
	return nil
}

func demanded(w What, list string) bool {
	for word := range words(list) {
		if word == string(w) || word == covers[w] {
			return true
		}
	}
	return false
}

func words(list string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for word := range strings.SplitSeq(list, ",") {
			if word = strings.TrimSpace(word); word != "" && !yield(word) {
				return
			}
		}
	}
}

func programs(names ...string) error {
	var missing []string
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("not installed: %s", strings.Join(missing, " "))
	}
	return nil
}

// Promtool returns where promtool is: in the search path, or where scripts/deps puts it,
// since the package that has it would start a server.
func Promtool() (string, error) { return tool.Find("promtool") }

func root() error {
	if os.Geteuid() != 0 {
		return errors.New("not root")
	}
	return nil
}

func systemd() error {
	if err := programs("systemd-analyze"); err != nil {
		return err
	}
	help, err := exec.Command("systemd-analyze", "--help").CombinedOutput()
	if err != nil {
		return fmt.Errorf("systemd-analyze: %w", err)
	}
	if !strings.Contains(string(help), "--offline") {
		return errors.New("systemd-analyze cannot judge a unit offline")
	}
	return nil
}

func firstError(checks ...func() error) error {
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func oneLine(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.ReplaceAll(err.Error(), "\n", ", "))
}
