package registry

import (
	"crypto/ed25519"
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state/canon"
)

const maxText = 256 // bytes of the longest text in it

// Write writes all of r as docs/state-format.md has it.
func (r *Registry) Write(w *canon.Writer) {
	w.Count(len(r.workers))
	for _, id := range r.ids() {
		one := r.workers[id]
		w.Text(string(id))
		w.Flag(one.enrolled != nil)
		if one.enrolled != nil {
			b := one.enrolled.V
			w.Key(one.enrolled.At)
			w.Raw(b.Key)
			w.Text(b.Owner)
			w.Text(b.Name)
			w.Flag(b.Trusted)
			w.Text(b.Zone)
			w.Text(b.Actor)
		}
		w.Flag(one.revoked != nil)
		if one.revoked != nil {
			w.Key(one.revoked.At)
			w.Text(one.revoked.V)
		}
		w.Flush()
	}
	w.Count(len(r.tokens))
	for _, id := range slices.Sorted(maps.Keys(r.tokens)) {
		t := r.tokens[id]
		w.Text(id)
		w.Key(t.At)
		w.Raw(t.V.Hash[:])
		w.Text(t.V.Owner)
		w.Count(len(t.V.Roles))
		for _, role := range t.V.Roles {
			w.Text(role)
		}
		w.Num(uint64(t.V.Expires))
		w.Text(t.V.Actor)
		w.Flush()
	}
	w.Count(len(r.gateways))
	for _, n := range slices.Sorted(maps.Keys(r.gateways)) {
		w.Node(n)
		w.Count(len(r.gateways[n]))
		for _, k := range r.gateways[n] {
			w.Key(k.At)
			w.Text(k.V.KID)
			w.Text(k.V.URL)
			w.Raw(k.V.Key)
			w.Text(k.V.Store)
			w.Num(uint64(k.V.Until))
		}
		w.Flush()
	}
}

// Read reads what Write wrote into r, which is empty.
func (r *Registry) Read(in *canon.Reader) {
	for n := in.Count(); n > 0 && in.OK(); n-- {
		r.readWorker(in)
	}
	for n := in.Count(); n > 0 && in.OK(); n-- {
		b := event.AccessSet{ID: in.Text(event.TokenIDLen)}
		at := in.Key()
		b.Hash, b.Owner = in.Hash(), in.Text(cluster.MaxPrincipal)
		for n := in.Count(); n > 0 && in.OK(); n-- {
			b.Roles = append(b.Roles, in.Text(maxActor))
		}
		b.Expires, b.Actor = int64(in.Num()), in.Text(maxActor) //nolint:gosec // Check refuses what does not fit
		in.Check(in.OK() && b.Check() == nil, "access token")
		if in.OK() {
			r.tokens[b.ID] = canon.Register[event.AccessSet]{At: at, V: b}
		}
	}
	for n := in.Count(); n > 0 && in.OK(); n-- {
		node, count := in.Node(false), in.Count()
		in.Check(count > 0 && count <= maxKeys, "number of keys of a gateway")
		var keys []opened
		for ; count > 0 && in.OK(); count-- {
			k := opened{At: in.Key(), V: event.GatewayOpened{KID: in.Text(event.MaxKID), URL: in.Text(event.MaxGatewayURL)}}
			k.V.Key = slices.Clone(in.Bytes(ed25519.PublicKeySize))
			k.V.Store, k.V.Until = in.Text(maxText), int64(in.Num()) //nolint:gosec // Check refuses what does not fit
			in.Check(in.OK() && k.V.Check() == nil && (len(keys) == 0 || keys[len(keys)-1].V.KID < k.V.KID), "gateway")
			keys = append(keys, k)
		}
		r.gateways[node] = keys
	}
}

func (r *Registry) readWorker(in *canon.Reader) {
	id, one := cluster.NodeID(in.Text(cluster.MaxNodeIDLen)), worker{}
	if in.Flag() {
		at, b := in.Key(), event.WorkerEnrolled{Worker: id, Key: slices.Clone(in.Bytes(ed25519.PublicKeySize))}
		b.Owner, b.Name, b.Trusted = in.Text(cluster.MaxPrincipal), in.Text(event.MaxWorkerName), in.Flag()
		b.Zone, b.Actor = in.Text(cluster.MaxZoneName), in.Text(maxActor)
		in.Check(in.OK() && b.Check() == nil, "outside worker")
		one.enrolled = &canon.Register[event.WorkerEnrolled]{At: at, V: b}
	}
	if in.Flag() {
		one.revoked = &canon.Register[string]{At: in.Key(), V: in.Text(maxActor)}
		in.Check(cluster.IsOutside(id), "outside worker")
	}
	in.Check(one.enrolled != nil || one.revoked != nil, "outside worker")
	if in.OK() {
		r.workers[id] = one
	}
}
