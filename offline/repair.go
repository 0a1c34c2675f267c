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
	"github.com/skein-project/skein/coord/join/starts"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/internal/durable"
)

// DamagedDir is where in a state directory parts of the event log are set aside.
const DamagedDir = "damaged"

// RepairLog sets aside the damaged parts of the event log in a state directory, so
// that the daemon starts and fetches them again, first from peer if that is not
// empty. The daemon must not be running. acceptLoss gives up what no host has.
func RepairLog(ctx context.Context, stateDir string, peer cluster.NodeID, acceptLoss bool) (api.LogRepair, error) {
	r, err := repairLog(ctx, stateDir, peer, acceptLoss)
	if err == nil {
		err = handBack(stateDir)
	}
	if errors.Is(err, durable.ErrLocked) {
		err = &hinted{error: err, hint: stopFirst}
	}
	return r, adviseCommand(err)
}

// LogDamaged reports whether RepairLog has anything to do, or to say. It changes
// nothing.
func LogDamaged(ctx context.Context, stateDir string) bool {
	v, err := VerifyLog(ctx, stateDir)
	if err != nil || !v.OK {
		return true
	}
	fetching, err := audit.LoadRepairs(LogDir(stateDir))
	return err != nil || len(fetching) > 0
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
	done, err := audit.Repair(ctx, audit.RepairOptions{
		Dir: LogDir(stateDir), Cluster: id.Cluster.String(), Self: id.Node, KeyOf: members.KeyOf,
		Aside: filepath.Join(stateDir, DamagedDir), Peer: peer, AcceptLoss: acceptLoss, Now: time.Now(), Used: !starts.First(stateDir),
	})
	return repairOf(done), err
}

func repairOf(done audit.Repaired) api.LogRepair {
	out := api.LogRepair{Chains: []api.ChainRepair{}, Files: []api.FileRepair{}}
	for _, r := range done.Chains {
		out.Chains = append(out.Chains, api.ChainRepair{
			Source: r.Source, Own: r.Own, Problem: fmt.Sprintf("%s, offset %d: %s", r.Segment, r.Offset, r.Reason),
			Kept: r.Kept, Known: r.Known, Aside: r.Aside, Peer: r.Peer, State: r.State,
		})
	}
	for _, f := range done.Files {
		out.Files = append(out.Files, api.FileRepair{Path: f.Path, Problem: f.Reason, Aside: f.Aside})
	}
	return out
}
