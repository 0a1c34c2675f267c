package onion

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/publisher/descriptor"
)

// keyring holds the keys of the onion addresses that this host may publish,
// each in a directory of its own in tor's form, so that tor can serve it.
type keyring struct {
	dir string

	mu   sync.Mutex
	keys map[descriptor.Address]descriptor.SecretKey
	bad  []string // what could not be read, for people
}

// MaxKeyFile bounds the content of a key file, and what is made of it.
const MaxKeyFile = 4096

// Files of a key's directory, as tor names them.
const (
	secretFile  = "hs_ed25519_secret_key"
	publicFile  = "hs_ed25519_public_key"
	addressFile = "hostname"
)

// openKeyring reads the keys. One that cannot be used is left out and named.
func openKeyring(dir string) (*keyring, error) {
	r := &keyring{dir: dir, keys: map[descriptor.Address]descriptor.SecretKey{}}
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("keys of onion addresses: %w", err)
	}
	for _, e := range list {
		a, err := descriptor.ParseAddress(e.Name())
		var k descriptor.SecretKey
		if err == nil {
			k, err = readOnionKey(filepath.Join(r.at(a), secretFile), a)
		}
		if err != nil {
			r.bad = append(r.bad, fmt.Sprintf("key %.64s: %v", e.Name(), err))
			continue
		}
		r.keys[a] = k
	}
	return r, nil
}

// readOnionKey reads the secret key of an address from tor's file.
func readOnionKey(file string, a descriptor.Address) (k descriptor.SecretKey, err error) {
	info, err := os.Lstat(file)
	switch {
	case err != nil:
		return k, err
	case !info.Mode().IsRegular():
		return k, fmt.Errorf("%s is not a file", file)
	case info.Mode().Perm()&0o077 != 0:
		return k, fmt.Errorf("%s has mode %04o, others could read it (hint: chmod 600 it, and think of who did)", file, info.Mode().Perm())
	case info.Size() > MaxKeyFile:
		return k, fmt.Errorf("%s has %d bytes", file, info.Size())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return k, err
	}
	k, err = descriptor.ParseSecretKey(text)
	switch {
	case err != nil:
		return k, fmt.Errorf("%s: %w (hint: put a copy of it there, or have another host grant it)", file, err)
	case k.Address() != a:
		return k, fmt.Errorf("%s is the key of %s", file, k.Address())
	}
	return k, nil
}

// at is the directory of an address.
func (r *keyring) at(a descriptor.Address) string { return filepath.Join(r.dir, a.ID()) }

// get returns a key; false if this host has none.
func (r *keyring) get(a descriptor.Address) (descriptor.SecretKey, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, ok := r.keys[a]
	return k, ok
}

// addresses are those of the keys, sorted.
func (r *keyring) addresses() []descriptor.Address {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Keys(r.keys), func(a, b descriptor.Address) int { return strings.Compare(a.ID(), b.ID()) })
}

func (r *keyring) problems() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.bad)
}

// add keeps a key; it is on the disk when this returns.
func (r *keyring) add(k descriptor.SecretKey) error {
	a := k.Address()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := os.MkdirAll(r.at(a), 0o700); err != nil {
		return fmt.Errorf("keep onion key: %w", err)
	}
	for name, text := range map[string][]byte{addressFile: []byte(a.String() + "\n"), publicFile: a.PublicFile(), secretFile: k.File()} {
		if err := durable.WriteFile(filepath.Join(r.at(a), name), text, 0o600); err != nil {
			return fmt.Errorf("keep onion key: %w", err)
		}
	}
	if err := durable.SyncDir(r.dir); err != nil {
		return fmt.Errorf("keep onion key: %w", err)
	}
	r.keys[a] = k
	return nil
}

// floorsFile keeps the revisions that were posted for one address.
type floorsFile struct{ name string }

type savedFloor struct {
	Period   uint64 `json:"period"`
	Length   uint64 `json:"length"`
	Revision uint64 `json:"revision"`
}

func (f floorsFile) file() *durable.File {
	return &durable.File{Name: filepath.Base(f.name), What: "the revisions of an onion address's descriptors"}
}

// maxFloors is far above the handful that are kept.
const maxFloors = 64

// Load implements publisher.Floors.
func (f floorsFile) Load() (map[descriptor.Period]uint64, error) {
	var list []savedFloor
	_, err := f.file().ReadJSON(filepath.Dir(f.name), &list)
	if errors.Is(err, fs.ErrNotExist) || durable.IsDamaged(err) || len(list) > maxFloors {
		// A lost floor costs one refused post: what the directories have is read then.
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := map[descriptor.Period]uint64{}
	for _, s := range list {
		out[descriptor.Period{Number: s.Period, Length: s.Length}] = s.Revision
	}
	return out, nil
}

// Save implements publisher.Floors.
func (f floorsFile) Save(floors map[descriptor.Period]uint64) error {
	list := []savedFloor{}
	for p, rev := range floors {
		list = append(list, savedFloor{Period: p.Number, Length: p.Length, Revision: rev})
	}
	slices.SortFunc(list, func(a, b savedFloor) int { return int(a.Period) - int(b.Period) }) //nolint:gosec // days
	if err := os.MkdirAll(filepath.Dir(f.name), 0o700); err != nil {
		return err
	}
	return f.file().WriteJSON(filepath.Dir(f.name), list)
}
