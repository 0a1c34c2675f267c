package join

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join/door"
	"github.com/skein-project/skein/coord/join/token"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/internal/durable"
)

// Limits of invites.
const (
	MaxInvites = 256 // kept at once
	MaxUses    = 128 // of one invite
	MaxTTL     = 30 * 24 * time.Hour
	// maxSerial bounds certificates' serial numbers.
	maxSerial = 1<<53 - 1
	// keepSpent is how long an invite is listed after its time.
	keepSpent = 7 * 24 * time.Hour
)

// Invite is what an operator may see of an invite.
type Invite struct {
	ID        string           `json:"id"`
	Created   time.Time        `json:"created"`
	Expires   time.Time        `json:"expires"`
	Uses      int              `json:"uses"`
	Revoked   bool             `json:"revoked"`
	Spent     []cluster.NodeID `json:"spent"`     // who joined by it
	Owner     string           `json:"owner"`     // whose these hosts are; empty: nobody's
	Ephemeral bool             `json:"ephemeral"` // see token.For
}

// Open reports whether a new host may still use i at now.
func (i Invite) Open(now time.Time) bool {
	return !i.Revoked && now.Before(i.Expires) && len(i.Spent) < i.Uses
}

// Invites keeps a sponsor's invites in its state directory. Its methods may be
// called from any goroutine; what they change is durable when they return.
type Invites struct {
	dir string

	mu    sync.Mutex
	state invitesFile // guarded by mu
}

type invitesFile struct {
	Version int          `json:"version"`
	Serial  uint64       `json:"serial"` // of the last certificate
	Invites []inviteFile `json:"invites"`
}

type inviteFile struct {
	ID        string    `json:"id"`
	Secret    []byte    `json:"secret"`
	Created   time.Time `json:"created"`
	Expires   time.Time `json:"expires"`
	Uses      int       `json:"uses"`
	Revoked   bool      `json:"revoked,omitempty"`
	Spent     []spent   `json:"spent,omitempty"`
	Owner     string    `json:"owner,omitempty"`
	Ephemeral bool      `json:"ephemeral,omitempty"` // as ID tells

	client [32]byte // see setClient
}

// spent is one use: who, and exactly what was answered.
type spent struct {
	IDPub  []byte         `json:"id_pub"`
	Node   cluster.NodeID `json:"node"`
	Told   bool           `json:"told"` // the daemon's hook succeeded
	Cert   member.Signed  `json:"cert"`
	Answer []byte         `json:"answer"` // base64, so that no encoder touches it
}

// OpenInvites reads the invites of a state directory. With an error that is a
// *durable.DamagedError it returns none, to go on with: the tokens are void.
func OpenInvites(dir string) (*Invites, error) {
	s := &Invites{dir: dir, state: invitesFile{Version: fileVersion}}
	_, err := durable.Invites.ReadJSON(dir, &s.state)
	if err == nil {
		if bad := s.state.check(); bad != nil {
			err = durable.Invites.Damaged(dir, "%v", bad)
		}
	}
	switch {
	case durable.IsDamaged(err):
		return &Invites{dir: dir, state: invitesFile{Version: fileVersion}}, err
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	for i := range s.state.Invites {
		s.state.Invites[i].setClient()
	}
	return s, nil
}

// check refuses a file that this program did not write.
func (f invitesFile) check() error {
	if f.Version != fileVersion {
		return fmt.Errorf("version %d, this program reads %d", f.Version, fileVersion)
	}
	if len(f.Invites) > MaxInvites || f.Serial > maxSerial {
		return fmt.Errorf("%d invites, serial %d", len(f.Invites), f.Serial)
	}
	for _, i := range f.Invites {
		switch {
		case !token.Valid(i.ID):
			return errors.New("invite without a valid id")
		case len(i.Secret) != token.SecretLen:
			return fmt.Errorf("invite %s: secret of wrong length", i.ID)
		case i.Uses < 1 || i.Uses > MaxUses || len(i.Spent) > i.Uses:
			return fmt.Errorf("invite %s: %d of %d uses spent", i.ID, len(i.Spent), i.Uses)
		case i.Owner != "" && cluster.CheckPrincipal(i.Owner) != nil:
			return fmt.Errorf("invite %s: owner %q", i.ID, i.Owner)
		}
		for _, u := range i.Spent {
			if len(u.IDPub) != ed25519.PublicKeySize || u.Cert.IsZero() || len(u.Answer) == 0 {
				return fmt.Errorf("invite %s: damaged use", i.ID)
			}
		}
	}
	return nil
}

// Create makes an invite for uses hosts, valid for ttl from now, and returns
// its token. Addrs are the sponsor's join addresses, host:port; id is the
// identity that the Sponsor has.
func (s *Invites) Create(id *Identity, addrs []string, ttl time.Duration, uses int, now time.Time) (token.Token, error) {
	return s.CreateFor(token.For{}, id, addrs, ttl, uses, now)
}

// CreateFor is Create for certain hosts.
func (s *Invites) CreateFor(whom token.For, id *Identity, addrs []string, ttl time.Duration, uses int, now time.Time) (token.Token, error) {
	owner := whom.Owner
	if ttl < time.Second || ttl > MaxTTL {
		return token.Token{}, fmt.Errorf("create invite: ttl %s, want 1s-%s", ttl, MaxTTL)
	}
	if uses < 1 || uses > MaxUses {
		return token.Token{}, fmt.Errorf("create invite: %d uses, want 1-%d", uses, MaxUses)
	}
	if err := token.CheckAddrs(addrs); err != nil {
		return token.Token{}, fmt.Errorf("create invite: %w", err)
	}
	if owner != "" {
		if err := cluster.CheckPrincipal(owner); err != nil {
			return token.Token{}, fmt.Errorf("create invite: owner: %w", err)
		}
	}
	inv := inviteFile{
		ID: whom.NewID(id.ClusterSecret(), id.Node), Secret: token.RandomSecret(token.SecretLen).Bytes(),
		Created: now.UTC(), Expires: now.Add(ttl).UTC(), Uses: uses, Owner: owner, Ephemeral: whom.Ephemeral,
	}
	inv.setClient()
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.state.clone()
	next.prune(now)
	if len(next.Invites) >= MaxInvites {
		return token.Token{}, fmt.Errorf("create invite: %d are kept already", MaxInvites)
	}
	next.Invites = append(next.Invites, inv)
	if err := s.commit(next); err != nil {
		return token.Token{}, fmt.Errorf("create invite: %w", err)
	}
	return token.Token{
		Cluster: id.Cluster, Addrs: slices.Clone(addrs), IDPub: id.IDPub, WGPub: id.WGPub, RootPub: id.RootPub,
		Invite: inv.ID, Secret: token.NewSecret(inv.Secret), Deadline: inv.Expires, Network: id.Network,
	}, nil
}

// List returns all invites, oldest first.
func (s *Invites) List() []Invite {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Invite, 0, len(s.state.Invites))
	for _, i := range s.state.Invites {
		v := Invite{ID: i.ID, Created: i.Created, Expires: i.Expires, Uses: i.Uses, Revoked: i.Revoked, Spent: []cluster.NodeID{}, Owner: i.Owner, Ephemeral: i.Ephemeral}
		for _, u := range i.Spent {
			v.Spent = append(v.Spent, u.Node)
		}
		out = append(out, v)
	}
	return out
}

