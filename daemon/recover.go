package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/lease"
)

// recoverTerms is how far a forced configuration lies above the terms that its
// host knows. Whoever was given up may have gone on meanwhile; should they come
// back, no term of theirs may be as high as one of the cluster that went on.
const recoverTerms = 1 << 20

// forcedFile keeps what RecoverLease did until it is in the event log.
const forcedFile = "forced.json"

// errRecover says that a host cannot become the only voter.
var errRecover = errors.New("lease not recovered")

// Recovery is what RecoverLease did.
type Recovery struct {
	Node cluster.NodeID `json:"node"`
	// Previous is the configuration that counts no more, Config the new one.
	Previous cluster.VoterConfig `json:"previous"`
	Config   cluster.VoterConfig `json:"config"`
}

// RecoverLease makes this host the only voter, because a majority of the
// voters is lost for good. The daemon must not run. The new configuration
// supersedes that of every other host, also of those given up, once they hear
// of it; until then those must not run, or both sides schedule. Hosts that are
// alive become voters again by themselves.
func RecoverLease(cfg config.Config, actor string) (Recovery, error) {
	r, err := recoverLease(cfg, actor)
	if errors.Is(err, durable.ErrLocked) {
		err = &hinted{error: err, hint: "the daemon runs: stop it first, `systemctl stop skein`"}
	}
	return r, adviseCommand(err)
}

func recoverLease(cfg config.Config, actor string) (Recovery, error) {
	if _, err := os.Stat(cfg.StateDir); err != nil {
		return Recovery{}, fmt.Errorf("state directory: %w", err)
	}
	lock, err := lockState(cfg.StateDir)
	if err != nil {
		return Recovery{}, err
	}
	defer lock.Close()
	id, records, err := join.Load(cfg.StateDir)
	if err != nil {
		return Recovery{}, err
	}
	if cfg.Node.Witness || !cfg.Lease.Eligible {
		return Recovery{}, &hinted{
			error: fmt.Errorf("%w: %s never holds the lease", errRecover, id.Node),
			hint:  "do it on another host, or set node.witness to false and lease.eligible to true",
		}
	}
	if rosterOf(id, records).keyOf(id.Node) == nil {
		return Recovery{}, fmt.Errorf("%w: no record of %s in %s", errRecover, id.Node, cfg.StateDir)
	}
	store := coord.NewFileStore(cfg.StateDir, id.Cluster, id.Node)
	vote, _, err := store.LoadVote()
	if err != nil && !errors.Is(err, coord.ErrVoteLost) {
		return Recovery{}, err
	}
	if err == nil && vote.Lost == "" && vote.Config.Mode == cluster.ModeSingle && slices.Equal(vote.Config.Voters, []cluster.NodeID{id.Node}) {
		return Recovery{}, &hinted{
			error: fmt.Errorf("%w: %s is the only voter already", errRecover, id.Node),
			hint:  "start its daemon: `systemctl start skein`",
		}
	}
	// A record that was lost binds nobody any more: the voters that it was
	// given for are given up.
	r := Recovery{Node: id.Node, Previous: vote.Config}
	term := max(vote.PromisedTerm, vote.Config.Term) + recoverTerms
	r.Config = cluster.VoterConfig{
		Epoch: vote.Config.Epoch + 1, Term: term, Voters: []cluster.NodeID{id.Node},
		Mode:   cluster.ModeSingle,
		Issuer: id.Node, // and it signs it when it starts
	}
	body := cluster.VotersSet{
		Voters: r.Config.Voters, Mode: r.Config.Mode, Actor: actor + "@" + string(id.Node), Forced: true, Previous: vote.Config.Voters,
	}
	text, err := json.Marshal(body)
	if err != nil {
		return Recovery{}, fmt.Errorf("recover lease: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(cfg.StateDir, forcedFile), text, 0o600); err != nil {
		return Recovery{}, fmt.Errorf("recover lease: %w", err)
	}
	return r, store.SaveVote(lease.VoteRecord{PromisedTerm: term, Config: r.Config})
}

// tellForced writes down that this host was made the only voter, once.
func (n *node) tellForced(ctx context.Context) error {
	name := filepath.Join(n.cfg.StateDir, forcedFile)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var body cluster.VotersSet
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	if err == nil {
		n.log.Warn().Str("actor", body.Actor).Strs("previous", names(body.Previous)).Msg("this host was made the only voter")
		_, err = n.appendNow(ctx, cluster.KindVotersSet, body)
	}
	if err != nil {
		return fmt.Errorf("log the forced voters: %w", err)
	}
	return os.Remove(name)
}
