package offline

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/internal/durable"
)

// RepairLog sets aside the damaged parts of the event log in a state directory, so
// that the daemon starts and fetches them again, first from peer if that is not
// empty. The daemon must not be running. acceptLoss gives up what no host has.
func RepairLog(ctx context.Context, stateDir string, peer cluster.NodeID, acceptLoss bool) (api.LogRepair, error) {
	r, err := repairLog(ctx, stateDir, peer, acceptLoss)
	if errors.Is(err, durable.ErrLocked) {
		err = &hinted{error: err, hint: stopFirst}
	}
	return r, adviseCommand(err)
}

func repairLog(ctx context.Context, stateDir string, peer cluster.NodeID, acceptLoss bool) (api.LogRepair, error) {
	id, records, err := join.Load(stateDir)
	if err != nil {
		return api.LogRepair{}, err
	}
	lock, err := Lock(stateDir)
	if err != nil {
		return api.LogRepair{}, err
	}
	defer lock.Close()
	members := id.Roster(records)
	if peer != "" && (peer == id.Node || members.KeyOf(peer) == nil) {
		return api.LogRepair{}, &hinted{error: fmt.Errorf("%s is no other member of the cluster", peer), hint: "name one of the hosts of `skein members`"}
	}
	list, err := audit.Repair(ctx, audit.RepairOptions{
		Dir: LogDir(stateDir), Cluster: id.Cluster.String(), Self: id.Node, KeyOf: members.KeyOf,
		Aside: filepath.Join(stateDir, "damaged"), Peer: peer, AcceptLoss: acceptLoss, Now: time.Now(),
	})
	return api.LogRepair{Chains: repairsOf(list)}, err
}

func repairsOf(list []audit.Repairing) []api.ChainRepair {
	out := []api.ChainRepair{}
	for _, r := range list {
		out = append(out, api.ChainRepair{
			Source: r.Source, Own: r.Own, Problem: fmt.Sprintf("%s, offset %d: %s", r.Segment, r.Offset, r.Reason),
			Kept: r.Kept, Known: r.Known, Aside: r.Aside, Peer: r.Peer,
		})
	}
	return out
}
