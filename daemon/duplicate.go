package daemon

import "github.com/skein-project/skein/cluster"

// onDuplicate records that two processes use the identity of a host.
func (n *node) onDuplicate(host cluster.NodeID, boot uint64) {
	n.note(cluster.KindDuplicate, cluster.Duplicate{Host: host, Boot: boot})
}
