package daemon

import (
	"context"
	"errors"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
)

type setVotersEvent struct {
	Voters []cluster.NodeID
	Mode   cluster.Mode
	Auto   bool
}

func (n *node) wish(context.Context, setVotersEvent) error { return errors.New("not yet") }

func targetOf(v *coord.View) ([]cluster.NodeID, bool) { return v.Lease.Config.Voters, true }

func ackedOf(*coord.View, cluster.NodeID) (uint64, bool) { return 0, false }

func abstains(*coord.View, coord.MemberView) string { return "" }