// Revoke ends an invite; hosts that joined by it stay. The error wraps
// door.ErrNoInvite if it is not known.
func (s *Invites) Revoke(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.state.clone()
	i := next.find(id)
	if i == nil {
		return fmt.Errorf("revoke invite %q: %w", id, door.ErrNoInvite)
	}
	i.Revoked = true
	if err := s.commit(next); err != nil {
		return fmt.Errorf("revoke invite %s: %w", id, err)
	}
	return nil
}

// get returns a copy of an invite, zero if it is not known.
func (s *Invites) get(id string) (inviteFile, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.state.find(id); i != nil {
		return *i, true
	}
	return inviteFile{}, false
}

// issued returns the certificates that were given by an invite, as long as the
// invite is kept: by then all know them.
func (s *Invites) issued(now time.Time) []member.Signed {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []member.Signed
	for _, i := range s.state.Invites {
		if i.stale(now) {
			continue
		}
		for _, u := range i.Spent {
			out = append(out, u.Cert)
		}
	}
	return out
}

// nextSerial returns the serial number for the next certificate. The use that
// spend writes makes it durable.
func (s *Invites) nextSerial() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Serial + 1
}

// spend writes a use of an invite down. It checks again what may have changed
// since get.
func (s *Invites) spend(id string, u spent, serial uint64, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.state.clone()
	i := next.find(id)
	if i == nil || i.Revoked || !now.Before(i.Expires) || len(i.Spent) >= i.Uses {
		return fmt.Errorf("spend invite: %w", door.ErrNoInvite)
	}
	i.Spent = append(slices.Clone(i.Spent), u)
	next.Serial = max(next.Serial, serial)
	return s.commit(next)
}

// countFrom has the next certificate get a higher serial number than last, where
// no file says which was the last.
func (s *Invites) countFrom(last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Serial = max(s.state.Serial, last)
}

// issue notes the serial number of a certificate that no invite gave.
func (s *Invites) issue(serial uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.state.clone()
	next.Serial = max(next.Serial, serial)
	return s.commit(next)
}

// told notes that the daemon knows of the host with idPub.
func (s *Invites) told(id string, idPub []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.state.clone()
	i := next.find(id)
	if i == nil {
		return nil // pruned meanwhile: nobody will ask again
	}
	i.Spent = slices.Clone(i.Spent)
	for k := range i.Spent {
		if bytes.Equal(i.Spent[k].IDPub, idPub) {
			i.Spent[k].Told = true
		}
	}
	return s.commit(next)
}

// commit makes next durable, then current.
func (s *Invites) commit(next invitesFile) error {
	if err := durable.Invites.WriteJSON(s.dir, next); err != nil {
		return err
	}
	s.state = next
	return nil
}

func (f invitesFile) clone() invitesFile {
	f.Invites = slices.Clone(f.Invites)
	return f
}

func (f *invitesFile) find(id string) *inviteFile {
	for i := range f.Invites {
		if f.Invites[i].ID == id {
			return &f.Invites[i]
		}
	}
	return nil
}

// prune drops invites that ended long ago.
func (f *invitesFile) prune(now time.Time) {
	f.Invites = slices.DeleteFunc(f.Invites, func(i inviteFile) bool { return i.stale(now) })
}

func (i inviteFile) stale(now time.Time) bool { return now.Sub(i.Expires) > keepSpent }

// by returns the use by an identity key.
func (i inviteFile) by(idPub []byte) (spent, bool) {
	for _, u := range i.Spent {
		if bytes.Equal(u.IDPub, idPub) {
			return u, true
		}
	}
	return spent{}, false
}

// Knows reports whether an invite was made here and is kept.
func (s *Invites) Knows(id string) bool {
	_, ok := s.get(id)
	return ok
}
