package daemon

import (
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog"
)

// onDuplicate records that two processes use the identity of a host.
func (n *node) onDuplicate(host cluster.NodeID, boot uint64) {
	n.note(cluster.KindDuplicate, cluster.Duplicate{Host: host, Boot: boot})
}

// onEquivocation records, once for the cluster, that a host signed two
// histories of its log.
func (n *node) onEquivocation(f eventlog.Fork, found bool) {
	if found {
		n.note(cluster.KindEquivocation, cluster.Equivocation{Source: f.Source, Seq: f.Seq})
	}
}
