package offline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord/election"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/store"
	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/lease"
)

// recoverTerms is how far a forced configuration is above the terms that its host
// knows. The hosts that were given up may still be running; should they come back,
// none of their terms may be as high as one of the cluster that went on.
const recoverTerms = 1 << 20

// forcedFile keeps what RecoverLease did until it is in the event log.
const forcedFile = "forced.json"

// errRecover says that a host cannot become the only voter.
var errRecover = errors.New("lease not recovered")

// Recovery is what RecoverLease did.
type Recovery struct {
	Node cluster.NodeID `json:"node"`
	// Previous is the configuration that no longer counts, Config the new one.
	Previous cluster.VoterConfig `json:"previous"`
	Config   cluster.VoterConfig `json:"config"`
}

// RecoverLease makes this host the only voter after a majority of the voters was
// lost for good. The daemon must not be running. The new configuration supersedes
// that of every other host, including those that were given up, once they hear of
// it; until then those must not run, or both sides would schedule. Hosts that are
// alive become voters again by themselves.
func RecoverLease(cfg config.Config, actor string) (Recovery, error) {
	r, err := recoverLease(cfg, actor)
	if errors.Is(err, durable.ErrLocked) {
		err = &hinted{error: err, hint: stopFirst}
	}
	return r, adviseCommand(err)
}

func recoverLease(cfg config.Config, actor string) (Recovery, error) {
	if _, err := os.Stat(cfg.StateDir); err != nil {
		return Recovery{}, fmt.Errorf("state directory: %w", err)
	}
	lock, err := Lock(cfg.StateDir)
	if err != nil {
		return Recovery{}, err
	}
	defer lock.Close()
	id, records, err := join.Load(cfg.StateDir)
	if err != nil {
		return Recovery{}, err
	}
	if cfg.Node.Witness || !cfg.Live.Eligible {
		return Recovery{}, &hinted{
			error: fmt.Errorf("%w: %s never holds the lease", errRecover, id.Node),
			hint:  "do it on another host, or set node.witness to false and lease.eligible to true",
		}
	}
	if id.Roster(records).KeyOf(id.Node) == nil {
		return Recovery{}, fmt.Errorf("%w: no record of %s in %s", errRecover, id.Node, cfg.StateDir)
	}
	files := store.New(cfg.StateDir, id.Cluster, id.Node)
	vote, _, err := files.LoadVote()
	if err != nil && !errors.Is(err, election.ErrVoteLost) {
		return Recovery{}, err
	}
	if err == nil && vote.Lost == "" && vote.Config.Mode == cluster.ModeSingle && slices.Equal(vote.Config.Voters, []cluster.NodeID{id.Node}) {
		return Recovery{}, &hinted{
			error: fmt.Errorf("%w: %s is the only voter already", errRecover, id.Node),
			hint:  "start its daemon: `systemctl start skein`",
		}
	}
	// A lost record no longer binds anybody: the voters that it counted for are
	// given up.
	r := Recovery{Node: id.Node, Previous: vote.Config}
	term := max(vote.PromisedTerm, vote.Config.Term) + recoverTerms
	r.Config = cluster.VoterConfig{
		Epoch: vote.Config.Epoch + 1, Term: term, Voters: []cluster.NodeID{id.Node},
		Mode:   cluster.ModeSingle,
		Issuer: id.Node, // which signs it when it starts
	}
	body := event.VotersSet{
		Voters: r.Config.Voters, Mode: r.Config.Mode, Actor: actor + "@" + string(id.Node), Forced: true, Previous: vote.Config.Voters,
	}
	text, err := json.Marshal(body)
	if err != nil {
		return Recovery{}, fmt.Errorf("recover lease: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(cfg.StateDir, forcedFile), text, 0o600); err != nil {
		return Recovery{}, fmt.Errorf("recover lease: %w", err)
	}
	return r, files.SaveVote(lease.VoteRecord{PromisedTerm: term, Config: r.Config})
}

// Forced returns what RecoverLease did in a state directory if that is not in the
// event log yet; ok is false otherwise.
func Forced(stateDir string) (body event.VotersSet, ok bool, err error) {
	text, err := os.ReadFile(filepath.Join(stateDir, forcedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return body, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	if err != nil {
		return body, false, fmt.Errorf("forced voters: %w", err)
	}
	return body, true, nil
}

// ForcedLogged records that what Forced returned is now in the event log.
func ForcedLogged(stateDir string) error { return os.Remove(filepath.Join(stateDir, forcedFile)) }
