package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/publisher/descriptor"
)

// onionGrant gives a host the key of an address, sealed to its identity.
type onionGrant struct {
	Address string `json:"address"`
	Sealed  []byte `json:"sealed"`
}

// maxKeyFile bounds the content of a key file, and what is made of it.
const maxKeyFile = 4096

func noOnions() *api.Problem {
	return api.Errorf(api.CodeConflict, "this host has no tor").WithHint("set tor.enabled = true and restart the daemon")
}

// Onion implements status.OnionControl.
func (b backend) Onion(context.Context) (api.Onion, error) {
	out := api.Onion{Addresses: []api.OnionAddress{}, Hosts: []api.OnionHost{}, Problems: []string{}}
	o := b.onions
	if o == nil {
		return out, nil
	}
	t := b.tor.tor.Status()
	out.Tor = api.OnionTor{
		Enabled: true, State: string(t.State), Version: t.Version, Bootstrap: t.Bootstrap, Restarts: t.Restarts, Reason: t.Err,
		Node: b.tor.address(), WrongMaster: o.wrong.Load(),
	}
	out.Problems = append(out.Problems, o.keys.problems()...)
	st := o.status.Load()
	for _, s := range st.settings {
		a := descriptor.Address(s.Key)
		_, has := o.keys.get(a)
		v := api.OnionAddress{
			Address: a.String(), Version: s.Version, SetAt: s.At.Time(), Actor: s.Actor, Clients: []string{},
			Keepers: append([]cluster.NodeID{}, st.keepers[a]...), Key: has, Points: map[cluster.NodeID]int{},
		}
		for _, c := range s.Clients {
			v.Clients = append(v.Clients, c.Name)
		}
		if p, ok := st.pubs[a]; ok {
			v.Publishing, v.Term, v.Descriptors, v.Size, v.Fenced, v.Solo = p.Publishing, p.Term, p.Version, p.Size, p.Fenced, p.Solo
			maps.Copy(v.Points, p.Points)
			if !p.Published.IsZero() {
				v.PublishedAt = new(p.Published.UTC())
			}
		}
		out.Addresses = append(out.Addresses, v)
	}
	view := b.coord.View()
	for _, m := range view.Members {
		s, known := st.hosts[m.Node]
		if !known && st.errors[m.Node] == "" {
			continue
		}
		h := api.OnionHost{
			Node: m.Node, Health: m.Health, Weight: s.Weight, Points: len(s.Relays), Healthy: s.Healthy, Serving: st.serving[m.Node],
			Keys: len(s.Keys), Reason: st.errors[m.Node],
		}
		if !s.Address.IsZero() {
			h.Address = s.Address.String()
		}
		out.Hosts = append(out.Hosts, h)
	}
	return out, nil
}

// onionOf finds an address that the cluster serves, or did.
func (b backend) onionOf(text string) (*onions, descriptor.Address, error) {
	if b.onions == nil {
		return nil, descriptor.Address{}, noOnions()
	}
	a, err := descriptor.ParseAddress(text)
	if err != nil {
		return nil, a, api.Errorf(api.CodeInvalidRequest, "%v", err)
	}
	return b.onions, a, nil
}

func noKey(a descriptor.Address, keepers []cluster.NodeID) *api.Problem {
	p := api.Errorf(api.CodeConflict, "this host does not have the key of %s", a)
	if len(keepers) > 0 {
		p = p.WithHint("do it on %s", keepers[0])
	}
	return p
}

