package tor

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/skein-project/skein/internal/durable"
)

// maxSocketPath is what fits in the address of a unix socket.
const maxSocketPath = 100

// Limits of introduction points per service that tor takes.
const (
	MinIntroPoints     = 3
	MaxIntroPoints     = 10
	defaultIntroPoints = 3
)

// Port is one port of an onion service.
type Port struct {
	Virtual int
	Target  string // "unix:/path" or "127.0.0.1:8080"
}

// Service is one onion service of the own tor.
type Service struct {
	// Dir holds its keys; tor makes them when there are none.
	Dir   string
	Ports []Port
	// Masters are the onion addresses of which this service is an
	// Onionbalance instance; none: it is a plain service.
	Masters []string
	// IntroPoints is how many introduction points it keeps; optional.
	IntroPoints int
	// Clients are restricted discovery's public keys, base32, by name.
	Clients map[string]string
	// CircuitID makes tor begin each connection with a haproxy line that names
	// its circuit.
	CircuitID bool
	// MaxStreams is how many streams one circuit has at once; tor closes a
	// circuit that wants more. 0: any number.
	MaxStreams int
}

var (
	onionAddress = regexp.MustCompile(`^[a-z2-7]{56}\.onion$`)
	clientName   = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)
	clientKey    = regexp.MustCompile(`^[A-Z2-7]{52}$`)
)

func (s *Service) check() error {
	if err := checkPath("directory of the onion service", s.Dir); err != nil {
		return err
	}
	if len(s.Ports) == 0 {
		return fmt.Errorf("onion service %s has no port", s.Dir)
	}
	for _, p := range s.Ports {
		if p.Virtual < 1 || p.Virtual > 65535 {
			return fmt.Errorf("onion service %s: port %d is not in 1-65535", s.Dir, p.Virtual)
		}
		path, unix := strings.CutPrefix(p.Target, "unix:")
		if !unix {
			path = "/" + p.Target
		}
		if err := checkPath("target of the onion service", path); err != nil {
			return err
		}
		if unix && len(path) > maxSocketPath {
			return fmt.Errorf("target %s of the onion service is longer than %d bytes", path, maxSocketPath)
		}
	}
	if s.MaxStreams < 0 || s.MaxStreams > 65535 {
		return fmt.Errorf("onion service %s: %d streams are not in 0-65535", s.Dir, s.MaxStreams)
	}
	for _, m := range s.Masters {
		if !onionAddress.MatchString(m) {
			return fmt.Errorf("master address %q is not 56 characters and .onion", m)
		}
	}
	if s.IntroPoints != 0 && (s.IntroPoints < MinIntroPoints || s.IntroPoints > MaxIntroPoints) {
		return fmt.Errorf("onion service %s: %d introduction points are not in %d-%d", s.Dir, s.IntroPoints, MinIntroPoints, MaxIntroPoints)
	}
	for name, key := range s.Clients {
		if !clientName.MatchString(name) || !clientKey.MatchString(key) {
			return fmt.Errorf("client %q of onion service %s: the name is not a-z, 0-9 and '-' or the key is not 52 characters of base32", name, s.Dir)
		}
	}
	return nil
}

// checkPath refuses what would end or change a line of a torrc.
func checkPath(what, path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%s %q is no absolute path", what, path)
	}
	if i := strings.IndexFunc(path, func(r rune) bool { return r <= ' ' || r == '#' || r == '"' || r == '\\' || r == 0x7f }); i >= 0 {
		return fmt.Errorf("%s %q has a character that a torrc cannot hold", what, path)
	}
	return nil
}

// lines are the service's part of a torrc. What tor rejects at its door costs
// no introduction: the defence against floods is always on.
func (s *Service) lines() []string {
	lines := []string{"HiddenServiceDir " + s.Dir, "HiddenServiceVersion 3"}
	for _, p := range s.Ports {
		lines = append(lines, "HiddenServicePort "+strconv.Itoa(p.Virtual)+" "+p.Target)
	}
	points := s.IntroPoints
	if points == 0 {
		points = defaultIntroPoints
	}
	lines = append(lines, "HiddenServiceNumIntroductionPoints "+strconv.Itoa(points), "HiddenServiceEnableIntroDoSDefense 1")
	if len(s.Masters) > 0 {
		lines = append(lines, "HiddenServiceOnionBalanceInstance 1")
	}
	if s.MaxStreams > 0 {
		lines = append(lines, "HiddenServiceMaxStreams "+strconv.Itoa(s.MaxStreams), "HiddenServiceMaxStreamsCloseCircuit 1")
	}
	if s.CircuitID {
		lines = append(lines, "HiddenServiceExportCircuitID haproxy")
	}
	return lines
}

