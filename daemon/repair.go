package daemon

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/eventlog"
	"github.com/skein-project/skein/internal/durable"
)

// RepairLog sets aside what is damaged of the event log in a state directory,
// so that the daemon starts and fetches it again, first from peer if that is
// not empty. The daemon must not run. acceptLoss gives up what no host has.
func RepairLog(ctx context.Context, stateDir string, peer cluster.NodeID, acceptLoss bool) (api.LogRepair, error) {
	r, err := repairLog(ctx, stateDir, peer, acceptLoss)
	if errors.Is(err, durable.ErrLocked) {
		err = &hinted{error: err, hint: "the daemon runs: stop it first, `systemctl stop skein`"}
	}
	return r, adviseCommand(err)
}

func repairLog(ctx context.Context, stateDir string, peer cluster.NodeID, acceptLoss bool) (api.LogRepair, error) {
	id, records, err := join.Load(stateDir)
	if err != nil {
		return api.LogRepair{}, err
	}
	lock, err := lockState(stateDir)
	if err != nil {
		return api.LogRepair{}, err
	}
	defer lock.Close()
	members := rosterOf(id, records)
	if peer != "" && (peer == id.Node || members.keyOf(peer) == nil) {
		return api.LogRepair{}, &hinted{error: fmt.Errorf("%s is no other member of the cluster", peer), hint: "name one of the hosts of `skein members`"}
	}
	list, err := eventlog.Repair(ctx, eventlog.RepairOptions{
		Dir: logDir(stateDir), Cluster: id.Cluster.String(), Self: id.Node, KeyOf: members.keyOf,
		Aside: filepath.Join(stateDir, "damaged"), Peer: peer, AcceptLoss: acceptLoss, Now: time.Now(),
	})
	return api.LogRepair{Chains: repairsOf(list)}, err
}

func repairsOf(list []eventlog.Repairing) []api.ChainRepair {
	out := []api.ChainRepair{}
	for _, r := range list {
		out = append(out, api.ChainRepair{
			Source: r.Source, Own: r.Own, Problem: fmt.Sprintf("%s, offset %d: %s", r.Segment, r.Offset, r.Reason),
			Kept: r.Kept, Known: r.Known, Aside: r.Aside, Peer: r.Peer,
		})
	}
	return out
}

// Times of the care for a log under repair.
const (
	mendEvery = 2 * time.Second
	mendTry   = 30 * time.Second
)

// mendLog fetches what a repair of the log found missing, until it is there or
// ctx ends. As long as something is missing that this host has acknowledged it
// does not vote.
func (n *node) mendLog(ctx context.Context) error {
	if slices.ContainsFunc(n.events.Repairing(), func(r eventlog.Repairing) bool { return n.missing(r) }) {
		if cfg := n.coord.View().Lease.Config; len(cfg.Voters) > 1 {
			n.coord.VoteLost("its event log is being repaired")
		}
	}
	tick := time.NewTicker(mendEvery)
	defer tick.Stop()
	for left := n.events.Repairing(); len(left) > 0; {
		peers := n.reachable()
		for _, r := range left {
			if i := slices.Index(peers, r.Peer); i > 0 {
				peers[0], peers[i] = peers[i], peers[0]
			}
		}
		left = n.mendFrom(ctx, peers)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// mendFrom asks one host after the other.
func (n *node) mendFrom(ctx context.Context, peers []cluster.NodeID) (left []eventlog.Repairing) {
	before := n.events.Repairing()
	left = before
	if len(peers) == 0 {
		peers = []cluster.NodeID{n.id.Node} // nobody to ask, but files to read
	}
	for _, peer := range peers {
		try, cancel := context.WithTimeout(ctx, mendTry)
		var err error
		left, err = n.events.Mend(try, peer)
		cancel()
		if err != nil {
			n.log.Debug().Err(err).Str("peer", string(peer)).Msg("repair of the event log goes on")
		}
		if len(left) == 0 {
			break
		}
	}
	for _, r := range before {
		if !slices.ContainsFunc(left, func(o eventlog.Repairing) bool { return o.Source == r.Source }) {
			n.log.Info().Str("source", r.Source.String()).Uint64("seq", n.events.Head(r.Source).Seq).Msg("event log repaired")
		}
	}
	return left
}

// missing says whether events that this host had are not there yet.
func (n *node) missing(r eventlog.Repairing) bool { return n.events.Head(r.Source).Seq < r.Known }

// repairReasons says what is still missing, for the status.
func (n *node) repairReasons() (out []string) {
	for _, r := range n.events.Repairing() {
		if n.missing(r) {
			out = append(out, fmt.Sprintf("event log: %s is fetched again, %d of %d events", r.Source, n.events.Head(r.Source).Seq, r.Known))
		}
	}
	return out
}