// AddOnion implements status.OnionControl.
func (b backend) AddOnion(ctx context.Context, actor string, req api.OnionRequest) (api.OnionChanged, error) {
	o := b.onions
	if o == nil {
		return api.OnionChanged{}, noOnions()
	}
	if len(o.settings()) >= cluster.MaxOnions {
		return api.OnionChanged{}, api.Errorf(api.CodeConflict, "the cluster serves %d addresses, more are not possible", cluster.MaxOnions)
	}
	var key descriptor.SecretKey
	if len(req.KeyFile) > 0 {
		var err error
		if key, err = descriptor.ParseSecretKey(req.KeyFile[:min(len(req.KeyFile), maxKeyFile)]); err != nil {
			return api.OnionChanged{}, api.Errorf(api.CodeInvalidRequest, "%v", err).WithHint("it must be a file hs_ed25519_secret_key of tor")
		}
	} else {
		var seed [32]byte
		if _, err := rand.Read(seed[:]); err != nil {
			return api.OnionChanged{}, err
		}
		key = descriptor.NewSecretKey(seed)
	}
	if err := o.keys.add(key); err != nil {
		return api.OnionChanged{}, err
	}
	if len(req.KeyFile) > 0 {
		o.mu.Lock()
		o.imported[key.Address()] = time.Now()
		o.mu.Unlock()
	}
	return o.set(ctx, key, b.at(actor), func(*cluster.OnionSet) {})
}

// set writes new settings of an address, made from those that hold.
func (o *onions) set(ctx context.Context, key descriptor.SecretKey, actor string, change func(*cluster.OnionSet)) (api.OnionChanged, error) {
	a := key.Address()
	body := cluster.OnionSet{Key: a[:], Actor: actor}
	o.n.events.View(func(s *state.State) {
		// One that was removed and comes back is found by whom it was before.
		last := s.Onion(a)
		body.Version, body.Clients = last.Version+1, slices.Clone(last.Clients)
	})
	change(&body)
	if err := body.CheckForm(); err != nil {
		return api.OnionChanged{}, api.Errorf(api.CodeInvalidRequest, "%v", err)
	}
	body.Sig = key.Sign(body.SignedBytes())
	if _, err := o.n.appendNow(ctx, cluster.KindOnionSet, body); err != nil {
		return api.OnionChanged{}, err
	}
	o.look()
	return api.OnionChanged{Address: a.String(), Version: body.Version}, nil
}

// keptOnion is an address of the cluster whose key this host keeps.
func (b backend) keptOnion(address string) (*onions, descriptor.Address, descriptor.SecretKey, error) {
	o, a, err := b.onionOf(address)
	if err != nil {
		return nil, a, descriptor.SecretKey{}, err
	}
	key, ok := o.keys.get(a)
	if !ok {
		return nil, a, key, noKey(a, o.status.Load().keepers[a])
	}
	return o, a, key, nil
}

// servedOnion is an address that the cluster serves and whose key this host keeps.
func (b backend) servedOnion(address string) (*onions, descriptor.SecretKey, error) {
	o, a, key, err := b.keptOnion(address)
	if err != nil {
		return nil, key, err
	}
	served := false
	o.n.events.View(func(s *state.State) {
		served = slices.ContainsFunc(s.Onions(), func(x state.Onion) bool { return x.Key == a })
	})
	if !served {
		err = api.Errorf(api.CodeConflict, "the cluster does not serve %s, it was removed", a).WithHint("`skein onion export` and `skein onion import` bring it back")
	}
	return o, key, err
}

// RemoveOnion implements status.OnionControl.
func (b backend) RemoveOnion(ctx context.Context, actor, address string) (api.OnionChanged, error) {
	o, key, err := b.servedOnion(address)
	if err != nil {
		return api.OnionChanged{}, err
	}
	return o.set(ctx, key, b.at(actor), func(s *cluster.OnionSet) { s.Removed = true })
}

// SetOnionClients implements status.OnionControl.
func (b backend) SetOnionClients(ctx context.Context, actor, address string, req api.OnionClientsRequest) (api.OnionChanged, error) {
	o, key, err := b.servedOnion(address)
	if err != nil {
		return api.OnionChanged{}, err
	}
	var clients []cluster.OnionClient
	for _, name := range slices.Sorted(maps.Keys(req.Clients)) {
		k, err := descriptor.ParseClientKey(req.Clients[name])
		if err != nil {
			return api.OnionChanged{}, api.Errorf(api.CodeInvalidRequest, "client %.64q: %v", name, err).WithHint("a public key as in tor's .auth files: descriptor:x25519:<52 characters>")
		}
		clients = append(clients, cluster.OnionClient{Name: name, Key: k.Bytes()})
	}
	return o.set(ctx, key, b.at(actor), func(s *cluster.OnionSet) { s.Clients = clients })
}

