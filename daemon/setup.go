package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/internal/durable"
)

// DefaultNetwork is the mesh's IPv4 network unless init names another.
const DefaultNetwork = "10.86.0.0/16"

// joinTime bounds the whole exchange with a sponsor.
const joinTime = 2 * time.Minute

// InitOptions describes a new cluster.
type InitOptions struct {
	ClusterName string
	// Network of the mesh; zero means DefaultNetwork.
	Network netip.Prefix
}

// Init makes cfg.StateDir the state directory of the first host of a new
// cluster. It refuses one that belongs to a cluster already.
func Init(cfg config.Config, o InitOptions) error { return advise(initialise(cfg, o)) }

func initialise(cfg config.Config, o InitOptions) error {
	if !o.Network.IsValid() {
		o.Network = netip.MustParsePrefix(DefaultNetwork)
	}
	if err := checkNetworks(cfg, []netip.Prefix{o.Network}); err != nil {
		return &hinted{error: err, hint: "the network is fixed for ever: choose one that no host uses, `skein init --network 10.N.0.0/16`"}
	}
	lock, err := lockState(cfg.StateDir)
	if err != nil {
		return err
	}
	defer lock.Close()
	about, err := aboutOf(cfg)
	if err != nil {
		return err
	}
	return join.Init(cfg.StateDir, join.InitOptions{
		Node: cfg.Node.Name, ClusterName: o.ClusterName, Network: o.Network, About: about,
	})
}

// lockState creates the state directory and takes its lock.
func lockState(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	lock, err := durable.Lock(dir)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	return lock, nil
}

// checkPorts finds out before a join spends an invite whether the daemon could
// listen where it is told to.
func checkPorts(ctx context.Context, cfg config.Config) error {
	var lc net.ListenConfig
	packets, err := lc.ListenPacket(ctx, "udp", cfg.Mesh.Listen.String())
	if err != nil {
		return errNoPort("mesh.listen", err)
	}
	_ = packets.Close() // only probed
	streams, err := lc.Listen(ctx, "tcp", cfg.Join.Listen.String())
	if err != nil {
		return errNoPort("join.listen", err)
	}
	_ = streams.Close() // only probed
	return nil
}

// enter makes this host a member by the token in file tokenPath, "-" for
// stdin. On a member it does nothing and looks at no token, so that the flag
// may stay in a unit file. What would keep the daemon from running is found
// before the invite is spent.
func enter(ctx context.Context, cfg config.Config, tokenPath string, stdin io.Reader, log zerolog.Logger) error {
	if _, _, err := join.Load(cfg.StateDir); !errors.Is(err, join.ErrNotInitialised) {
		return err
	}
	if err := checkPorts(ctx, cfg); err != nil {
		return err
	}
	token, err := join.ReadToken(tokenPath, stdin)
	if err != nil {
		return err
	}
	networks := []netip.Prefix{member.ULAPrefix(token.Cluster)}
	if token.Network.IsValid() {
		networks = append(networks, token.Network)
	}
	if err := checkMesh(cfg, networks...); err != nil {
		return err
	}
	about, err := aboutOf(cfg)
	if err != nil {
		return err
	}
	o := join.Options{Node: cfg.Node.Name, About: about, Logger: log}
	limit := joinTime
	if some, _ := token.NeedsTor(); some && cfg.Tor.Enabled {
		limit = torJoinTime
		stop, err := joinOverTor(ctx, cfg, log, token.OnionClient(), &o)
		if err != nil {
			return err
		}
		defer stop()
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return join.Join(ctx, token, cfg.StateDir, o)
}

// localEndpoints lists where listen is reachable: itself if it names an
// address, else the addresses of this machine's interfaces, public before
// private before loopback, without those inside one of the mesh's networks.
func localEndpoints(listen netip.AddrPort, own []netip.Prefix) ([]netip.AddrPort, error) {
	if !listen.Addr().IsUnspecified() {
		return []netip.AddrPort{listen}, nil
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list addresses of this machine: %w", err)
	}
	var classes [3][]netip.AddrPort
	for _, a := range addrs {
		ipnet, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		addr, ok := netip.AddrFromSlice(ipnet.IP)
		addr = addr.Unmap()
		if !ok || addr.IsLinkLocalUnicast() || listen.Addr().Is4() && !addr.Is4() || within(addr, own) {
			continue
		}
		class := 0
		switch {
		case addr.IsLoopback():
			class = 2
		case addr.IsPrivate():
			class = 1
		}
		classes[class] = append(classes[class], netip.AddrPortFrom(addr, listen.Port()))
	}
	out := append(classes[0], classes[1]...)
	if len(out) == 0 {
		out = classes[2]
	}
	return out, nil
}

// logDir is where the event log lies in a state directory.
func logDir(stateDir string) string { return filepath.Join(stateDir, "log") }
