package onions

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/onion"
	"github.com/skein-project/skein/publisher/descriptor"
	"github.com/skein-project/skein/tor"
)

// Host is this host's part in the cluster's onion addresses.
type Host interface {
	Status() onion.Status
	Settings() []state.Onion
	Serves(descriptor.Address) bool
	Keepers(descriptor.Address) []cluster.NodeID
	Key(descriptor.Address) (descriptor.SecretKey, bool)
	AddKey(k descriptor.SecretKey, imported bool) error
	AcceptKey(ctx context.Context, a descriptor.Address, sealed []byte) error
	Set(ctx context.Context, key descriptor.SecretKey, actor string, change func(*event.OnionSet)) (uint64, error)
	Verify(ctx context.Context, a descriptor.Address) ([]onion.DirectoryView, error)
	Publish(descriptor.Address)
	Drain(drained bool) error
	Rotate() (from string, err error)
}

// Tor is this host's tor.
type Tor interface {
	Status() tor.Status
	// Address is the host's own onion service, empty if it has none.
	Address() string
}

// Roster says who is a member.
type Roster interface {
	Member(cluster.NodeID) (cluster.Member, bool)
}

// Recorder logs what an operator changed.
type Recorder interface {
	Record(ctx context.Context, kind event.Kind, body any)
}

// Options are what a Control is made of. All must be set unless it says otherwise.
type Options struct {
	Self   cluster.NodeID
	Host   Host // nil: no tor
	Tor    Tor  // nil without tor
	View   func() *coord.View
	Roster Roster
	Record Recorder
	Remote *forward.Router
	Logger zerolog.Logger
}

// Control implements status.OnionControl. Its methods may be called from any goroutine.
type Control struct {
	o Options
}

// New returns a Control.
func New(o Options) *Control { return &Control{o: o} }

// Handle registers what this host carries out for others.
func (c *Control) Handle(r *forward.Router) {
	forward.Handle(r, forward.OnionDrain, c.drainFor)
	forward.Handle(r, forward.OnionGrant, c.takeGrant)
	forward.Handle(r, forward.OnionPublish, c.publishFor)
}

func noOnions() *api.Problem {
	return api.Errorf(api.CodeConflict, "this host has no tor").WithHint("set tor.enabled = true and restart the daemon")
}

// Onion implements status.OnionControl.
func (c *Control) Onion(context.Context) (api.Onion, error) {
	out := api.Onion{Addresses: []api.OnionAddress{}, Hosts: []api.OnionHost{}, Problems: []string{}}
	o := c.o.Host
	if o == nil {
		return out, nil
	}
	t := c.o.Tor.Status()
	st := o.Status()
	out.Tor = api.OnionTor{
		Enabled: true, State: string(t.State), Version: t.Version, Bootstrap: t.Bootstrap, Restarts: t.Restarts, Reason: t.Err,
		Node: c.o.Tor.Address(), WrongMaster: st.WrongMaster,
	}
	out.Problems, out.Check = append(out.Problems, st.Problems...), st.Check
	out.OperatorAddress, out.Operators = st.OperatorAddress, st.Operators
	for _, s := range st.Addresses {
		v := api.OnionAddress{
			Address: descriptor.Address(s.Key).String(), Version: s.Version, SetAt: s.At.Time(), Actor: s.Actor, Clients: []string{},
			Keepers: append([]cluster.NodeID{}, s.Keepers...), Key: s.HasKey, Publisher: s.PublishedBy, Awaited: s.Awaited,
			Points: map[cluster.NodeID]int{},
		}
		for _, client := range s.Clients {
			v.Clients = append(v.Clients, client.Name)
		}
		if p := s.Publisher; p != nil {
			v.Publishing, v.Term, v.Descriptors, v.Size, v.Fenced, v.Solo = p.Publishing, p.Term, p.Version, p.Size, p.Fenced, p.Solo
			maps.Copy(v.Points, p.Points)
			if !p.Published.IsZero() {
				v.PublishedAt = new(p.Published.UTC())
			}
			if !p.Foreign.IsZero() {
				v.Foreign = new(p.Foreign.UTC())
			}
		}
		out.Addresses = append(out.Addresses, v)
	}
	for _, m := range c.o.View().Members {
		if s, known := st.Hosts[m.Node]; known {
			out.Hosts = append(out.Hosts, onionHost(m, s))
		}
	}
	return out, nil
}

