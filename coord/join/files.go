package join

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/skein-project/skein/coord/join/starts"
	"github.com/skein-project/skein/internal/durable"
)

// leftFile marks the directory of a host that left.
const leftFile = "left"

// fileMode keeps every file of a state directory to its owner.
const fileMode = 0o600

// Check reports what is damaged or missing of a state directory, without changing
// it: each error is a *durable.DamagedError, or says why a file cannot be read.
func Check(dir string) (bad []error) {
	add := func(err error) {
		if err != nil {
			bad = append(bad, err)
		}
	}
	id, rs, err := LoadPast(dir)
	if errors.Is(err, ErrNotInitialised) {
		add(durable.PendingKeys.Check(dir))
		return bad
	}
	add(err)
	if _, err := OpenInvites(dir); durable.IsDamaged(err) {
		add(err)
	}
	add(starts.Check(dir, durable.Boot))
	add(starts.Check(dir, durable.Epoch))
	if _, err := readNextKey(dir); !errors.Is(err, fs.ErrNotExist) {
		add(err)
	}
	if id == nil {
		add(durable.RootKey.Check(dir))
		return bad
	}
	if _, err := RootKey(dir, id.RootPub); err != nil {
		add(err)
	}
	if _, err := os.Stat(durable.Invites.Path(dir)); errors.Is(err, fs.ErrNotExist) && rs.LastSerial(id.IDPub) > 0 {
		add(durable.Invites.Missing(dir)) // it counts the certificates of this host
	}
	return bad
}

// Seal writes the identity and the root key with a checksum, where a release before
// wrote them without one: nothing else ever writes them again.
func Seal(dir string) error {
	for _, f := range []*durable.File{durable.Identity, durable.RootKey} {
		data, sealed, err := f.Read(dir)
		if errors.Is(err, fs.ErrNotExist) || durable.IsDamaged(err) || err == nil && sealed {
			continue
		}
		if err == nil && f == durable.RootKey {
			if _, bad := parseRoot(data); bad != nil {
				continue // it is damaged, and must not read as whole
			}
		}
		if err == nil {
			err = f.Write(dir, data)
		}
		if err == nil {
			err = sameOwner(dir, f.Path(dir))
		}
		if err != nil {
			return fmt.Errorf("write a checksum: %w", err)
		}
	}
	return nil
}
