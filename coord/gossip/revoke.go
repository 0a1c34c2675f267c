package gossip

import (
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
)

const (
	// forwardTo is how many others a host passes a revocation on to that it
	// was told of. All heard of it already; this mends losses at once, and
	// the digests of the next heartbeats the rest.
	forwardTo = 16
)

// revocation is a revocation that is new here.
type revocation struct {
	id  member.Revoke
	rec member.Signed
}

// newRevokes returns the revocations of keys that are not revoked here yet.
func (r *Records) newRevokes(rs []member.Signed) []revocation {
	var out []revocation
	for _, rec := range rs {
		if id, err := member.ParseRevoke(rec); err == nil && !r.table.Revoked(id.IDPub) {
			out = append(out, revocation{id: id, rec: rec})
		}
	}
	return out
}

// pushRevokes spreads those of rs that the table took: to everyone if they
// come from this host, else to some that were not necessarily told.
func (r *Records) pushRevokes(rs []revocation, targets []cluster.Member, from cluster.NodeID, all bool) {
	n := forwardTo
	if all {
		n = len(targets)
	}
	for _, rev := range rs {
		if !r.table.Revoked(rev.id.IDPub) {
			continue // refused
		}
		r.o.Logger.Info().Str("from", string(from)).Str("reason", rev.id.Reason).Msg("key revoked")
		r.SendRevoke(rev.rec, targets, n)
	}
}

// SendRevoke sends a revocation to n of the hosts, beginning behind the own
// place, so that those who pass it on do not all tell the same.
func (r *Records) SendRevoke(rec member.Signed, hosts []cluster.Member, n int) {
	start := slices.IndexFunc(hosts, func(m cluster.Member) bool { return m.Node == r.o.Self }) + 1
	for i := range hosts {
		m := hosts[(start+i)%len(hosts)]
		if m.Node == r.o.Self {
			continue
		}
		if n--; n < 0 {
			return
		}
		if err := r.o.Net.SendMesh(m, wire.TypeRevoke, wire.Revoke{Record: rec.String()}); err != nil {
			return
		}
	}
}

// OnRevoke takes a revocation that a peer passed on; its signature decides,
// not who brought it.
func (r *Records) OnRevoke(d transport.Delivery, p wire.Revoke) {
	rec, err := member.ParseSigned(p.Record)
	if err == nil {
		err = r.Add(member.Records{Revokes: []member.Signed{rec}}, d.Msg.Node, false)
	}
	if err != nil {
		r.refuseRecord(d.Msg.Node, err)
	}
}