// onionHost converts what is known of one host.
func onionHost(m coord.MemberView, s onion.HostStatus) api.OnionHost {
	h := api.OnionHost{
		Node: m.Node, Health: m.Health, Stopped: m.Stopped, Weight: s.Share.Weight, Points: len(s.Share.Relays), Asked: s.Asked, Healthy: !s.Failing,
		Serving: s.Placed && !s.Reserve, Keys: len(s.Share.Keys), Reason: s.Err, LeftOut: s.LeftOut,
	}
	if !s.Share.Address.IsZero() {
		h.Address = s.Share.Address.String()
	}
	for _, x := range s.Backends {
		h.Backends = append(h.Backends, api.OnionBackend{Name: x.Name, Healthy: x.Healthy})
	}
	return h
}

// parse parses an address. It fails on a host without tor.
func (c *Control) parse(text string) (Host, descriptor.Address, error) {
	if c.o.Host == nil {
		return nil, descriptor.Address{}, &api.Elsewhere{Hosts: c.withTor(), Problem: noOnions()}
	}
	a, err := descriptor.ParseAddress(text)
	if err != nil {
		return nil, a, api.Errorf(api.CodeInvalidRequest, "%v", err)
	}
	return c.o.Host, a, nil
}

// withTor lists the other hosts that have an onion service of their own.
func (c *Control) withTor() (list []cluster.NodeID) {
	for _, m := range c.o.View().Members {
		if m.Onion != "" && m.Node != c.o.Self && m.Health == cluster.Alive {
			list = append(list, m.Node)
		}
	}
	return list
}

func noKey(a descriptor.Address, keepers []cluster.NodeID) error {
	p := api.Errorf(api.CodeConflict, "this host does not have the key of %s", a)
	if len(keepers) > 0 {
		p = p.WithHint("do it on %s", keepers[0])
	}
	return &api.Elsewhere{Hosts: keepers, Problem: p}
}

// AddOnion implements status.OnionControl.
func (c *Control) AddOnion(ctx context.Context, actor string, req api.OnionRequest) (api.OnionChanged, error) {
	o := c.o.Host
	if o == nil {
		return api.OnionChanged{}, noOnions()
	}
	if len(o.Settings()) >= event.MaxOnions {
		return api.OnionChanged{}, api.Errorf(api.CodeConflict, "the cluster serves %d addresses, more are not possible", event.MaxOnions)
	}
	var key descriptor.SecretKey
	if len(req.KeyFile) > 0 {
		var err error
		if key, err = descriptor.ParseSecretKey(req.KeyFile[:min(len(req.KeyFile), onion.MaxKeyFile)]); err != nil {
			return api.OnionChanged{}, api.Errorf(api.CodeInvalidRequest, "%v", err).WithHint("it must be a file hs_ed25519_secret_key of tor")
		}
	} else {
		var seed [32]byte
		if _, err := rand.Read(seed[:]); err != nil {
			return api.OnionChanged{}, err
		}
		key = descriptor.NewSecretKey(seed)
	}
	if err := o.AddKey(key, len(req.KeyFile) > 0); err != nil {
		return api.OnionChanged{}, err
	}
	return setOnion(ctx, o, key, forward.At(actor, c.o.Self), func(*event.OnionSet) {})
}

// setOnion changes the settings of an address.
func setOnion(ctx context.Context, o Host, key descriptor.SecretKey, actor string, change func(*event.OnionSet)) (api.OnionChanged, error) {
	version, err := o.Set(ctx, key, actor, change)
	if _, ok := errors.AsType[*onion.InvalidError](err); ok {
		return api.OnionChanged{}, api.Errorf(api.CodeInvalidRequest, "%v", err)
	} else if err != nil {
		return api.OnionChanged{}, err
	}
	return api.OnionChanged{Address: key.Address().String(), Version: version}, nil
}

