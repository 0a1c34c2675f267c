package tornet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// reserved is a port that the system gave out and that is held until the tor
// that uses it starts.
type reserved struct {
	port int
	hold net.Listener
}

func reserve() (reserved, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return reserved{}, fmt.Errorf("reserve a port: %w", err)
	}
	return reserved{port: l.Addr().(*net.TCPAddr).Port, hold: l}, nil
}

// authority is what others must know of a directory authority.
type authority struct {
	name        string
	or, dir     reserved
	fingerprint string // RSA, 40 digits
	v3ident     string
}

func (a *authority) line() string {
	return fmt.Sprintf("DirAuthority %s orport=%d no-v2 v3ident=%s 127.0.0.1:%d %s", a.name, a.or.port, a.v3ident, a.dir.port, a.fingerprint)
}

// lines is an authority's own part of its torrc. Voting delays are the
// least that tor takes; of the few relays only some are responsible for a
// descriptor unless Options want more, else errors in the choice would pass.
func (a *authority) lines(o Options) []string {
	return []string{
		"Nickname " + a.name,
		"SocksPort 0",
		"ORPort 127.0.0.1:" + strconv.Itoa(a.or.port),
		"DirPort 127.0.0.1:" + strconv.Itoa(a.dir.port),
		"AuthoritativeDirectory 1",
		"V3AuthoritativeDirectory 1",
		"ContactInfo nobody@example.org",
		"ExitPolicy reject *:*",
		"V3AuthVotingInterval " + strconv.Itoa(int(o.Interval/time.Second)),
		"V3AuthVoteDelay 2",
		"V3AuthDistDelay 2",
		"TestingV3AuthInitialVotingInterval 5",
		"TestingV3AuthInitialVoteDelay 2",
		"TestingV3AuthInitialDistDelay 2",
		fmt.Sprintf("ConsensusParams hsdir_spread_store=%d hsdir_spread_fetch=%d", o.SpreadStore, o.SpreadFetch),
	}
}

func relayLines(name string, port int) []string {
	return []string{"Nickname " + name, "SocksPort 0", "ORPort 127.0.0.1:" + strconv.Itoa(port), "ExitRelay 0"}
}

// commonLines is how every torrc begins.
func commonLines(auths []*authority) []string {
	lines := []string{
		"TestingTorNetwork 1",
		"Address 127.0.0.1",
		"AssumeReachable 1",
		"PathsNeededToBuildCircuits 0.67",
		"TestingDirAuthVoteExit *",
		"TestingDirAuthVoteHSDir *",
		"TestingDirAuthVoteGuard *",
		"V3AuthNIntervalsValid 2",
		"ShutdownWaitLength 0",
		"CircuitBuildTimeout 10",
		"LearnCircuitBuildTimeout 0",
		"SafeLogging 0",
	}
	for _, a := range auths {
		lines = append(lines, a.line())
	}
	return lines
}

// makeAuthorities makes keys and certificates, for all authorities at once.
func (n *Network) makeAuthorities(ctx context.Context) ([]*authority, error) {
	made := make([]*authority, authorities)
	errs := make([]error, authorities)
	var wg sync.WaitGroup
	for i := range made {
		wg.Go(func() { made[i], errs[i] = n.makeAuthority(ctx, "auth"+strconv.Itoa(i)) })
	}
	wg.Wait()
	return made, errors.Join(errs...)
}

func (n *Network) makeAuthority(ctx context.Context, name string) (a *authority, err error) {
	a = &authority{name: name}
	if a.or, err = reserve(); err != nil {
		return nil, err
	}
	if a.dir, err = reserve(); err != nil {
		return nil, err
	}
	data := filepath.Join(n.dir, name)
	keys := filepath.Join(data, "keys")
	if err := os.MkdirAll(keys, 0o700); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	gencert := exec.CommandContext(ctx, "tor-gencert", "--create-identity-key", "--passphrase-fd", "0",
		"-i", "authority_identity_key", "-s", "authority_signing_key", "-c", "authority_certificate",
		"-m", "12", "-a", "127.0.0.1:"+strconv.Itoa(a.dir.port))
	gencert.Dir = keys
	gencert.Stdin = strings.NewReader("a test network\n")
	if out, err := gencert.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: tor-gencert: %w: %s", name, err, bytes.TrimSpace(out))
	}
	cert, err := os.ReadFile(filepath.Join(keys, "authority_certificate"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if a.v3ident = field(string(cert), "fingerprint "); len(a.v3ident) != 40 {
		return nil, fmt.Errorf("%s: certificate without fingerprint", name)
	}
	if a.fingerprint, err = listFingerprint(ctx, data, a); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return a, nil
}

// listFingerprint makes tor create the authority's relay keys and say their
// fingerprint. It wants some authority to be named, any will do.
func listFingerprint(ctx context.Context, data string, a *authority) (string, error) {
	empty := filepath.Join(data, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, "tor", "--quiet", "-f", empty, "--defaults-torrc", empty, "--list-fingerprint",
		"--DataDirectory", data, "--ORPort", "127.0.0.1:"+strconv.Itoa(a.or.port), "--Nickname", a.name,
		"--DirAuthority", "dummy orport=1 no-v2 v3ident="+a.v3ident+" 127.0.0.1:1 "+strings.Repeat("0", 40)).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("tor --list-fingerprint: %w: %s", err, bytes.TrimSpace(out))
	}
	f := strings.ReplaceAll(field(string(out), a.name+" "), " ", "")
	if len(f) != 40 {
		return "", fmt.Errorf("tor --list-fingerprint said %q", bytes.TrimSpace(out))
	}
	return f, nil
}

// field returns the rest of the first line that begins with a prefix.
func field(text, prefix string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// checkPrograms refuses a tor whose options these torrcs do not know.
func checkPrograms(ctx context.Context) error {
	if _, err := exec.LookPath("tor-gencert"); err != nil {
		return fmt.Errorf("private tor network: %w (hint: make deps)", err)
	}
	out, err := exec.CommandContext(ctx, "tor", "--version").Output()
	if err != nil {
		return fmt.Errorf("private tor network: tor --version: %w (hint: make deps)", err)
	}
	version := strings.TrimSuffix(field(string(out), "Tor version "), ".")
	var major, minor, micro int
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &micro); err != nil {
		return fmt.Errorf("private tor network: version of tor %q: %w", version, err)
	}
	if major == 0 && (minor < 4 || minor == 4 && micro < 7) {
		return fmt.Errorf("private tor network: tor %s is too old, 0.4.7 is needed", version)
	}
	return nil
}
