package join

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join/starts"
	"github.com/skein-project/skein/coord/join/token"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/internal/durable"
)

// annLife is how long an announcement is taken by hosts that never saw it
// before. A daemon announces at every start and once a day.
const annLife = 30 * 24 * time.Hour

// maxClusterName bounds a cluster's name, in bytes.
const maxClusterName = 64

// About is what a host says of itself in its announcement.
type About struct {
	Zone      string
	Priority  uint32
	Witness   bool
	NAT       bool
	Endpoints []netip.AddrPort // of its WireGuard port, at most member.MaxEndpoints
	// Next is the staged WireGuard key and NextAt when it replaces the
	// present one; both zero if none is to.
	Next   [32]byte
	NextAt time.Time
	// Onion is the host's own onion service, zero if it has none.
	Onion member.Onion
	// Tor says that the host uses a tor: it announces the key with which it
	// finds the others' own onion services.
	Tor bool
}

// InitOptions describes a new cluster and its first host.
type InitOptions struct {
	Node        cluster.NodeID
	ClusterName string
	Network     netip.Prefix // the cluster's IPv4 network, fixed for ever
	About       About
	// Wall is the wall time, time.Now if zero.
	Wall time.Time
}

// Init makes dir the state directory of the first host of a new cluster: root
// key, identity, a sponsor certificate for itself, the first announcement. It
// refuses a directory that belongs to a cluster (ErrInitialised). A crash
// leaves a directory that Init accepts again.
func Init(dir string, o InitOptions) error {
	if err := o.check(); err != nil {
		return fmt.Errorf("init %s: %w", dir, err)
	}
	if err := checkFresh(dir); err != nil {
		return fmt.Errorf("init %s: %w", dir, err)
	}
	if err := o.create(dir); err != nil {
		return fmt.Errorf("init %s: %w", dir, err)
	}
	return nil
}

func (o *InitOptions) check() error {
	if _, err := cluster.ParseHostName(string(o.Node)); err != nil {
		return err
	}
	if len(o.ClusterName) > maxClusterName {
		return fmt.Errorf("cluster name of %d bytes, at most %d", len(o.ClusterName), maxClusterName)
	}
	if o.Wall.IsZero() {
		o.Wall = time.Now()
	}
	return member.CheckCIDR(o.Network)
}

// checkFresh makes dir and refuses one that has an identity.
func checkFresh(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	switch _, err := os.Stat(durable.Identity.Path(dir)); {
	case err == nil:
		return ErrInitialised
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case !starts.First(dir):
		return durable.Identity.Missing(dir)
	}
	return nil
}

func (o *InitOptions) create(dir string) error {
	f, err := newKeys(o.Node)
	if err != nil {
		return err
	}
	root := ed25519.NewKeyFromSeed(token.RandomSecret(ed25519.SeedSize).Bytes())
	f.Cluster = member.ClusterID(token.RandomSecret(16).Bytes())
	f.ClusterName, f.Network = o.ClusterName, o.Network
	f.RootPub = publicOf(root)
	f.Secret = token.RandomSecret(token.SecretLen).Bytes()
	id, err := f.identity()
	if err != nil {
		return err
	}
	slice := member.Slices(o.Network)[0]
	free := func(netip.Addr) bool { return false }
	cert, err := certify(root, member.Cert{Cluster: id.Cluster, Node: id.Node, IDPub: id.IDPub, Slice: slice, Serial: 1, Issued: o.Wall.Unix()}, free)
	if err != nil {
		return err
	}
	if err := removeCounters(dir); err != nil {
		return err
	}
	ann, err := Announce(dir, id, o.About, o.Wall)
	if err != nil {
		return err
	}
	if err := writeRootKey(dir, root); err != nil {
		return err
	}
	if err := saveRecords(dir, member.Records{Certs: []member.Signed{cert}, Anns: []member.Signed{ann}}); err != nil {
		return err
	}
	// Last: from here on the directory belongs to the cluster.
	return durable.Identity.WriteJSON(dir, f)
}

// removeCounters drops what an earlier, unfinished attempt left: its keys are
// gone with it.
func removeCounters(dir string) error {
	for _, f := range []*durable.File{durable.Epoch, durable.PendingKeys, durable.NextKey, durable.Invites} {
		if err := os.Remove(f.Path(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// certify completes c and signs it: a sponsor certificate without expiry by
// the root key, else a member's by a sponsor. If c has no address yet, it gets
// one out of c.Slice.
func certify(issuer ed25519.PrivateKey, c member.Cert, taken func(netip.Addr) bool) (member.Signed, error) {
	if !c.IP4.IsValid() {
		ip, err := member.AllocIP4(c.Slice, c.IDPub, taken)
		if err != nil {
			return member.Signed{}, err
		}
		c.IP4 = ip
	}
	c.IP6 = member.ULA(c.Cluster, c.IDPub)
	c.Issuer = publicOf(issuer)
	if c.Expires == 0 {
		c.Caps = []string{member.CapSponsor}
	}
	return c.Sign(issuer)
}

func publicOf(k ed25519.PrivateKey) ed25519.PublicKey {
	return k.Public().(ed25519.PublicKey) //nolint:errcheck,forcetypeassert // always this type
}

// Announce signs this host's next announcement. The epoch is durable in dir
// before the announcement exists, so that none is ever used twice; as with
// starts.Boot it is at least the time of day from the second one on, so that a
// directory out of a backup repeats none that the others have seen since.
func Announce(dir string, id *Identity, about About, now time.Time) (member.Signed, error) {
	epoch, err := starts.Epoch(dir, now)
	if err != nil {
		return member.Signed{}, fmt.Errorf("announce: %w", err)
	}
	a := member.Ann{
		IDPub: id.IDPub, WGPub: id.WGPub, Endpoints: slices.Clone(about.Endpoints), NAT: about.NAT, Epoch: epoch,
		Issued: now.Unix(), Expires: now.Add(annLife).Unix(),
		Zone: about.Zone, Priority: about.Priority, Witness: about.Witness, Onion: about.Onion,
	}
	if about.Next != [32]byte{} {
		a.Next, a.NextAt = about.Next, about.NextAt.Unix()
	}
	if about.Tor {
		a.OnionClient = [32]byte(id.OnionClient().PublicKey().Bytes())
	}
	ann, err := a.Sign(id.IDKey())
	if err != nil {
		return member.Signed{}, fmt.Errorf("announce: %w", err)
	}
	return ann, nil
}
