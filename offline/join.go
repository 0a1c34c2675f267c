package offline

import (
	"context"
	"crypto/ecdh"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/join/token"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/discover"
	"github.com/skein-project/skein/doctor"
	"github.com/skein-project/skein/membership/deviceplan"
	"github.com/skein-project/skein/tor"
)

// Limits of a join.
const (
	// joinTime bounds the whole exchange with a sponsor, OverTorTime all of a join
	// over Tor, of which readyTime is for the start of tor.
	joinTime    = 2 * time.Minute
	OverTorTime = 20 * time.Minute
	readyTime   = 2 * time.Minute
)

// checkPorts finds out, before an invite is spent, whether the daemon could listen
// on its ports.
func checkPorts(ctx context.Context, cfg config.Config) error {
	var lc net.ListenConfig
	packets, err := lc.ListenPacket(ctx, "udp", cfg.Mesh.Listen.String())
	if err != nil {
		return fmt.Errorf("mesh.listen: %w", err)
	}
	_ = packets.Close() // only probed
	streams, err := lc.Listen(ctx, "tcp", cfg.Join.Listen.String())
	if err != nil {
		return fmt.Errorf("join.listen: %w", err)
	}
	_ = streams.Close() // only probed
	return nil
}

// JoinOptions say how a host joins.
type JoinOptions struct {
	Token string // its file, "-" for Stdin
	Stdin io.Reader
	// Patience is for how long a sponsor that does not answer is asked, tor's start
	// not counted; 0: three times, 10 s each, over tor five times.
	Patience time.Duration
	Logger   zerolog.Logger
}

// Join makes this host a member. The caller holds the lock of the state directory.
// On a member it does nothing and reads no token, so that the flag may stay in a
// unit file. What would keep the daemon from running is found before the invite is
// spent.
func Join(ctx context.Context, cfg config.Config, jo JoinOptions) error {
	if _, _, err := join.Load(cfg.StateDir); !errors.Is(err, join.ErrNotInitialised) {
		return err
	}
	if err := checkPorts(ctx, cfg); err != nil {
		return err
	}
	tok, err := token.Read(jo.Token, jo.Stdin)
	if errors.Is(err, fs.ErrNotExist) {
		return &hinted{error: err, hint: "--join @FILE wants the file of a token: make one with `skein token create --out FILE` on a sponsor, and copy it here"}
	}
	if err != nil {
		return err
	}
	networks := []netip.Prefix{member.ULAPrefix(tok.Cluster)}
	if tok.Network.IsValid() {
		networks = append(networks, tok.Network)
	}
	if err := doctor.Preflight(cfg, networks...); err != nil {
		return err
	}
	about, err := About(cfg.Fixed, cfg.Live)
	if err != nil {
		return err
	}
	o := join.Options{Node: chooseName(cfg.StateDir, cfg.Node.Name), About: about, Patience: jo.Patience, Logger: jo.Logger}
	if len(cfg.Join.Discover) > 0 {
		o.More = found(cfg, jo.Logger)
	}
	limit := joinTime
	if some, _ := tok.NeedsTor(); some && cfg.Tor.Enabled {
		limit = OverTorTime
		stop, err := overTor(ctx, cfg, jo.Logger, tok.OnionClient(), &o)
		if err != nil {
			return err
		}
		defer stop()
	}
	ctx, cancel := context.WithTimeout(ctx, max(limit, jo.Patience))
	defer cancel()
	return join.Join(ctx, tok, cfg.StateDir, o)
}

// overTor starts a tor for the duration of a join, without any service: this host
// must not be reachable before it is a member. key opens the descriptor of the
// sponsor's own onion service.
func overTor(ctx context.Context, cfg config.Config, log zerolog.Logger, key *ecdh.PrivateKey, o *join.Options) (stop func(), err error) {
	to := tor.Options{Program: cfg.Tor.Program, Dir: filepath.Join(cfg.StateDir, "tor"), Torrc: cfg.Tor.Torrc, Log: log}
	if c := cfg.Tor; c.Control != "" {
		to = tor.Options{Attach: &tor.Attach{Control: c.Control, Socks: c.Socks, Cookie: c.Cookie}, Log: log}
	}
	t, err := tor.New(to)
	if err != nil {
		return nil, err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		if err := t.Run(run); err != nil {
			log.Warn().Err(err).Msg("tor ended")
		}
	})
	stop = func() {
		cancel()
		running.Wait()
	}
	ready, done := context.WithTimeout(ctx, readyTime)
	defer done()
	if err := t.AwaitReady(ready); err != nil {
		stop()
		return nil, fmt.Errorf("join over tor: %w", err)
	}
	var tries atomic.Int64
	o.DialOnion = func(ctx context.Context, addr string) (net.Conn, error) {
		// Each try uses its own circuits.
		return t.DialPrivate(ctx, "join "+strconv.FormatInt(tries.Add(1), 10), addr, key)
	}
	o.Renew = func(ctx context.Context) {
		if err := t.NewIdentity(ctx); err != nil {
			log.Debug().Err(err).Msg("tor not asked for other circuits")
		}
	}
	return stop, nil
}

const (
	// foundWidth is how many addresses that were found are tried at once, foundTime how
	// long each has to take a connection.
	foundWidth = 10
	foundTime  = 2 * time.Second
)

// found looks for addresses beyond those of the token, and returns those where somebody takes
// connections: of very many few do, and the others would take long to ask in turn.
func found(cfg config.Config, log zerolog.Logger) func(context.Context) []string {
	finder := discover.New(discover.Options{
		Sources: cfg.Join.Discover, Logger: log,
		Own: func(at netip.AddrPort) bool { return deviceplan.OwnEndpoint(at, cfg.Join.Listen.Port()) },
	})
	return func(ctx context.Context) []string {
		list := finder.Find(ctx)
		there := make([]bool, len(list))
		gate := make(chan struct{}, foundWidth)
		var trying sync.WaitGroup
		for i, at := range list {
			gate <- struct{}{}
			trying.Go(func() {
				defer func() { <-gate }()
				d := net.Dialer{Timeout: foundTime}
				if conn, err := d.DialContext(ctx, "tcp", at.String()); err == nil {
					there[i] = true
					_ = conn.Close() // only probed
				}
			})
		}
		trying.Wait()
		var out []string
		for i, at := range list {
			if there[i] {
				out = append(out, at.String())
			}
		}
		return out
	}
}