// prepare makes what must be there before tor starts: without its ob_config an
// instance refuses to start, and a directory that others can read as well.
func (s *Service) prepare() error {
	if err := privateDir(s.Dir); err != nil {
		return err
	}
	if err := s.writeClients(); err != nil {
		return err
	}
	file := filepath.Join(s.Dir, "ob_config")
	if len(s.Masters) == 0 {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("onion service: %w", err)
		}
		return nil
	}
	var text strings.Builder
	for _, m := range s.Masters {
		text.WriteString("MasterOnionAddress " + m + "\n")
	}
	if err := replaceFile(file, text.String()); err != nil {
		return fmt.Errorf("onion service: %w", err)
	}
	return nil
}

// writeClients makes the directory of authorized clients say what the service
// does: tor reads each file of it that ends with .auth.
func (s *Service) writeClients() error {
	dir := filepath.Join(s.Dir, "authorized_clients")
	old, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("onion service: %w", err)
	}
	for _, file := range old {
		name, auth := strings.CutSuffix(file.Name(), ".auth")
		if _, ok := s.Clients[name]; auth && !ok {
			if err := os.Remove(filepath.Join(dir, file.Name())); err != nil {
				return fmt.Errorf("onion service: %w", err)
			}
		}
	}
	if len(s.Clients) == 0 {
		return nil
	}
	if err := privateDir(dir); err != nil {
		return err
	}
	for name, key := range s.Clients {
		if err := replaceFile(filepath.Join(dir, name+".auth"), "descriptor:x25519:"+key+"\n"); err != nil {
			return fmt.Errorf("onion service: %w", err)
		}
	}
	return nil
}

// Address reads the address that tor gave the service. There is none before
// tor started for the first time: os.ErrNotExist.
func (s *Service) Address() (string, error) {
	text, err := os.ReadFile(filepath.Join(s.Dir, "hostname"))
	if err != nil {
		return "", fmt.Errorf("address of the onion service: %w", err)
	}
	address := string(bytes.TrimSpace(text))
	if !onionAddress.MatchString(address) {
		return "", fmt.Errorf("address of the onion service: %s/hostname holds no onion address", s.Dir)
	}
	return address, nil
}

// privateDir makes a directory that only its owner may enter, or refuses one
// that is there and is not: tor would refuse it as well, with less to say.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("directory of tor: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("directory of tor: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("directory of tor: %s has mode %04o, others could read keys (hint: chmod 700 %s)", dir, info.Mode().Perm(), dir)
	}
	return nil
}

// replaceFile writes a file unless it says so already.
func replaceFile(name, text string) error {
	if old, err := os.ReadFile(name); err == nil && string(old) == text {
		return nil
	}
	return durable.WriteFile(name, []byte(text), 0o600)
}

// torrc is the whole configuration of the own tor.
func (o *Options) torrc() string {
	lines := []string{
		"# Made by skein at every start of tor: what is changed here is lost.",
		"DataDirectory " + o.dataDir(),
		"ControlPort unix:" + o.controlSocket(),
		"CookieAuthentication 1",
		"SocksPort unix:" + o.socksSocket() + " IsolateSOCKSAuth ExtendedErrors",
		"Log notice stdout",
		"ClientOnly 1",
		"__OwningControllerProcess " + strconv.Itoa(os.Getpid()),
	}
	for i := range o.Services {
		lines = append(lines, o.Services[i].lines()...)
	}
	return strings.Join(append(lines, o.Torrc...), "\n") + "\n"
}

func (o *Options) dataDir() string       { return filepath.Join(o.Dir, "data") }
func (o *Options) controlSocket() string { return filepath.Join(o.Dir, "control") }
func (o *Options) socksSocket() string   { return filepath.Join(o.Dir, "socks") }
func (o *Options) torrcFile() string     { return filepath.Join(o.Dir, "torrc") }
func (o *Options) emptyFile() string     { return filepath.Join(o.Dir, "defaults") }
func (o *Options) cookieFile() string    { return filepath.Join(o.dataDir(), "control_auth_cookie") }

// prepare makes the files and directories that tor starts with. Sockets that a
// killed tor left are removed: what answers later is the new one.
func (o *Options) prepare() error {
	for _, dir := range []string{o.Dir, o.dataDir()} {
		if err := privateDir(dir); err != nil {
			return err
		}
	}
	for _, file := range []string{o.controlSocket(), o.socksSocket(), o.cookieFile()} {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("prepare tor: %w", err)
		}
	}
	return o.prepareServices()
}

// prepareServices makes what tor reads at its start and with a reload.
func (o *Options) prepareServices() error {
	for i := range o.Services {
		if err := o.Services[i].prepare(); err != nil {
			return err
		}
	}
	for file, text := range map[string]string{o.torrcFile(): o.torrc(), o.emptyFile(): ""} {
		if err := replaceFile(file, text); err != nil {
			return fmt.Errorf("prepare tor: %w", err)
		}
	}
	return nil
}
