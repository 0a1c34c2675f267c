package forward

import (
	"strings"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// lackError is a refusal because this host lacks a key or a right.
type lackError struct{ *api.Problem }

func (e lackError) Unwrap() error { return e.Problem }

// Lacking marks a refusal by a host that lacks a key or a right: another
// sponsor may be able to do it.
func Lacking(p *api.Problem) error { return lackError{p} }

// unknownError says that a host does not know an operation.
type unknownError struct{ *api.Problem }

func (e unknownError) Unwrap() error { return e.Problem }

// unknown is the answer to a request for an operation without a handler.
func (r *Router) unknown(name string) error {
	return unknownError{api.Errorf(api.CodeInvalidRequest, "%s does not know the operation %.64q", r.o.Self, name)}
}

// tooOld is what the asker returns when to, whose skein is of that version, does not
// know an operation.
func tooOld(to cluster.NodeID, version, name string) *api.Problem {
	of := ""
	if version != "" {
		of = " (" + version + ")"
	}
	return api.Errorf(api.CodeConflict, "the skein of %s%s is too old: it does not know the operation %q", to, of, name).
		WithHint("upgrade it, see `skein members -o wide`")
}

// refusals collects the reasons why sponsors did not do what was asked.
type refusals struct {
	rank    int
	problem *api.Problem
}

// Ranks of refusals, the least informative first.
const (
	rankUnreached = iota + 1
	rankLacks     // that host lacks a key or a right
	rankNo
)

func (r *refusals) note(rank int, p *api.Problem) {
	if rank > r.rank {
		r.rank, r.problem = rank, p
	}
}

// add notes why a sponsor refused.
func (r *refusals) add(f failure) {
	rank := rankNo
	if f.Lacks || f.Unknown {
		rank = rankLacks
	}
	r.note(rank, f.Problem)
}

func (r *refusals) unreached(err error) {
	r.note(rankUnreached, api.Errorf(api.CodeNotReady, "sponsor not reached: %v", err).WithHint("see `skein mesh`"))
}

// worst is the most informative refusal, the first of its kind.
func (r *refusals) worst() *api.Problem {
	if r.problem != nil {
		return r.problem
	}
	return api.Errorf(api.CodeNotReady, "no sponsor is alive").WithHint("%s", SponsorHint(nil))
}

// SponsorHint says who can do what only a sponsor can.
func SponsorHint(alive []cluster.NodeID) string {
	if len(alive) == 0 {
		return "no sponsor is alive: start one, or make any member one with the root key: `skein root import FILE`"
	}
	names := make([]string, len(alive))
	for i, id := range alive {
		names[i] = string(id)
	}
	return "do it on a sponsor: " + strings.Join(names, " or ")
}
