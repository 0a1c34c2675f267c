package gossip

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
)

// Records are the membership records of this host.
type Records struct {
	o       Options
	table   *member.Table
	members []cluster.Member // sorted by node id
	digest  [16]byte
	saver   *saver
	pulls   map[cluster.NodeID]*pullState

	outcomes     *prometheus.CounterVec
	equivocation prometheus.Counter
}

// New judges the known records and registers the protocol. Those that are
// refused are logged. It starts nothing.
func New(o Options) (*Records, error) {
	r := &Records{
		o: o, table: member.NewTable(o.Verifier), pulls: make(map[cluster.NodeID]*pullState),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_coord_pulls_total", Help: "Pulls of membership records, by outcome.",
		}, []string{"outcome"}),
		equivocation: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "skein_coord_equivocations_total", Help: "Membership records that contradict another.",
		}),
	}
	r.saver = &saver{save: o.Save, wake: make(chan struct{}, 1), fail: func(err error) {
		o.Logger.Error().Err(err).Msg("membership records not saved")
	}}
	if o.Registerer != nil {
		if err := errors.Join(o.Registerer.Register(r.outcomes), o.Registerer.Register(r.equivocation)); err != nil {
			return nil, fmt.Errorf("register metrics of records: %w", err)
		}
	}
	if _, err := r.table.Restore(o.Known, o.Wall()); err != nil {
		o.Logger.Warn().Err(err).Msg("saved membership records refused")
	}
	r.refresh()
	o.Net.HandleLimited(Proto, Limits, r.serve)
	return r, nil
}

// Run saves records after they changed, until ctx ends and the last are saved.
func (r *Records) Run(ctx context.Context) { r.saver.run(ctx) }

// Table is the table of records; only its owner may look at it, and nobody else
// changes it.
func (r *Records) Table() *member.Table { return r.table }

// Members are the members, this host included, sorted by node id. The slice is
// never changed, only replaced.
func (r *Records) Members() []cluster.Member { return r.members }

// Digest is over all records.
func (r *Records) Digest() [16]byte { return r.digest }

// Forget drops what is known of pulls from a host that is no longer a member.
func (r *Records) Forget(node cluster.NodeID) { delete(r.pulls, node) }

func (r *Records) refresh() {
	r.members = r.table.Members()
	r.digest = r.table.Digest()
}

// OnAnnounce merges the records that an announcement brings. Whoever brought
// them, signatures alone decide.
func (r *Records) OnAnnounce(d transport.Delivery, a wire.PeerAnnounce) {
	if !a.CheckToken(r.o.Secret, d.Msg.Node) {
		r.o.Net.Reject(d.Msg.Node, wire.Refuse(wire.ReasonRecord, "announcement of %s with a wrong token", d.Msg.Node))
		return
	}
	cert, err := member.ParseSigned(a.Cert)
	if err != nil {
		r.o.Net.Reject(d.Msg.Node, wire.Refuse(wire.ReasonRecord, "%s: %v", d.Msg.Node, err))
		return
	}
	ann, err := member.ParseSigned(a.Ann)
	if err != nil {
		r.o.Net.Reject(d.Msg.Node, wire.Refuse(wire.ReasonRecord, "%s: %v", d.Msg.Node, err))
		return
	}
	// What it says beside the records decides nothing; it must not contradict.
	if c, err := member.ParseCert(cert); err == nil && a.TunnelIP != c.IP4 && a.TunnelIP != c.IP6 {
		r.o.Net.Reject(d.Msg.Node, wire.Refuse(wire.ReasonRecord, "%s announces %s at %s, its certificate says otherwise", d.Msg.Node, c.Node, a.TunnelIP))
		return
	}
	err = r.Add(member.Records{Certs: []member.Signed{cert}, Anns: []member.Signed{ann}}, d.Msg.Node, false)
	if err == nil {
		return
	}
	r.refuseRecord(d.Msg.Node, err)
}

// refuseRecord counts a record that a peer brought and that the table refused.
// If the table lacks its issuer, the peer is asked for what it has: it may know
// a sponsor that this host does not.
func (r *Records) refuseRecord(from cluster.NodeID, err error) {
	if _, known := r.o.Net.Directory().Member(from); known && errors.Is(err, member.ErrNoIssuer) {
		r.o.Net.CountRefused(wire.ReasonRecord)
		r.Want(from, wire.Digest{})
		return
	}
	r.o.Net.Reject(from, wire.Refuse(wire.ReasonRecord, "brought by %s: %v", from, err))
}

// Add merges records, whoever brought them, and carries out what
// follows; push says that they come from this host, so that everyone is to be
// told. The error joins the refusals.
func (r *Records) Add(rs member.Records, from cluster.NodeID, push bool) error {
	revoking := r.newRevokes(rs.Revokes)
	targets := r.members // the revoked hosts are told as well
	before := r.table.Evidence()
	ch, err := r.table.AddAll(rs, r.o.Wall())
	evidence := newEvidence(before, r.table.Evidence())
	for _, e := range evidence {
		r.equivocation.Inc()
		r.o.Logger.Error().Err(e.Why).Str("peer", string(e.Node)).Msg("records contradict each other")
	}
	if !ch.Empty() || len(evidence) > 0 {
		r.o.Changed(ch, evidence)
	}
	if !ch.Stored {
		return err
	}
	// Before all else: whoever is revoked is to lose every peer at once.
	r.pushRevokes(revoking, targets, from, push)
	r.stored()
	r.o.Merged(ch, from, push)
	return err
}

// stored follows what the table took: everything that is derived from it, and
// the disk.
func (r *Records) stored() {
	r.refresh()
	r.o.Stored()
	r.saver.set(r.table.Records())
}

// Expire lets the table forget what is over.
func (r *Records) Expire() {
	if r.table.Expire(r.o.Wall()).Stored {
		r.stored()
	}
}

// newEvidence returns what of after is not in before. Both are bounded.
func newEvidence(before, after []member.Evidence) []member.Evidence {
	return slices.DeleteFunc(slices.Clone(after), func(e member.Evidence) bool {
		return slices.ContainsFunc(before, func(o member.Evidence) bool {
			return o.Kept.Equal(e.Kept) && o.Other.Equal(e.Other)
		})
	})
}

// Push sends the records of changed members to everyone who lives, so
// that they need not wait for a pull.
func (r *Records) Push(changed []cluster.NodeID) {
	for _, about := range changed {
		for _, to := range r.o.Reach() {
			if to != about && r.o.Alive(to) {
				r.Send(to, about)
			}
		}
	}
}

// Send sends one member's records to another.
func (r *Records) Send(to, about cluster.NodeID) {
	m, ok := r.o.Net.Directory().Member(about)
	cert, ann, have := r.table.Proof(about)
	if !ok || !have || ann.IsZero() || len(m.WGPub) != len(wire.WGKey{}) {
		return
	}
	a := wire.PeerAnnounce{WGPub: wire.WGKey(m.WGPub), TunnelIP: m.MeshAddr(), Cert: cert.String(), Ann: ann.String()}
	if len(m.Endpoints) > 0 {
		a.Endpoint = m.Endpoints[0]
	}
	a.ClusterToken = wire.AnnounceToken(r.o.Secret, r.o.Self, a)
	if err := r.o.Net.Send(to, wire.TypePeerAnnounce, a); err != nil && r.o.Gate.Pass("announce/"+string(to)) {
		r.o.Logger.Warn().Err(err).Str("peer", string(to)).Msg("announcement not sent") // the pull will bring it
	}
}
