package join

import (
	"crypto/ecdh"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/skein-project/skein/coord/join/token"
	"github.com/skein-project/skein/internal/durable"
)

// A host changes its WireGuard key in three steps, each of which is on disk
// before anyone hears of it: StageWGKey draws the next key, Announce tells it
// (About.Next), PromoteWGKey makes it the key. After a crash the staged key is
// still there, and a daemon that does not want it drops it by announcing
// without it; the key of identity.json is always the one to use.

// Bounds of the WireGuard keys that are kept for open tokens. A daemon makes
// tokens that name the key of its start.
const (
	maxOldKeys = 8
	keepOld    = 2 * MaxTTL
)

// oldKey is a WireGuard key that this host had until a time.
type oldKey struct {
	key   token.Secret
	until time.Time
}

type oldKeyFile struct {
	Key   []byte    `json:"key"`
	Until time.Time `json:"until"`
}

func readOldKeys(fs []oldKeyFile) ([]oldKey, error) {
	if len(fs) > maxOldKeys {
		return nil, fmt.Errorf("%d former wireguard keys", len(fs))
	}
	var out []oldKey
	for _, f := range fs {
		if _, err := ecdh.X25519().NewPrivateKey(f.Key); err != nil {
			return nil, errors.New("former wireguard key of wrong length")
		}
		out = append(out, oldKey{key: token.NewSecret(f.Key), until: f.Until})
	}
	return out, nil
}

// tokenKeys returns the private WireGuard keys that an open token may name.
func (id *Identity) tokenKeys(now time.Time) [][32]byte {
	out := [][32]byte{id.WGKey()}
	for _, o := range id.wgOld {
		if now.Sub(o.until) < keepOld {
			out = append(out, [32]byte(o.key.Bytes()))
		}
	}
	return out
}

// nextKeyJSON is the JSON form of wg-next.json.
type nextKeyJSON struct {
	Version int    `json:"version"`
	Key     []byte `json:"wg_key"`
}

// StageWGKey draws the WireGuard key that is to replace id's, durable before it
// returns its public half. A key that was staged and not promoted is returned
// again.
func StageWGKey(dir string, id *Identity) (pub [32]byte, err error) {
	if pub, ok, err := StagedWGKey(dir, id); err != nil || ok {
		return pub, err
	}
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return pub, fmt.Errorf("stage wireguard key: %w", err)
	}
	if err := durable.NextKey.WriteJSON(dir, nextKeyJSON{Version: fileVersion, Key: key.Bytes()}); err != nil {
		return pub, fmt.Errorf("stage wireguard key: %w", err)
	}
	return [32]byte(key.PublicKey().Bytes()), nil
}

// StagedWGKey returns the public half of the staged WireGuard key, if there is
// one that is not id's already.
func StagedWGKey(dir string, id *Identity) (pub [32]byte, ok bool, err error) {
	key, err := readNextKey(dir)
	if errors.Is(err, fs.ErrNotExist) || durable.IsDamaged(err) {
		return pub, false, nil // another is drawn: nobody relies on one that was not promoted
	}
	if err != nil {
		return pub, false, fmt.Errorf("staged wireguard key: %w", err)
	}
	pub = [32]byte(key.PublicKey().Bytes())
	if pub == id.WGPub { // promoted, and then the host went down
		return [32]byte{}, false, nil
	}
	return pub, true, nil
}

func readNextKey(dir string) (*ecdh.PrivateKey, error) {
	var f nextKeyJSON
	if _, err := durable.NextKey.ReadJSON(dir, &f); err != nil {
		return nil, err
	}
	if f.Version != fileVersion {
		return nil, durable.NextKey.Damaged(dir, "version %d, this program reads %d", f.Version, fileVersion)
	}
	key, err := ecdh.X25519().NewPrivateKey(f.Key)
	if err != nil {
		return nil, durable.NextKey.Damaged(dir, "a key of wrong length")
	}
	return key, nil
}

// PromoteWGKey makes the staged WireGuard key this host's, durable before it
// returns the new identity. The error wraps ErrNoStagedKey if there is none.
func PromoteWGKey(dir string, id *Identity) (*Identity, error) {
	next, err := promote(dir, id)
	if err != nil {
		return nil, fmt.Errorf("promote wireguard key: %w", err)
	}
	return next, nil
}

func promote(dir string, id *Identity) (*Identity, error) {
	key, err := readNextKey(dir)
	if errors.Is(err, fs.ErrNotExist) || durable.IsDamaged(err) {
		return nil, ErrNoStagedKey
	}
	if err != nil {
		return nil, err
	}
	f, err := readIdentity(dir)
	if err != nil {
		return nil, err
	}
	current, err := f.member()
	if err != nil {
		return nil, err
	}
	if current.Cluster != id.Cluster || !current.IDPub.Equal(id.IDPub) {
		return nil, fmt.Errorf("%s is %s's: %w", dir, current, ErrInitialised)
	}
	if current.WGPub != [32]byte(key.PublicKey().Bytes()) {
		now := time.Now().UTC()
		old := []oldKeyFile{{Key: f.WGKey, Until: now}}
		for _, o := range f.WGOld {
			if len(old) < maxOldKeys && now.Sub(o.Until) < keepOld {
				old = append(old, o)
			}
		}
		f.WGKey, f.WGOld = key.Bytes(), old
		if err := durable.Identity.WriteJSON(dir, f); err != nil {
			return nil, err
		}
	}
	// From here on the key is promoted, whatever becomes of the other file.
	if err := os.Remove(durable.NextKey.Path(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := durable.SyncDir(dir); err != nil {
		return nil, err
	}
	return f.member()
}
