package join

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join/starts"
	"github.com/skein-project/skein/coord/join/token"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/internal/durable"
)

// Identity is what a host knows about itself and its cluster. It is immutable.
type Identity struct {
	Cluster     member.ClusterID
	ClusterName string
	Network     netip.Prefix // the cluster's IPv4 network
	Node        cluster.NodeID
	IDPub       ed25519.PublicKey
	WGPub       [32]byte
	RootPub     ed25519.PublicKey

	idKey  token.Secret // Ed25519 seed
	wgKey  token.Secret // Curve25519 private key
	secret token.Secret // cluster secret
	// wgOld are the WireGuard keys before, newest first: tokens that name
	// one of them stay good.
	wgOld []oldKey
	// sealed says that the file had a checksum.
	sealed bool
}

// IDKey returns the private identity key.
func (id *Identity) IDKey() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(id.idKey.Bytes()) }

// WGKey returns the private WireGuard key.
func (id *Identity) WGKey() [32]byte { return [32]byte(id.wgKey.Bytes()) }

// ClusterSecret returns the secret that all members share; it proves
// membership in peer_announce and is never sent after the join.
func (id *Identity) ClusterSecret() []byte { return id.secret.Bytes() }

// Derived returns a secret that all members share, for one purpose.
func (id *Identity) Derived(purpose string) []byte {
	h := hmac.New(sha256.New, id.ClusterSecret())
	h.Write([]byte(purpose))
	return h.Sum(nil)
}

// Verifier returns what records of this cluster are checked against.
func (id *Identity) Verifier() member.Verifier {
	return member.Verifier{Cluster: id.Cluster, RootPub: id.RootPub}
}

// String names the host and its cluster, without secrets.
func (id *Identity) String() string { return fmt.Sprintf("%s of cluster %s", id.Node, id.Cluster) }

// identityFile is the JSON form of identity.json and pending.json.
type identityFile struct {
	Version     int              `json:"version"`
	Cluster     member.ClusterID `json:"cluster"`
	ClusterName string           `json:"cluster_name,omitempty"`
	Network     netip.Prefix     `json:"network"`
	Node        cluster.NodeID   `json:"node"`
	IDKey       []byte           `json:"id_key"`
	WGKey       []byte           `json:"wg_key"`
	RootPub     []byte           `json:"root_pub"`
	Secret      []byte           `json:"cluster_secret"`
	WGOld       []oldKeyFile     `json:"wg_old,omitempty"`

	sealed bool // the file had a checksum
}

// fileVersion is the version of every JSON file of this package.
const fileVersion = 1

func (f identityFile) identity() (*Identity, error) {
	if f.Version != fileVersion {
		return nil, fmt.Errorf("version %d, this program reads %d", f.Version, fileVersion)
	}
	if _, err := cluster.ParseHostName(string(f.Node)); err != nil {
		return nil, err
	}
	if len(f.IDKey) != ed25519.SeedSize || len(f.RootPub) != ed25519.PublicKeySize {
		return nil, errors.New("key of wrong length")
	}
	wg, err := ecdh.X25519().NewPrivateKey(f.WGKey)
	if err != nil {
		return nil, errors.New("wireguard key of wrong length")
	}
	id := &Identity{
		Cluster: f.Cluster, ClusterName: f.ClusterName, Network: f.Network, Node: f.Node, RootPub: f.RootPub,
		WGPub: [32]byte(wg.PublicKey().Bytes()),
		idKey: token.NewSecret(f.IDKey), wgKey: token.NewSecret(f.WGKey), secret: token.NewSecret(f.Secret),
	}
	if id.wgOld, err = readOldKeys(f.WGOld); err != nil {
		return nil, err
	}
	id.IDPub = publicOf(id.IDKey())
	return id, nil
}

// newKeys draws a fresh identity and WireGuard key.
func newKeys(node cluster.NodeID) (identityFile, error) {
	wg, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return identityFile{}, fmt.Errorf("draw wireguard key: %w", err)
	}
	return identityFile{
		Version: fileVersion, Node: node,
		IDKey: token.RandomSecret(ed25519.SeedSize).Bytes(), WGKey: wg.Bytes(),
	}, nil
}

// Load reads the identity and the membership records of a state directory.
// The error wraps ErrNotInitialised if it has none, and ErrLeft if its host has
// left the cluster; it is a *durable.DamagedError if one of them is damaged or gone.
func Load(dir string) (*Identity, member.Records, error) {
	id, err := loadIdentity(dir)
	if err != nil {
		return nil, member.Records{}, err
	}
	return withRecords(dir, id)
}

// LoadPast is Load also for the directory of a host that left: to look at what
// it holds.
func LoadPast(dir string) (*Identity, member.Records, error) {
	id, err := loadAny(dir)
	if err != nil {
		return nil, member.Records{}, err
	}
	return withRecords(dir, id)
}

func withRecords(dir string, id *Identity) (*Identity, member.Records, error) {
	b, _, err := durable.Records.Read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = durable.Records.Missing(dir)
	}
	if err != nil {
		return nil, member.Records{}, err
	}
	rs, err := member.DecodeRecords(b)
	if err != nil {
		return nil, member.Records{}, durable.Records.Damaged(dir, "%v", err)
	}
	if !id.sealed {
		if what := rs.Contradiction(id.Verifier(), id.Node, id.IDPub, id.WGPub); what != "" {
			return nil, member.Records{}, durable.Identity.Damaged(dir, "%s", what)
		}
	}
	return id, rs, nil
}

func loadIdentity(dir string) (*Identity, error) {
	id, err := loadAny(dir)
	if err != nil {
		return nil, err
	}
	switch _, err := os.Stat(filepath.Join(dir, leftFile)); {
	case err == nil:
		return nil, fmt.Errorf("%s: %w", dir, ErrLeft)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read %s: %w", dir, err)
	}
	return id, nil
}

// loadAny is loadIdentity also where the host left.
func loadAny(dir string) (*Identity, error) {
	f, err := readIdentity(dir)
	if err != nil {
		return nil, err
	}
	id, err := f.member()
	if err != nil {
		return nil, durable.Identity.Damaged(dir, "%v", err)
	}
	id.sealed = f.sealed
	return id, nil
}

func readIdentity(dir string) (f identityFile, err error) {
	f.sealed, err = durable.Identity.ReadJSON(dir, &f)
	if errors.Is(err, fs.ErrNotExist) {
		if !starts.First(dir) {
			return f, durable.Identity.Missing(dir)
		}
		return f, fmt.Errorf("%s: %w", dir, ErrNotInitialised)
	}
	return f, err
}

// member is identity for a host that was admitted.
func (f identityFile) member() (*Identity, error) {
	id, err := f.identity()
	if err != nil {
		return nil, err
	}
	if err := member.CheckCIDR(id.Network); err != nil {
		return nil, err
	}
	if len(f.Secret) != token.SecretLen {
		return nil, errors.New("cluster secret of wrong length")
	}
	return id, nil
}

// saveRecords writes the membership records that a host begins with. From then
// on the coordination service owns the file.
func saveRecords(dir string, rs member.Records) error {
	return durable.Records.WriteJSON(dir, rs)
}

// MarkLeft notes that this host is no longer a member: Load refuses the state
// directory from now on (ErrLeft), and so do Init and Join.
func MarkLeft(dir string) error {
	if err := durable.WriteFile(filepath.Join(dir, leftFile), []byte("left\n"), fileMode); err != nil {
		return fmt.Errorf("mark as left: %w", err)
	}
	return nil
}
