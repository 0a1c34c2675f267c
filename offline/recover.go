package offline

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

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

// errRecover says that a host cannot become the only voter.
var errRecover = errors.New("lease not recovered")

// Recovery is what RecoverLease did.
type Recovery struct {
	Node cluster.NodeID `json:"node"`
	// Previous is the configuration that no longer counts, Config the new one.
	Previous cluster.VoterConfig `json:"previous"`
	Config   cluster.VoterConfig `json:"config"`
}

// RecoveryPlan is what RecoverLease would do, and what is known of those whom it
// gives up.
type RecoveryPlan struct {
	Node     cluster.NodeID
	Previous cluster.VoterConfig
	// Stopped is when the daemon of this host stopped, zero: not known, as after a
	// crash. Heard is when it last heard each other voter, zero: never.
	Stopped time.Time
	Heard   map[cluster.NodeID]time.Time
}

// PlanRecovery says what RecoverLease would do. It fails where that would, and
// changes nothing.
func PlanRecovery(cfg config.Config) (RecoveryPlan, error) {
	r, unlock, err := openRecovery(cfg)
	if err != nil {
		return RecoveryPlan{}, adviseRecovery(err)
	}
	defer unlock()
	p := RecoveryPlan{Node: r.node, Previous: r.vote.Config}
	if seen, ok := r.files.LoadSeen(); ok {
		p.Stopped, p.Heard = seen.Stopped, seen.Heard
	}
	return p, nil
}

// RecoverLease makes this host the only voter after a majority of the voters was
// lost for good. The daemon must not be running. The new configuration supersedes
// that of every other host, including those that were given up, once they hear of
// it; until then those must not run, or both sides would schedule. Hosts that are
// alive become voters again by themselves.
func RecoverLease(cfg config.Config, actor string) (Recovery, error) {
	r, err := recoverLease(cfg, actor)
	if err == nil {
		err = handBack(cfg.StateDir)
	}
	return r, adviseRecovery(err)
}

func adviseRecovery(err error) error {
	if errors.Is(err, durable.ErrLocked) {
		err = &hinted{error: err, hint: stopFirst}
	}
	return adviseCommand(err)
}

// recovery is the state directory of a host that may become the only voter.
type recovery struct {
	node  cluster.NodeID
	files *store.File
	// vote is its record of votes. A lost one no longer binds anybody: the voters
	// that it counted for are given up.
	vote lease.VoteRecord
}

// openRecovery locks the state directory and refuses a host that cannot become the
// only voter.
func openRecovery(cfg config.Config) (r recovery, unlock func(), err error) {
	if _, err := os.Stat(cfg.StateDir); errors.Is(err, fs.ErrNotExist) {
		return r, nil, fmt.Errorf("%s: %w", cfg.StateDir, join.ErrNotInitialised)
	} else if err != nil {
		return r, nil, fmt.Errorf("state directory: %w", err)
	}
	lock, err := Lock(cfg.StateDir)
	if err != nil {
		return r, nil, err
	}
	if r, err = readRecovery(cfg); err != nil {
		lock.Close() //nolint:errcheck // nothing is written through it
		return r, nil, err
	}
	return r, func() { lock.Close() }, nil //nolint:errcheck // likewise
}

func readRecovery(cfg config.Config) (recovery, error) {
	id, records, err := join.Load(cfg.StateDir)
	if err != nil {
		return recovery{}, err
	}
	if cfg.Node.Witness || !cfg.Live.Eligible {
		return recovery{}, &hinted{
			error: fmt.Errorf("%w: %s never holds the lease", errRecover, id.Node),
			hint:  "do it on another host, or set node.witness to false and lease.eligible to true",
		}
	}
	if id.Roster(records).KeyOf(id.Node) == nil {
		return recovery{}, fmt.Errorf("%w: no record of %s in %s", errRecover, id.Node, cfg.StateDir)
	}
	r := recovery{node: id.Node, files: store.New(cfg.StateDir, id.Cluster, id.Node)}
	r.vote, _, err = r.files.LoadVote()
	if err != nil && !errors.Is(err, election.ErrVoteLost) {
		return recovery{}, err
	}
	if v := r.vote; err == nil && v.Lost == "" && v.Config.Mode == cluster.ModeSingle && slices.Equal(v.Config.Voters, []cluster.NodeID{id.Node}) {
		return recovery{}, &hinted{
			error: fmt.Errorf("%w: %s is the only voter already", errRecover, id.Node),
			hint:  "start its daemon: `systemctl start skein`",
		}
	}
	return r, nil
}

func recoverLease(cfg config.Config, actor string) (Recovery, error) {
	from, unlock, err := openRecovery(cfg)
	if err != nil {
		return Recovery{}, err
	}
	defer unlock()
	vote := from.vote
	r := Recovery{Node: from.node, Previous: vote.Config}
	term := max(vote.PromisedTerm, vote.Config.Term) + recoverTerms
	r.Config = cluster.VoterConfig{
		Epoch: vote.Config.Epoch + 1, Term: term, Voters: []cluster.NodeID{from.node},
		Mode:   cluster.ModeSingle,
		Issuer: from.node, // which signs it when it starts
	}
	body := event.VotersSet{
		Voters: r.Config.Voters, Mode: r.Config.Mode, Actor: actor + "@" + string(from.node), Forced: true, Previous: vote.Config.Voters,
	}
	if err := durable.Forced.WriteJSON(cfg.StateDir, body); err != nil {
		return Recovery{}, fmt.Errorf("recover lease: %w", err)
	}
	return r, from.files.SaveVote(lease.VoteRecord{PromisedTerm: term, Config: r.Config})
}

// Forced returns what RecoverLease did in a state directory if that is not in the
// event log yet; ok is false otherwise.
func Forced(stateDir string) (body event.VotersSet, ok bool, err error) {
	switch _, err := durable.Forced.ReadJSON(stateDir, &body); {
	case errors.Is(err, fs.ErrNotExist):
		return body, false, nil
	case durable.IsDamaged(err):
		return event.VotersSet{Actor: "not known, " + durable.Forced.Name + " was damaged", Mode: cluster.ModeSingle, Forced: true}, true, nil
	case err != nil:
		return body, false, fmt.Errorf("forced voters: %w", err)
	}
	return body, true, nil
}

// ForcedLogged records that what Forced returned is now in the event log.
func ForcedLogged(stateDir string) error { return os.Remove(durable.Forced.Path(stateDir)) }