// kept returns an address whose key this host keeps.
func (c *Control) kept(address string) (Host, descriptor.Address, descriptor.SecretKey, error) {
	o, a, err := c.parse(address)
	if err != nil {
		return nil, a, descriptor.SecretKey{}, err
	}
	key, ok := o.Key(a)
	if !ok {
		return nil, a, key, noKey(a, o.Keepers(a))
	}
	return o, a, key, nil
}

// served returns the key of an address that the cluster serves and whose key
// this host keeps.
func (c *Control) served(address string) (Host, descriptor.SecretKey, error) {
	o, a, key, err := c.kept(address)
	if err != nil {
		return nil, key, err
	}
	if !o.Serves(a) {
		err = api.Errorf(api.CodeConflict, "the cluster does not serve %s, it was removed", a).WithHint("`skein onion export` and `skein onion import` bring it back")
	}
	return o, key, err
}

// RemoveOnion implements status.OnionControl.
func (c *Control) RemoveOnion(ctx context.Context, actor, address string) (api.OnionChanged, error) {
	o, key, err := c.served(address)
	if err != nil {
		return api.OnionChanged{}, err
	}
	return setOnion(ctx, o, key, forward.At(actor, c.o.Self), func(s *event.OnionSet) { s.Removed = true })
}

// SetOnionClients implements status.OnionControl.
func (c *Control) SetOnionClients(ctx context.Context, actor, address string, req api.OnionClientsRequest) (api.OnionChanged, error) {
	o, key, err := c.served(address)
	if err != nil {
		return api.OnionChanged{}, err
	}
	var clients []event.OnionClient
	for _, name := range slices.Sorted(maps.Keys(req.Clients)) {
		k, err := descriptor.ParseClientKey(req.Clients[name])
		if err != nil {
			return api.OnionChanged{}, api.Errorf(api.CodeInvalidRequest, "client %.64q: %v", name, err).WithHint("a public key as in tor's .auth files: descriptor:x25519:<52 characters>")
		}
		clients = append(clients, event.OnionClient{Name: name, Key: k.Bytes()})
	}
	return setOnion(ctx, o, key, forward.At(actor, c.o.Self), func(s *event.OnionSet) { s.Clients = clients })
}

// GrantOnion implements status.OnionControl.
func (c *Control) GrantOnion(ctx context.Context, actor, address string, node cluster.NodeID) (api.OnionGranted, error) {
	_, a, key, err := c.kept(address)
	if err != nil {
		return api.OnionGranted{}, err
	}
	if node == c.o.Self {
		return api.OnionGranted{Address: a.String(), Node: node}, nil
	}
	m, ok := c.o.Roster.Member(node)
	if !ok {
		return api.OnionGranted{}, api.NoMember(node)
	}
	if m.Witness {
		return api.OnionGranted{}, api.Errorf(api.CodeConflict, "%s is a witness: it never publishes", node)
	}
	sealed, err := onion.Seal(key, m.IDPub)
	if err != nil {
		return api.OnionGranted{}, err
	}
	if _, err := forward.AskHost(ctx, c.o.Remote, forward.OnionGrant, node, "", forward.OnionKey{Address: a.String(), Sealed: sealed}); err != nil {
		return api.OnionGranted{}, err
	}
	c.o.Record.Record(ctx, event.KindOnionGranted, event.OnionGranted{Address: a.String(), Node: node, Actor: forward.At(actor, c.o.Self)})
	return api.OnionGranted{Address: a.String(), Node: node}, nil
}

