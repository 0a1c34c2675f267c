package access

import (
	"crypto/ed25519"
	"time"
)

// Directory finds users by what proves them. It is immutable.
type Directory struct {
	byName map[string]User
	byKey  map[string]key
	byUID  map[uint64]string
}

type key struct {
	user string
	key  ed25519.PublicKey
}

// NewDirectory makes a Directory of users. A key, or a uid, of two of them is
// nobody's: which of both would be a guess.
func NewDirectory(users []User) *Directory {
	d := &Directory{byName: make(map[string]User, len(users)), byKey: make(map[string]key), byUID: make(map[uint64]string)}
	for _, u := range users {
		d.byName[u.Name] = u
		for _, k := range u.Keys {
			id := KeyID(k)
			if _, twice := d.byKey[id]; twice {
				d.byKey[id] = key{}
				continue
			}
			d.byKey[id] = key{user: u.Name, key: k}
		}
		for _, uid := range u.UIDs {
			if _, twice := d.byUID[uid]; twice {
				d.byUID[uid] = ""
				continue
			}
			d.byUID[uid] = u.Name
		}
	}
	return d
}

// Key returns who has the key with this KeyID, and the key; nil if nobody has.
func (d *Directory) Key(id string) (User, ed25519.PublicKey) {
	k := d.byKey[id]
	return d.byName[k.user], k.key
}

// User returns a user by name.
func (d *Directory) User(name string) (User, bool) {
	u, ok := d.byName[name]
	return u, ok
}

// UID returns who somebody of this uid is on the socket of a host, Nobody if no user.
func (d *Directory) UID(uid uint64) User { return d.byName[d.byUID[uid]] }

// Proven returns who signed r, at the time now. A nonce that was there before is for
// the caller to refuse, afterwards.
func (d *Directory) Proven(p Proof, r Request, now time.Time) (User, error) {
	u, k := d.Key(p.Key)
	switch {
	case k == nil:
		return User{}, refused("key %.32q is nobody's", p.Key)
	case u.Disabled:
		return User{}, refused("user %s is disabled", u.Name)
	}
	return u, p.Verify(r, k, now)
}
