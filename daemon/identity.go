package daemon

import (
	"crypto/ed25519"
	"net/netip"
	"time"

	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/membership"
	"github.com/skein-project/skein/offline"
)

// identity is who this host is, as its state directory says.
type identity struct {
	*join.Identity
	boot    uint64
	roster  *membership.Roster
	records member.Records
	// said is announced in records, with epoch.
	said  join.About
	epoch uint64
}

// identify reads the state directory and announces this host anew: the
// configuration may have changed.
func (g *ground) identify() (*identity, error) {
	key, records, err := join.Load(g.cfg.StateDir)
	if err != nil {
		return nil, err
	}
	if name := g.cfg.Node.Name; name != key.Node {
		g.log.Warn().Str("node", string(key.Node)).Str("configured", string(name)).
			Msg("node.name is ignored: a member keeps the name with which it joined; set node.name to that")
	}
	id := &identity{Identity: key, roster: membership.NewRoster(key, key.Roster(records))}
	if err := id.roster.Gone(); err != nil {
		return nil, err
	}
	if id.boot, err = join.BootCounter(g.cfg.StateDir, g.started); err != nil {
		return nil, err
	}
	if id.said, err = g.about(id); err != nil {
		return nil, err
	}
	ann, err := join.Announce(g.cfg.StateDir, key, id.said, time.Now())
	if err != nil {
		return nil, err
	}
	records.Anns = append(records.Anns, ann)
	id.roster.Update(key.Roster(records))
	id.records, id.epoch = records, membership.EpochOf(ann)
	return id, nil
}

// about is what this host announces about itself, by its configuration.
func (g *ground) about(id *identity) (join.About, error) {
	return offline.About(g.cfg, g.conf(), id.networks()...)
}

// rootKey reads the root key, nil if it is not on this host: it may be moved
// while the daemon runs.
func (g *ground) rootKey() (ed25519.PrivateKey, error) { return join.RootKey(g.cfg.StateDir) }

// networks are the addresses inside the mesh.
func (id *identity) networks() []netip.Prefix { return membership.Networks(id.Identity) }

// clusterName is what people call the cluster.
func (id *identity) clusterName() string {
	if id.ClusterName != "" {
		return id.ClusterName
	}
	return id.Cluster.String()
}
