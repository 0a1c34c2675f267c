package join

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/internal/durable"
)

// RootKey reads the root key of a state directory, nil if it is not there. Pub is
// its public half; a file that has another key is damaged.
func RootKey(dir string, pub ed25519.PublicKey) (ed25519.PrivateKey, error) {
	b, _, err := durable.RootKey.Read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	root, err := parseRoot(b)
	if err != nil {
		return nil, durable.RootKey.Damaged(dir, "%v", err)
	}
	if !publicOf(root).Equal(pub) {
		return nil, durable.RootKey.Damaged(dir, "it is not the key of this cluster")
	}
	return root, nil
}

func parseRoot(b []byte) (ed25519.PrivateKey, error) {
	seed, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(b)))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, errors.New("not a root key")
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

func writeRootKey(dir string, root ed25519.PrivateKey) error {
	return durable.RootKey.Write(dir, []byte(base64.StdEncoding.EncodeToString(root.Seed())))
}

// rootExport is the JSON form of an exported root key.
type rootExport struct {
	Version int              `json:"version"`
	Cluster member.ClusterID `json:"cluster"`
	Name    string           `json:"cluster_name,omitempty"`
	RootPub []byte           `json:"root_pub"`
	RootKey []byte           `json:"root_key"`
}

// ExportRoot writes the root key of state directory dir to file, mode 0600, and
// reads it back. It refuses a file that exists. With remove it then deletes the
// key from dir: the host goes on as a sponsor, but makes and ends no sponsors
// until ImportRoot. The error wraps ErrNoRoot if the key is not there.
func ExportRoot(dir, file string, remove bool) error {
	if err := exportRoot(dir, file, remove); err != nil {
		return fmt.Errorf("export root key of %s: %w", dir, err)
	}
	return nil
}

func exportRoot(dir, file string, remove bool) error {
	id, root, err := ownRoot(dir)
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(rootExport{
		Version: fileVersion, Cluster: id.Cluster, Name: id.ClusterName, RootPub: id.RootPub, RootKey: root.Seed(),
	}, "", "  ")
	if err != nil {
		return err
	}
	if err := writeNew(file, append(b, '\n')); err != nil {
		return err
	}
	if back, err := readExport(file, id); err != nil {
		return err
	} else if !back.Equal(root) {
		return fmt.Errorf("%s does not read as it was written", file)
	}
	if !remove {
		return nil
	}
	if err := os.Remove(durable.RootKey.Path(dir)); err != nil {
		return err
	}
	return durable.SyncDir(dir)
}

// writeNew creates file durably; it refuses one that exists.
func writeNew(file string, b []byte) (err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file) // half of a key is worth nothing
		}
	}()
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(file))
}

// ImportRoot puts an exported root key back into state directory dir, which
// must be a member's of the same cluster.
func ImportRoot(dir, file string) error {
	id, err := loadIdentity(dir)
	if err == nil {
		var root ed25519.PrivateKey
		if root, err = readExport(file, id); err == nil {
			err = writeRootKey(dir, root)
		}
		if err == nil { // the daemon must be able to read what root imported
			err = sameOwner(dir, durable.RootKey.Path(dir))
		}
	}
	if err != nil {
		return fmt.Errorf("import root key into %s: %w", dir, err)
	}
	return nil
}

// ownRoot returns the identity and the root key of dir.
func ownRoot(dir string) (*Identity, ed25519.PrivateKey, error) {
	id, err := loadIdentity(dir)
	if err != nil {
		return nil, nil, err
	}
	root, err := RootKey(dir, id.RootPub)
	if err != nil {
		return nil, nil, err
	}
	if root == nil {
		return nil, nil, ErrNoRoot
	}
	return id, root, nil
}

func readExport(file string, id *Identity) (ed25519.PrivateKey, error) {
	var x rootExport
	export := durable.File{Name: filepath.Base(file), What: "an exported root key", Limit: 64 << 10}
	if _, err := export.ReadJSON(filepath.Dir(file), &x); err != nil {
		return nil, err
	}
	if x.Version != fileVersion || len(x.RootKey) != ed25519.SeedSize {
		return nil, fmt.Errorf("read %s: not a root key", file)
	}
	if x.Cluster != id.Cluster {
		return nil, fmt.Errorf("%s is of cluster %s: %w", file, x.Cluster, ErrOtherCluster)
	}
	root := ed25519.NewKeyFromSeed(x.RootKey)
	if !publicOf(root).Equal(id.RootPub) {
		return nil, fmt.Errorf("read %s: damaged, it is not the root key of this cluster", file)
	}
	return root, nil
}
