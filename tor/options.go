package tor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Deadlines and bounds.
const (
	commandTime  = 10 * time.Second // of one command
	bulkTime     = 60 * time.Second // of one that answers with megabytes
	connectTime  = 30 * time.Second // from the start of tor to an authenticated connection
	pingTime     = 15 * time.Second // between two looks whether tor still answers
	stopTime     = 5 * time.Second  // from SIGTERM to SIGKILL
	minBackoff   = time.Second
	maxBackoff   = time.Minute
	steadyTime   = time.Minute // a tor that lived so long starts anew without backoff
	faultBackoff = time.Minute // when only someone's hand can help

	eventQueue = 256
	maxLine    = 256 << 10
	maxReply   = 64 << 20
)

// Attach names a tor that someone else runs.
type Attach struct {
	Control string // "unix:/path" or "127.0.0.1:9051"
	Socks   string // likewise
	// Cookie is where its authentication cookie lies; without it and without
	// a password tor must ask for nothing.
	Cookie   string
	Password string `json:"-"`
}

// String leaves the password out, with every verb of fmt.
func (a Attach) String() string { return "attached to " + a.Control }

// GoString is String.
func (a Attach) GoString() string { return a.String() }

// Options are what a Tor is made of.
type Options struct {
	// Program is the tor program; empty: tor on the path.
	Program string
	// Dir is the own tor's directory, its sockets and its torrc.
	Dir string
	// Services are the onion services of the own tor.
	Services []Service
	// Torrc are further lines of its configuration.
	Torrc []string
	// Watchdog is the program, with its first arguments, that runs Watchdog
	// beside the own tor; nil: none.
	Watchdog []string
	// Silence is how long the daemon may not answer before its tor is ended; at
	// least, and without it, 3 s.
	Silence time.Duration
	// Attach, if set, replaces all of the above: no process is started and no
	// service configured.
	Attach *Attach

	Log     zerolog.Logger
	Metrics prometheus.Registerer // optional
	// Jitter is a number in [0, 1) at each call; optional, random.
	Jitter func() float64

	// For tests: dial replaces the connection to the control port, limit the
	// deadline of every command.
	dial  func(context.Context) (net.Conn, error)
	limit time.Duration
	// Likewise, how long Beat may fail to come.
	stuck time.Duration
}

func (o *Options) check() error {
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	if o.Metrics == nil {
		o.Metrics = prometheus.NewRegistry()
	}
	if o.Attach != nil {
		if len(o.Services) > 0 || len(o.Torrc) > 0 {
			return errors.New("tor: an attached tor takes no services and no torrc lines (hint: configure them there)")
		}
		for _, a := range []string{o.Attach.Control, o.Attach.Socks} {
			if _, _, err := splitAddress(a); err != nil {
				return fmt.Errorf("tor: %w", err)
			}
		}
		return nil
	}
	if o.Program == "" {
		o.Program = "tor"
	}
	if err := checkPath("directory of tor", o.Dir); err != nil {
		return fmt.Errorf("tor: %w", err)
	}
	if path := o.controlSocket(); len(path) > maxSocketPath {
		return fmt.Errorf("tor: path %s of the control socket is longer than %d bytes", path, maxSocketPath)
	}
	seen := map[string]bool{}
	for i := range o.Services {
		if err := o.Services[i].check(); err != nil {
			return fmt.Errorf("tor: %w", err)
		}
		if dir := o.Services[i].Dir; seen[dir] {
			return fmt.Errorf("tor: two onion services share the directory %s", dir)
		}
		seen[o.Services[i].Dir] = true
	}
	for _, line := range o.Torrc {
		if strings.ContainsAny(line, "\r\n\x00") {
			return fmt.Errorf("tor: torrc line %q is more than one", line)
		}
	}
	return nil
}

// splitAddress reads an address as tor writes it.
func splitAddress(a string) (network, address string, err error) {
	if path, ok := strings.CutPrefix(a, "unix:"); ok {
		if err := checkPath("socket of tor", path); err != nil {
			return "", "", err
		}
		return "unix", path, nil
	}
	if _, _, err := net.SplitHostPort(a); err != nil {
		return "", "", fmt.Errorf("address %q of tor is neither unix:/path nor host:port", a)
	}
	return "tcp", a, nil
}

func (o *Options) controlAddress() string {
	if o.Attach != nil {
		return o.Attach.Control
	}
	return "unix:" + o.controlSocket()
}

func (o *Options) socksAddress() string {
	if o.Attach != nil {
		return o.Attach.Socks
	}
	return "unix:" + o.socksSocket()
}

func (o *Options) dialControl(ctx context.Context) (net.Conn, error) {
	if o.dial != nil {
		return o.dial(ctx)
	}
	network, address, err := splitAddress(o.controlAddress())
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}
