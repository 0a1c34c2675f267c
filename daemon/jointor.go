package daemon

import (
	"context"
	"crypto/ecdh"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/publisher/descriptor"
	"github.com/skein-project/skein/tor"
)

const (
	// torReadyTime bounds the start of tor before a join, torJoinTime all of the
	// join.
	torReadyTime = 2 * time.Minute
	torJoinTime  = 20 * time.Minute
	// maxTokenMasters of the cluster's addresses stand in a token.
	maxTokenMasters = 3
	masterPort      = 80
)

// joinOverTor starts a tor for the time of a join, without any service: this
// host must not be reached before it is a member. key opens the descriptor of
// the sponsor's own onion service.
func joinOverTor(ctx context.Context, cfg config.Config, log zerolog.Logger, key *ecdh.PrivateKey, o *join.Options) (stop func(), err error) {
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
	ready, done := context.WithTimeout(ctx, torReadyTime)
	defer done()
	if err := t.AwaitReady(ready); err != nil {
		stop()
		return nil, fmt.Errorf("join over tor: %w", err)
	}
	var tries atomic.Int64
	o.DialOnion = func(ctx context.Context, addr string) (net.Conn, error) {
		// Each try has circuits of its own.
		return t.DialPrivate(ctx, "join "+strconv.FormatInt(tries.Add(1), 10), addr, key)
	}
	o.Renew = func(ctx context.Context) {
		if err := t.NewIdentity(ctx); err != nil {
			log.Debug().Err(err).Msg("tor was not told to take other circuits")
		}
	}
	return stop, nil
}

// keepDoor makes what passes joins on that come in through a master address.
func (n *node) keepDoor() error {
	if n.tor == nil {
		return nil
	}
	var err error
	n.door, err = join.NewDoorkeeper(join.DoorOptions{
		Secret: n.id.ClusterSecret(), Sponsors: n.sponsors, Logger: n.log, Registerer: n.reg,
		Dial: func(ctx context.Context, to cluster.NodeID) (net.Conn, error) {
			return n.coord.Dial(ctx, to, join.ProtoDoor)
		},
	})
	return err
}

// sponsors are the members that may admit others.
func (n *node) sponsors() []cluster.NodeID {
	var out []cluster.NodeID
	for _, m := range n.memberList() {
		if slices.Contains(m.Caps, member.CapSponsor) {
			out = append(out, m.Node)
		}
	}
	return out
}

// joinAddrs is where newcomers reach this host's join listener.
func (n *node) joinAddrs(via api.TokenVia) ([]string, error) {
	switch via {
	case api.ViaOnion:
		own := n.onionJoinAddr()
		if own == "" {
			return nil, api.Errorf(api.CodeConflict, "this host has no onion service of its own").WithHint("set tor.enabled and start the daemon again")
		}
		return []string{own}, nil
	case api.ViaMaster:
		masters := n.masterJoinAddrs()
		if len(masters) == 0 {
			return nil, api.Errorf(api.CodeConflict, "the cluster serves no onion address that is open to all").WithHint("see `skein token create --via onion`")
		}
		return masters, nil
	}
	direct, err := n.directJoinAddrs()
	if own := n.onionJoinAddr(); own != "" {
		return append(direct[:min(len(direct), maxDirectAddrs)], own), nil
	}
	return direct, err
}

// maxDirectAddrs leaves room for the onion address in a token.
const maxDirectAddrs = 7

func (n *node) onionJoinAddr() string {
	own := n.tor.address()
	if own == "" {
		return ""
	}
	return net.JoinHostPort(own, strconv.Itoa(onionJoinPort))
}

// masterJoinAddrs are the cluster's onion addresses that ask nobody for a key.
func (n *node) masterJoinAddrs() []string {
	var out []string
	n.events.View(func(s *state.State) {
		for _, o := range s.Onions() {
			if len(o.Clients) == 0 && len(out) < maxTokenMasters {
				out = append(out, join.Door(descriptor.Address(o.Key).String(), masterPort))
			}
		}
	})
	return out
}

func (n *node) directJoinAddrs() ([]string, error) {
	if !n.cfg.Join.Listen.Addr().IsUnspecified() {
		return []string{n.cfg.Join.Listen.String()}, nil
	}
	about, err := aboutOf(n.conf(), n.meshPrefixes()...)
	if err != nil {
		return nil, err
	}
	var out []string
	seen := map[netip.Addr]bool{}
	for _, e := range about.Endpoints {
		if !seen[e.Addr()] {
			seen[e.Addr()] = true
			out = append(out, netip.AddrPortFrom(e.Addr(), n.cfg.Join.Listen.Port()).String())
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no address of this host is known: set mesh.advertise")
	}
	return out, nil
}
