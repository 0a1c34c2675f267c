package daemon

import (
	"crypto/ed25519"
	"errors"
	"net/netip"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/join/starts"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/doctor"
	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/membership"
	"github.com/skein-project/skein/offline"
)

// identity is who this host is, as its state directory says.
type identity struct {
	*join.Identity
	first   bool // no daemon ever ran here
	boot    uint64
	roster  *membership.Roster
	records member.Records
	// said is announced in records, with epoch.
	said  join.About
	epoch uint64
}

// identify reads the state directory.
func (g *ground) identify() (*identity, error) {
	key, records, err := join.Load(g.cfg.StateDir)
	if err != nil {
		return nil, err
	}
	for _, bad := range doctor.DamagedFiles(g.cfg.StateDir) {
		said := g.log.Error().Err(bad)
		if damaged, ok := errors.AsType[*durable.DamagedError](bad); ok && damaged.Hint() != "" {
			said = said.Str("hint", damaged.Hint())
		}
		said.Msg("a file of the state directory is damaged or gone")
	}
	if name := g.cfg.Node.Name; !cluster.MatchHostName(name, key.Node) {
		g.log.Warn().Str("node", string(key.Node)).Str("configured", string(name)).
			Msg("node.name is ignored: a member keeps the name with which it joined; set node.name to that")
	}
	id := &identity{Identity: key, roster: membership.NewRoster(key, key.Roster(records))}
	if err := id.roster.Gone(); err != nil {
		return nil, err
	}
	if _, ok := id.roster.Self(); !ok {
		return nil, durable.Records.Damaged(g.cfg.StateDir, "no record of %s in it", id.Node)
	}
	id.first, id.records = starts.First(g.cfg.StateDir), records
	return id, nil
}

// announce counts this start and announces this host anew: the configuration may
// have changed. Nothing is written before: a state directory that is refused stays
// as it is.
func (g *ground) announce(id *identity) (err error) {
	if err := join.Seal(g.cfg.StateDir); err != nil {
		return err
	}
	if id.boot, err = starts.Boot(g.cfg.StateDir, id.first, g.started); err != nil {
		return err
	}
	if id.said, err = g.about(id); err != nil {
		return err
	}
	ann, err := join.Announce(g.cfg.StateDir, id.Identity, id.said, time.Now())
	if err != nil {
		return err
	}
	id.records.Anns = append(id.records.Anns, ann)
	id.roster.Update(id.Roster(id.records))
	id.epoch = membership.EpochOf(ann)
	return nil
}

// about is what this host announces about itself, by its configuration.
func (g *ground) about(id *identity) (join.About, error) {
	return offline.About(g.cfg, g.conf(), id.networks()...)
}

// rootKey reads the root key, nil if it is not on this host: it may be moved
// while the daemon runs.
func (g *ground) rootKey(id *identity) (ed25519.PrivateKey, error) {
	return join.RootKey(g.cfg.StateDir, id.RootPub)
}

// networks are the addresses inside the mesh.
func (id *identity) networks() []netip.Prefix { return membership.Networks(id.Identity) }

// clusterName is what people call the cluster.
func (id *identity) clusterName() string {
	if id.ClusterName != "" {
		return id.ClusterName
	}
	return id.Cluster.String()
}
