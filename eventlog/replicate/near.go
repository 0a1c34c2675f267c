package replicate

import (
	"errors"
	"slices"

	"github.com/skein-project/skein/cluster"
)

const (
	// upstreamChildren is how many hosts of a zone follow the same one there: about as many
	// as one can serve beside those that come from elsewhere.
	upstreamChildren = maxFollowers / 2
	// farShare is how often a host asks any host although it could ask one of its zone:
	// that one may be cut off from the others without knowing it.
	farShare = 0.1
	// staleAnswers is after how many answers without anything new it is asked whether voters
	// say otherwise: those take a few seconds, and voters say how far they are each second.
	staleAnswers = 2
)

// errStale ends the following of a host that itself does not hear of new events.
var errStale = errors.New("voters know more than")

// upstream says whom a host that does not vote follows in its zone, so that events cross to
// the zone once: the voters there; where there are none, one host follows voters elsewhere,
// and the others that one. Of many hosts the later ones, by name, follow others that do not
// vote. near are the other hosts of the zone. No answer: it follows somebody elsewhere.
func upstream(self cluster.NodeID, near []cluster.NodeID, votes func(cluster.NodeID) bool) (cluster.NodeID, bool) {
	if len(near) == 0 {
		return "", false
	}
	var list, others []cluster.NodeID
	for _, n := range append(slices.Clone(near), self) {
		if votes(n) {
			list = append(list, n)
		} else {
			others = append(others, n)
		}
	}
	slices.Sort(list)
	slices.Sort(others)
	list = append(list, others...)
	roots := max(1, len(list)-len(others))
	child := slices.Index(list, self) - roots
	switch {
	case child < 0:
		return "", false
	case child < roots*upstreamChildren:
		return list[child%roots], true
	}
	return list[child/upstreamChildren], true
}

// near lists the hosts of this host's zone, if there are others; see Options.
func (r *Replicator) near() []cluster.NodeID {
	if r.o.Near == nil {
		return nil
	}
	return r.o.Near()
}

// otherwise reports that peer, which has nothing new, does not vote, and that no voter
// says that its log equals the one here.
func (r *Replicator) otherwise(peer cluster.NodeID) bool {
	cfg := r.Voters()
	if cfg.Has(peer) || r.o.Said == nil {
		return false
	}
	own, heard := r.st.Digest(), false
	for _, v := range cfg.Voters {
		if digest, ok := r.o.Said(v); ok {
			if digest == own {
				return false
			}
			heard = true
		}
	}
	return heard
}
