package offline

import (
	"net/netip"

	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/doctor"
)

// InitOptions describes a new cluster.
type InitOptions struct {
	ClusterName string
	// Network of the mesh; zero means config.DefaultNetwork.
	Network netip.Prefix
}

// Init makes cfg.StateDir the state directory of the first host of a new cluster.
// It refuses a directory that belongs to a cluster already. What root makes there is for
// the directory's owner.
func Init(cfg config.Config, o InitOptions) error { return Advise(initialise(cfg, o)) }

func initialise(cfg config.Config, o InitOptions) error {
	if !o.Network.IsValid() {
		o.Network = netip.MustParsePrefix(config.DefaultNetwork)
	}
	if err := doctor.CheckNetworks(cfg, []netip.Prefix{o.Network}); err != nil {
		return &hinted{error: err, hint: "the network is fixed for ever: choose one that no host uses, `skein init --network 10.N.0.0/16`"}
	}
	lock, err := Lock(cfg.StateDir)
	if err != nil {
		return err
	}
	defer lock.Close()
	about, err := About(cfg.Fixed, cfg.Live)
	if err != nil {
		return err
	}
	if err := join.Init(cfg.StateDir, join.InitOptions{
		Node: chooseName(cfg.StateDir, cfg.Node.Name), ClusterName: o.ClusterName, Network: o.Network, About: about,
	}); err != nil {
		return err
	}
	return handBack(cfg.StateDir)
}