// GrantOnion implements status.OnionControl.
func (b backend) GrantOnion(ctx context.Context, actor, address string, node cluster.NodeID) (api.OnionGranted, error) {
	_, a, key, err := b.keptOnion(address)
	if err != nil {
		return api.OnionGranted{}, err
	}
	if node == b.id.Node {
		return api.OnionGranted{Address: a.String(), Node: node}, nil
	}
	m, ok := b.member(node)
	if !ok {
		return api.OnionGranted{}, noMember(node)
	}
	if m.Witness {
		return api.OnionGranted{}, api.Errorf(api.CodeConflict, "%s is a witness: it never publishes", node)
	}
	sealed, err := sealKey(key, m.IDPub)
	if err != nil {
		return api.OnionGranted{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, holderTime)
	defer cancel()
	reply, err := b.ask(ctx, node, remoteRequest{Actor: actor, OnionGrant: &onionGrant{Address: a.String(), Sealed: sealed}}, false)
	if err != nil {
		return api.OnionGranted{}, api.Errorf(api.CodeNotReady, "%s not reached: %v", node, err).WithHint("see `skein mesh`")
	}
	if reply.Problem != nil {
		return api.OnionGranted{}, reply.Problem
	}
	b.record(ctx, cluster.KindOnionGranted, cluster.OnionGranted{Address: a.String(), Node: node, Actor: b.at(actor)})
	return api.OnionGranted{Address: a.String(), Node: node}, nil
}

// takeGrant keeps a key that another member gave this host.
func (n *node) takeGrant(ctx context.Context, from cluster.NodeID, g onionGrant) *api.Problem {
	o := n.onions
	if o == nil {
		return api.Errorf(api.CodeConflict, "%s has no tor", n.id.Node).WithHint("set tor.enabled = true there")
	}
	if p := n.spare(from, favourOnion); p != nil {
		return p
	}
	a, err := descriptor.ParseAddress(g.Address)
	if err != nil || len(g.Sealed) > maxKeyFile {
		return api.Errorf(api.CodeInvalidRequest, "no sealed key of an onion address")
	}
	// The address may have been set a moment ago, on another host.
	for !slices.ContainsFunc(o.settings(), func(s state.Onion) bool { return s.Key == a }) {
		changed := n.events.Changed()
		select {
		case <-ctx.Done():
			return api.Errorf(api.CodeNotReady, "%s does not know that the cluster serves %s", n.id.Node, a).WithHint("see `skein log`")
		case <-changed:
		case <-time.After(time.Second):
		}
	}
	key, err := openKey(a, g.Sealed, n.id.IDKey())
	if err != nil {
		return api.Errorf(api.CodeInvalidRequest, "%v", err)
	}
	if err := o.keys.add(key); err != nil {
		return api.Errorf(api.CodeInternal, "%v", err)
	}
	n.log.Info().Str("peer", string(from)).Str("address", a.String()).Msg("key of an onion address received")
	o.look()
	return nil
}

// ExportOnion implements status.OnionControl.
func (b backend) ExportOnion(_ context.Context, actor, address string) (api.OnionKey, error) {
	_, a, key, err := b.keptOnion(address)
	if err != nil {
		return api.OnionKey{}, err
	}
	b.log.Warn().Str("actor", actor).Str("address", a.String()).Msg("key of an onion address exported")
	return api.OnionKey{Address: a.String(), KeyFile: key.File()}, nil
}

// VerifyOnion implements status.OnionControl.
func (b backend) VerifyOnion(ctx context.Context, address string) (api.OnionVerified, error) {
	o, a, err := b.onionOf(address)
	if err != nil {
		return api.OnionVerified{}, err
	}
	o.mu.Lock()
	network := o.network
	o.mu.Unlock()
	if network == nil {
		return api.OnionVerified{}, api.Errorf(api.CodeNotReady, "tor has no consensus yet")
	}
	sched, err := network.Consensus.Schedule(network.Testing)
	if err != nil {
		return api.OnionVerified{}, err
	}
	slot := sched.Fetched()
	ring, err := network.Consensus.Ring(network.Microdescs, slot)
	if err != nil {
		return api.OnionVerified{}, err
	}
	out := api.OnionVerified{Address: a.String()}
	dirs := ring.Fetch(a.Blind(slot.Period))
	views, revisions := make([]api.OnionDirView, len(dirs)), make([]uint64, len(dirs))
	var wg sync.WaitGroup
	for i, dir := range dirs {
		wg.Go(func() { views[i], revisions[i] = o.verifyAt(ctx, a, slot.Period, dir) })
	}
	wg.Wait()
	out.Dirs = views
	newest := slices.Max(append(revisions, 0))
	for _, r := range revisions {
		if r == newest && r > 0 {
			out.Found++
		}
	}
	return out, nil
}

// verifyTime bounds the question to one directory.
const verifyTime = 15 * time.Second

func (o *onions) verifyAt(ctx context.Context, a descriptor.Address, p descriptor.Period, dir descriptor.Fingerprint) (api.OnionDirView, uint64) {
	ctx, cancel := context.WithTimeout(ctx, verifyTime)
	defer cancel()
	v := api.OnionDirView{Dir: dir.String()}
	text, err := torUploader{o.tor.tor}.Fetch(ctx, a, dir)
	if err != nil {
		v.Reason = err.Error()
		return v, 0
	}
	now := time.Now()
	s, err := descriptor.Parse(text, now)
	if err == nil && s.Blinded != a.Blind(p) {
		err = descriptor.ErrForeign
	}
	if err != nil {
		v.Reason = err.Error()
		return v, 0
	}
	v.Revision = strconv.FormatUint(s.Revision, 10)
	d, err := s.Open(a, p, nil, now)
	switch {
	case errors.Is(err, descriptor.ErrClientAuth) || errors.Is(err, descriptor.ErrDecrypt):
		v.Points = -1
	case err != nil:
		v.Reason = err.Error()
	default:
		v.Points = len(d.Points)
	}
	return v, s.Revision
}

// DrainOnion implements status.OnionControl.
func (b backend) DrainOnion(ctx context.Context, actor string, req api.OnionDrainRequest) (api.OnionDrained, error) {
	node := req.Node
	if node == "" || node == b.id.Node {
		if p := b.drainOnionHere(ctx, b.at(actor), req.Undo); p != nil {
			return api.OnionDrained{}, p
		}
		return api.OnionDrained{Node: b.id.Node, Drained: !req.Undo}, nil
	}
	if _, ok := b.member(node); !ok {
		return api.OnionDrained{}, noMember(node)
	}
	ctx, cancel := context.WithTimeout(ctx, holderTime)
	defer cancel()
	reply, err := b.ask(ctx, node, remoteRequest{Actor: actor, OnionDrain: &req}, false)
	if err != nil {
		return api.OnionDrained{}, api.Errorf(api.CodeNotReady, "%s not reached: %v", node, err).WithHint("see `skein mesh`")
	}
	if reply.Problem != nil {
		return api.OnionDrained{}, reply.Problem
	}
	return api.OnionDrained{Node: node, Drained: !req.Undo}, nil
}

func (n *node) drainOnionHere(ctx context.Context, actor string, undo bool) *api.Problem {
	if n.onions == nil {
		return noOnions()
	}
	if err := n.onions.drain(!undo); err != nil {
		return api.Errorf(api.CodeInternal, "%v", err)
	}
	n.record(ctx, cluster.KindOnionDrained, cluster.OnionDrained{Drained: !undo, Actor: actor})
	return nil
}

// RotateOnion implements status.OnionControl.
func (b backend) RotateOnion(ctx context.Context, actor string) (api.OnionRotated, error) {
	o := b.onions
	if o == nil {
		return api.OnionRotated{}, noOnions()
	}
	own := o.instanceAddresses()
	if len(own) == 0 {
		return api.OnionRotated{}, api.Errorf(api.CodeConflict, "this host has no onion key of its own yet").WithHint("set onion.target, or wait until tor runs")
	}
	if err := o.rotate(); err != nil {
		return api.OnionRotated{}, err
	}
	b.record(ctx, cluster.KindOnionRotated, cluster.OnionRotated{From: own[0], Actor: b.at(actor)})
	return api.OnionRotated{From: own[0]}, nil
}
