package convert

import (
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// LeaseConfig converts a configuration of voters.
func LeaseConfig(c cluster.VoterConfig) api.LeaseConfig {
	return api.LeaseConfig{Epoch: c.Epoch, Term: c.Term, Voters: append([]cluster.NodeID{}, c.Voters...), Mode: c.Mode}
}
