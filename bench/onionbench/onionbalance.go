package onionbench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/skein-project/skein/internal/servertest"
	"github.com/skein-project/skein/internal/tornet"
)

// steadyAge has onionbalance take an instance for dead when it has not seen its
// descriptor for six of its rounds of fetching, as it does by default. Testnet
// mode has one round, shorter than a round is with the pauses in it: instances
// that live drop out at every second look.
const steadyAge = `import sys
from onionbalance.hs_v3 import params
from onionbalance.manager import main
params.INSTANCE_DESCRIPTOR_TOO_OLD_TESTNET = 6 * params.FETCH_DESCRIPTOR_FREQUENCY_TESTNET
sys.exit(main())`

// balance is onionbalance with a tor of its own, as its manual has it: a single
// frontend that fetches the hosts' descriptors from the directories.
type balance struct {
	version string
	tor     *tornet.Tor
	server  *servertest.Server
}

func startBalance(ctx context.Context, o *onionStage) (b *balance, err error) {
	dir := filepath.Join(o.dir, "onionbalance")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	b = &balance{version: "of unknown version"}
	if out, err := exec.CommandContext(ctx, "onionbalance", "--version").Output(); err == nil {
		b.version = strings.TrimSpace(strings.TrimPrefix(string(out), "onionbalance"))
	}
	if b.tor, err = o.n.Launch("frontend"); err != nil {
		return nil, err
	}
	if err := b.tor.AwaitBootstrap(ctx); err != nil {
		return nil, err
	}
	key := filepath.Join(dir, "hs_ed25519_secret_key")
	if err := os.WriteFile(key, o.peer.File(), 0o600); err != nil {
		return nil, err
	}
	var config strings.Builder
	config.WriteString("services:\n- key: " + key + "\n  instances:\n")
	for name, h := range o.hosts {
		config.WriteString("  - address: " + h.Address.String() + "\n    name: " + name + "\n")
	}
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
		return nil, err
	}
	python, err := interpreter("onionbalance")
	if err != nil {
		return nil, err
	}
	// In testnet mode it looks thirty times as often as it does elsewhere.
	b.server, err = servertest.Start(dir, syscall.SIGKILL, nil, python, "-c", steadyAge, "--is-testnet", "-v", "info", "-s", b.tor.ControlSocket(), "-c", file)
	if err != nil {
		return nil, fmt.Errorf("start onionbalance: %w", err)
	}
	return b, nil
}

// interpreter is the program that the first line of a script names.
func interpreter(script string) (string, error) {
	path, err := exec.LookPath(script)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	words := strings.Fields(strings.TrimPrefix(first, "#!"))
	if !strings.HasPrefix(first, "#!") || len(words) != 1 {
		return "", fmt.Errorf("%s does not name its interpreter alone: %q", path, first)
	}
	return words[0], nil
}

// kill ends it and its tor as a loss of power does.
func (b *balance) kill() {
	_ = b.server.Stop()
	b.tor.Kill()
}