// takeGrant keeps a key that another member gave this host.
func (c *Control) takeGrant(ctx context.Context, by forward.Asker, g forward.OnionKey) (done forward.None, err error) {
	o := c.o.Host
	if o == nil {
		return done, api.Errorf(api.CodeConflict, "%s has no tor", c.o.Self).WithHint("set tor.enabled = true there")
	}
	if err := by.Spend(); err != nil {
		return done, err
	}
	a, err := descriptor.ParseAddress(g.Address)
	if err != nil || len(g.Sealed) > onion.MaxKeyFile {
		return done, api.Errorf(api.CodeInvalidRequest, "no sealed key of an onion address")
	}
	err = o.AcceptKey(ctx, a, g.Sealed)
	_, invalid := errors.AsType[*onion.InvalidError](err)
	switch {
	case errors.Is(err, onion.ErrNotServed):
		return done, api.Errorf(api.CodeNotReady, "%s does not know that the cluster serves %s", c.o.Self, a).WithHint("see `skein log`")
	case invalid:
		return done, api.Errorf(api.CodeInvalidRequest, "%v", err)
	case err != nil:
		return done, api.Errorf(api.CodeInternal, "%v", err)
	}
	c.o.Logger.Info().Str("peer", string(by.From)).Str("address", a.String()).Msg("key of an onion address received")
	return done, nil
}

// ExportOnion implements status.OnionControl.
func (c *Control) ExportOnion(_ context.Context, actor, address string) (api.OnionKey, error) {
	_, a, key, err := c.kept(address)
	if away, ok := errors.AsType[*api.Elsewhere](err); ok {
		err = away.Problem // a host that brought the key here could read it
	}
	if err != nil {
		return api.OnionKey{}, err
	}
	c.o.Logger.Warn().Str("actor", actor).Str("address", a.String()).Msg("key of an onion address exported")
	return api.OnionKey{Address: a.String(), KeyFile: key.File()}, nil
}

// VerifyOnion implements status.OnionControl.
func (c *Control) VerifyOnion(ctx context.Context, address string) (api.OnionVerified, error) {
	o, a, err := c.parse(address)
	if err != nil {
		return api.OnionVerified{}, err
	}
	views, err := o.Verify(ctx, a)
	if errors.Is(err, onion.ErrNoConsensus) {
		return api.OnionVerified{}, api.Errorf(api.CodeNotReady, "%v", err)
	} else if err != nil {
		return api.OnionVerified{}, err
	}
	out := api.OnionVerified{Address: a.String(), Dirs: make([]api.OnionDirView, len(views))}
	newest := uint64(0)
	for _, v := range views {
		newest = max(newest, v.Revision)
	}
	for i, v := range views {
		d := api.OnionDirView{Dir: v.Dir.String(), Points: v.Points}
		if v.Read {
			d.Revision = strconv.FormatUint(v.Revision, 10)
		}
		if v.Err != nil {
			d.Reason = v.Err.Error()
		}
		if v.Revision == newest && newest > 0 {
			out.Found++
		}
		out.Dirs[i] = d
	}
	return out, nil
}

// PublishOnion implements status.OnionControl.
func (c *Control) PublishOnion(ctx context.Context, actor, address string) (api.OnionPublished, error) {
	o, a, err := c.parse(address)
	if err != nil {
		return api.OnionPublished{}, err
	}
	x, err := servedAs(o, a)
	switch {
	case err != nil:
		return api.OnionPublished{}, err
	case x.PublishedBy == "":
		return api.OnionPublished{}, api.Errorf(api.CodeConflict, "nobody is known to publish %s", a).WithHint("`skein onion status` says which hosts have its key")
	case x.PublishedBy == c.o.Self:
		return c.publishHere(ctx, forward.At(actor, c.o.Self), a)
	}
	return forward.AskHost(ctx, c.o.Remote, forward.OnionPublish, x.PublishedBy, actor, forward.OnionNamed{Address: a.String()})
}

// publishFor answers another member.
func (c *Control) publishFor(ctx context.Context, by forward.Asker, req forward.OnionNamed) (api.OnionPublished, error) {
	_, a, err := c.parse(req.Address)
	if away, ok := errors.AsType[*api.Elsewhere](err); ok {
		err = away.Problem // who asked chose this host
	}
	if err != nil {
		return api.OnionPublished{}, err
	}
	return c.publishHere(ctx, by.Actor, a)
}

