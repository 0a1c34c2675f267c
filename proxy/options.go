package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// Modes of a proxy.
const (
	ModeHTTP = "http"
	ModeTCP  = "tcp"
)

// What holds where Options say nothing.
const (
	defaultConnections = 512
	defaultBody        = 64 << 20
	defaultBodyRate    = 500
	defaultHeader      = 64 << 10
	defaultConnect     = 10 * time.Second
	defaultAnswer      = 60 * time.Second
	defaultIdle        = 5 * time.Minute
)

// Dialer connects through tor; only onion targets need it.
type Dialer func(ctx context.Context, address string) (net.Conn, error)

// Options are what a Proxy is made of. Zero means the default, except where
// something must be set.
type Options struct {
	Listen net.Listener // must be set; Run closes it
	// Targets are "host:port", "unix:/path" or "<56 characters>.onion:port", at
	// least one and each once.
	Targets []string
	Mode    string
	// Dial connects to an onion target.
	Dial Dialer
	// Host is what a target sees as Host; empty: the target's own, and for a
	// unix socket the one that the client sent.
	Host string
	// Public are the names under which clients come, and above those under which
	// they come; nil, or while there are none: any. It is asked for each request.
	Public func() []string

	// Join serves the paths below JoinPath in ModeHTTP itself; optional. Its
	// requests are bounded as all are, and never reach a target.
	Join     http.Handler
	JoinPath string

	Connections int // at once
	// PerCircuit is how many of them one circuit has at most; more are closed.
	// 0: any, and connections do not begin with tor's line that names it
	// (HiddenServiceExportCircuitID haproxy).
	PerCircuit int
	Body       int64         // bytes of a request's body
	BodyRate   int64         // bytes per second at which it has to come, after a start
	Header     int           // bytes of a request's header
	Connect    time.Duration // to connect to a target
	Answer     time.Duration // from the end of a request to the header of its answer
	Idle       time.Duration // without a byte in either direction

	Check Check // of a target's health

	Log zerolog.Logger
	// OnHealth gets each change of a target's health, from one goroutine; target
	// is one of Targets, why is nil when it is healthy.
	OnHealth func(target string, healthy bool, why error)
	// OnCut is told of each client that was cut off, with one of the reasons
	// below; it must not block, and may be called at any time.
	OnCut func(why string)
}

// Why a client was cut off.
const (
	CutCircuit = "circuit" // its circuit has enough connections
	CutBody    = "body"    // its body came too slowly
)

var onionHost = regexp.MustCompile(`^[a-z2-7]{56}\.onion$`)

// check completes the options, of which it does not check the targets.
func (o *Options) check() error {
	if o.Listen == nil {
		return errors.New("proxy: no listener")
	}
	if o.Mode != ModeHTTP && o.Mode != ModeTCP {
		return fmt.Errorf("proxy: mode %q is neither %s nor %s", o.Mode, ModeHTTP, ModeTCP)
	}
	if o.Join != nil && !strings.HasPrefix(o.JoinPath, "/") {
		return fmt.Errorf("proxy: path %q of joins does not begin with /", o.JoinPath)
	}
	if o.OnHealth == nil {
		o.OnHealth = func(string, bool, error) {}
	}
	if o.OnCut == nil {
		o.OnCut = func(string) {}
	}
	if strings.ContainsAny(o.Host, " \t\r\n/@") {
		return fmt.Errorf("proxy: %q is no host", o.Host)
	}
	if len(o.Targets) == 0 {
		return errors.New("proxy: no target")
	}
	o.defaults()
	return o.Check.check()
}

func (o *Options) defaults() {
	positive := func(v *time.Duration, standard time.Duration) {
		if *v <= 0 {
			*v = standard
		}
	}
	positive(&o.Connect, defaultConnect)
	positive(&o.Answer, defaultAnswer)
	positive(&o.Idle, defaultIdle)
	o.Check.defaults()
	if o.Connections <= 0 {
		o.Connections = defaultConnections
	}
	if o.Body <= 0 {
		o.Body = defaultBody
	}
	if o.BodyRate <= 0 {
		o.BodyRate = defaultBodyRate
	}
	if o.Header <= 0 {
		o.Header = defaultHeader
	}
}