// publishHere makes new descriptors, if this host publishes the address.
func (c *Control) publishHere(ctx context.Context, actor string, a descriptor.Address) (out api.OnionPublished, err error) {
	x, err := servedAs(c.o.Host, a)
	if err != nil {
		return out, err
	}
	switch p := x.Publisher; {
	case p == nil || !p.Publishing:
		err := api.Errorf(api.CodeConflict, "%s does not publish %s", c.o.Self, a)
		if x.PublishedBy != "" && x.PublishedBy != c.o.Self {
			err = err.WithHint("%s does", x.PublishedBy)
		}
		return out, err
	case p.Fenced:
		return out, api.Errorf(api.CodeConflict, "a publisher of a later term than %d is at work: %s stands back", p.Term, c.o.Self)
	case p.Solo:
		return out, api.Errorf(api.CodeConflict, "%s is the only host, and its tor publishes %s by itself", c.o.Self, a)
	default:
		c.o.Host.Publish(a)
		if len(c.o.View().Unaware(event.KindPublishAsked)) == 0 {
			c.o.Record.Record(ctx, event.KindPublishAsked, event.PublishAsked{Address: a.String(), Term: p.Term, Actor: actor})
		}
		return api.OnionPublished{Address: a.String(), Node: c.o.Self, Term: p.Term}, nil
	}
}

// servedAs is how an address is that the cluster serves.
func servedAs(o Host, a descriptor.Address) (onion.AddressStatus, error) {
	for _, x := range o.Status().Addresses {
		if x.Key == a {
			return x, nil
		}
	}
	return onion.AddressStatus{}, api.Errorf(api.CodeNotFound, "the cluster does not serve %s", a).WithHint("`skein onion status` lists what it serves")
}

// DrainOnion implements status.OnionControl.
func (c *Control) DrainOnion(ctx context.Context, actor string, req api.OnionDrainRequest) (api.OnionDrained, error) {
	node := req.Node
	if node == "" || node == c.o.Self {
		if err := c.drainHere(ctx, forward.At(actor, c.o.Self), req.Undo); err != nil {
			return api.OnionDrained{}, err
		}
		return api.OnionDrained{Node: c.o.Self, Drained: !req.Undo}, nil
	}
	if _, ok := c.o.Roster.Member(node); !ok {
		return api.OnionDrained{}, api.NoMember(node)
	}
	if _, err := forward.AskHost(ctx, c.o.Remote, forward.OnionDrain, node, actor, req); err != nil {
		return api.OnionDrained{}, err
	}
	return api.OnionDrained{Node: node, Drained: !req.Undo}, nil
}

// drainFor answers another member.
func (c *Control) drainFor(ctx context.Context, by forward.Asker, req api.OnionDrainRequest) (forward.None, error) {
	return forward.None{}, c.drainHere(ctx, by.Actor, req.Undo)
}

func (c *Control) drainHere(ctx context.Context, actor string, undo bool) error {
	if c.o.Host == nil {
		return noOnions()
	}
	if err := c.o.Host.Drain(!undo); err != nil {
		return api.Errorf(api.CodeInternal, "%v", err)
	}
	c.o.Record.Record(ctx, event.KindOnionDrained, event.OnionDrained{Drained: !undo, Actor: actor})
	return nil
}

// RotateOnion implements status.OnionControl.
func (c *Control) RotateOnion(ctx context.Context, actor string) (api.OnionRotated, error) {
	o := c.o.Host
	if o == nil {
		return api.OnionRotated{}, noOnions()
	}
	from, err := o.Rotate()
	if errors.Is(err, onion.ErrNoInstance) {
		return api.OnionRotated{}, api.Errorf(api.CodeConflict, "%v", err).WithHint("set onion.target, or wait until tor runs")
	} else if err != nil {
		return api.OnionRotated{}, err
	}
	c.o.Record.Record(ctx, event.KindOnionRotated, event.OnionRotated{From: from, Actor: forward.At(actor, c.o.Self)})
	return api.OnionRotated{From: from}, nil
}
