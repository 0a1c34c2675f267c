package join

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join/starts"
	"github.com/skein-project/skein/coord/join/token"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/internal/durable"
)

// admit lets node join and returns its state directory.
func (s *site) admit(node cluster.NodeID) string {
	s.t.Helper()
	dir := filepath.Join(s.t.TempDir(), string(node))
	if err := Join(s.t.Context(), s.token(1), dir, s.options(node)); err != nil {
		s.t.Fatal(err)
	}
	return dir
}

// merge adds records to what the site's host knows.
func (s *site) merge(rs member.Records) member.Change {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	ch, err := s.table.AddAll(rs, s.now)
	if err != nil {
		s.t.Fatal(err)
	}
	return ch
}

func (s *site) cert(node cluster.NodeID) member.Cert {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.table.Cert(node)
	if !ok {
		s.t.Fatalf("no certificate of %s", node)
	}
	return c
}

func (s *site) renew(node cluster.NodeID) member.Cert {
	s.t.Helper()
	rec, err := s.sponsor.Renew(s.t.Context(), node)
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := member.ParseCert(rec)
	if err != nil {
		s.t.Fatal(err)
	}
	s.merge(member.Records{Certs: []member.Signed{rec}})
	return c
}

func TestRenew(t *testing.T) {
	s := newSite(t)
	for _, n := range []cluster.NodeID{"n2", "n3", "n4"} { // n2 and n3 become sponsors
		s.admit(n)
	}
	old := s.cert("n4")
	if c := s.renew("n4"); c.Serial != old.Serial {
		t.Error("a fresh certificate was renewed")
	}
	if c := s.renew("n2"); !c.Sponsor() || c.Serial != s.cert("n2").Serial {
		t.Error("a sponsor's certificate was renewed")
	}
	s.setWall(old.RenewAt())
	c := s.renew("n4")
	if c.Serial <= old.Serial || c.Issued <= old.Issued || c.IP4 != old.IP4 || c.IP6 != old.IP6 || c.Since != old.Issued || c.Renewed ||
		c.Expires != old.RenewAt().Add(member.DefaultCertLife).Unix() {
		t.Errorf("%+v, before %+v", c, old)
	}
	if err := saveRecords(s.dir, s.records()); err != nil {
		t.Fatal(err)
	}
	s.restart() // the serial number must not be given twice
	s.setWall(c.RenewAt())
	if again := s.renew("n4"); again.Serial <= c.Serial {
		t.Errorf("serial %d again", again.Serial)
	}
	if _, err := s.sponsor.Renew(t.Context(), "n9"); !errors.Is(err, ErrNoMember) {
		t.Errorf("a stranger: %v", err)
	}
}

// TestJoinAgainLater: a host that lost all but its keys joins with another
// invite when its first certificate is over.
func TestJoinAgainLater(t *testing.T) {
	s := newSite(t)
	s.admit("n2")
	s.admit("n3")
	dir := filepath.Join(t.TempDir(), "n4")
	first := s.token(1)
	s.setFail(errors.New("crash"))
	if err := Join(t.Context(), first, dir, s.options("n4")); !errors.Is(err, ErrRefused) {
		t.Fatal(err)
	}
	s.setFail(nil)
	s.setWall(wall.Add(3 * member.DefaultCertLife))
	ann, err := Announce(s.dir, s.id, initOptions("n1").About, s.wall()) // as it does every day
	if err != nil {
		t.Fatal(err)
	}
	s.merge(member.Records{Anns: []member.Signed{ann}})
	if err := Join(t.Context(), s.token(1), dir, s.options("n4")); err != nil {
		t.Fatal(err)
	}
	if c := s.cert("n4"); c.Issued != s.wall().Unix() || c.Since != wall.Unix() {
		t.Errorf("%+v", c)
	}
}

// TestRenewByAnotherSponsor: the address stays, though it lies in a slice that
// is not the sponsor's; with the slice's owner gone, at once.
func TestRenewByAnotherSponsor(t *testing.T) {
	s := newSite(t)
	second := &site{t: t, dir: s.admit("n2"), log: &lockedBuffer{}, now: wall}
	s.admit("n3")
	s.admit("n4")
	second.restart()
	second.merge(s.records())
	old := s.cert("n4")
	leave, err := Leave(s.id, s.cert("n1"), wall)
	if err != nil {
		t.Fatal(err)
	}
	second.merge(member.Records{Revokes: []member.Signed{leave}})
	c := second.renew("n4")
	if !c.Renewed || c.IP4 != old.IP4 || c.Since != old.Issued || !c.Issuer.Equal(second.id.IDPub) {
		t.Errorf("%+v", c)
	}
	// A newcomer believes it.
	fresh := member.NewTable(second.id.Verifier())
	if _, err := fresh.AddAll(second.records(), wall); err != nil {
		t.Error(err)
	}
	if m, ok := fresh.Member("n4"); !ok || m.IP4 != old.IP4 {
		t.Errorf("%+v", m)
	}
}

// TestRenewInAnInheritedSlice: a sponsor that came to its slice after a member
// had its address renews it as one that another sponsor gave.
func TestRenewInAnInheritedSlice(t *testing.T) {
	s := newSite(t)
	for _, n := range []cluster.NodeID{"n2", "n3", "n4"} { // n2 and n3 become sponsors
		s.admit(n)
	}
	own, old := s.cert("n1"), s.cert("n4")
	table := member.NewTable(s.id.Verifier())
	if _, err := table.AddAll(s.records(), wall); err != nil {
		t.Fatal(err)
	}
	for _, later := range []int64{0, 60} {
		own.Issued = old.Since + later
		rec, err := s.sponsor.recertify(table, own, old, 99, wall.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if c, err := member.ParseCert(rec); err != nil || c.Since != old.Since || c.Renewed != (later > 0) {
			t.Errorf("sponsor since %d s after: %+v, %v", later, c, err)
		}
	}
}

// TestRevokeASponsorThatLeft: its key may be stolen all the same, so the root
// key has the last word; elsewhere the leave is returned.
func TestRevokeASponsorThatLeft(t *testing.T) {
	s := newSite(t)
	second := &site{t: t, dir: s.admit("n2"), log: &lockedBuffer{}, now: wall}
	s.admit("n3")
	second.restart()
	second.merge(s.records())
	id, _, err := Load(second.dir)
	if err != nil {
		t.Fatal(err)
	}
	leave, err := Leave(id, s.cert("n2"), wall)
	if err != nil {
		t.Fatal(err)
	}
	s.merge(member.Records{Revokes: []member.Signed{leave}})
	rec, err := s.sponsor.Revoke(t.Context(), "n2", "stolen")
	if err != nil {
		t.Fatal(err)
	}
	if r, err := member.ParseRevoke(rec); err != nil || r.Left() || r.Reason != "stolen" || r.Expires != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if ch := s.merge(member.Records{Revokes: []member.Signed{rec}}); !ch.Stored {
		t.Error("the root key's word is not kept")
	}
	if again, err := s.sponsor.Revoke(t.Context(), "n2", "again"); err != nil || !again.Equal(rec) {
		t.Errorf("once more: %v", err)
	}
}

// TestRenewMakesSponsors: where the root key lies, a member takes the place of
// a sponsor that is gone.
func TestRenewMakesSponsors(t *testing.T) {
	s := newSite(t)
	s.admit("n2")
	s.admit("n3")
	s.admit("n4")
	rec, err := s.sponsor.Revoke(t.Context(), "n2", "sold")
	if err != nil {
		t.Fatal(err)
	}
	s.merge(member.Records{Revokes: []member.Signed{rec}})
	old := s.cert("n4")
	s.setWall(old.RenewAt())
	if c := s.renew("n4"); !c.Sponsor() || c.IP4 != old.IP4 || c.Slice == s.cert("n1").Slice || c.Slice == s.cert("n3").Slice {
		t.Errorf("%+v", c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.table.Sponsors(); n != 3 {
		t.Errorf("%d sponsors", n)
	}
}

// orphan is a site whose root key lies in file, and a second member that is no
// sponsor.
func orphan(t *testing.T, network netip.Prefix) (s, second *site, file string) {
	t.Helper()
	s = newSiteIn(t, network)
	file = filepath.Join(t.TempDir(), "root")
	if err := ExportRoot(s.dir, file, true); err != nil {
		t.Fatal(err)
	}
	second = &site{t: t, dir: s.admit("n2"), log: &lockedBuffer{}, now: wall}
	var err error
	if second.id, _, err = Load(second.dir); err != nil {
		t.Fatal(err)
	}
	return s, second, file
}

// TestPromote makes a member a sponsor by the root key, the first sponsor
// being gone: the others take its certificate, and it does all that a sponsor
// does in addresses of its own.
func TestPromote(t *testing.T) {
	s, second, file := orphan(t, network)
	s.admit("n3")
	id, rs, err := Load(second.dir)
	if err != nil {
		t.Fatal(err)
	}
	invites, err := OpenInvites(second.dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewSponsor(SponsorOptions{
		Identity: id, RootKey: second.rootKey, Invites: invites, Records: func() member.Records { return rs }, OnAdmit: second.onAdmit,
	}); !errors.Is(err, ErrNotSponsor) {
		t.Fatalf("a sponsor without certificate and root key: %v", err)
	}
	if err := ImportRoot(second.dir, file); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // as root beside a daemon of another user
		if err := os.Chown(second.dir, 4711, 4712); err != nil {
			t.Fatal(err)
		}
		if err := ImportRoot(second.dir, file); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(second.dir, durable.RootKey.Name))
		if err != nil {
			t.Fatal(err)
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != 4711 || st.Gid != 4712 || info.Mode().Perm() != fileMode {
			t.Errorf("the imported key is %s of %+v", info.Mode(), info.Sys())
		}
	}
	second.restart()
	second.merge(s.records())
	if _, err := second.sponsor.Renew(t.Context(), "n3"); !errors.Is(err, ErrNotSponsor) {
		t.Errorf("renewal before: %v", err)
	}
	old := second.cert("n2")
	rec, err := second.sponsor.Promote(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := second.sponsor.Promote(t.Context()); err != nil || !again.Equal(rec) {
		t.Errorf("promoted twice: %v", err)
	}
	for _, at := range []*site{s, second} {
		if ch := at.merge(member.Records{Certs: []member.Signed{rec}}); len(ch.Renewed) != 1 || len(ch.Evidence) != 0 {
			t.Errorf("%+v", ch)
		}
		c := at.cert("n2")
		if !c.Sponsor() || c.IP4 != old.IP4 || c.IP6 != old.IP6 || c.Since != old.Since || c.Slice.Overlaps(at.cert("n1").Slice) {
			t.Errorf("%+v", c)
		}
	}
	gone, err := second.sponsor.Revoke(t.Context(), "n1", "burnt")
	if err != nil {
		t.Fatal(err)
	}
	second.merge(member.Records{Revokes: []member.Signed{gone}})
	if c := second.renew("n3"); !c.Issuer.Equal(id.RootPub) || c.IP4 != s.cert("n3").IP4 {
		t.Errorf("renewed by the new sponsor: %+v", c)
	}
	if err := saveRecords(second.dir, second.records()); err != nil {
		t.Fatal(err)
	}
	second.restart() // it finds its certificate again
	second.admit("n4")
	if c := second.cert("n4"); c.Slice.Overlaps(second.cert("n2").Slice) || !c.Slice.Contains(c.IP4) {
		t.Errorf("admitted by the new sponsor: %+v", c)
	}
}

// TestPromoteWithoutSlice: where sponsors own all addresses, the host with the
// root key says so, and removes one of them without being a sponsor.
func TestPromoteWithoutSlice(t *testing.T) {
	_, second, file := orphan(t, netip.MustParsePrefix("10.77.0.0/29"))
	if err := ImportRoot(second.dir, file); err != nil {
		t.Fatal(err)
	}
	second.restart()
	if _, err := second.sponsor.Promote(t.Context()); !errors.Is(err, ErrNoSlice) {
		t.Fatalf("a slice of somebody's: %v", err)
	}
	gone, err := second.sponsor.Revoke(t.Context(), "n1", "burnt")
	if err != nil {
		t.Fatal(err)
	}
	second.merge(member.Records{Revokes: []member.Signed{gone}})
	rec, err := second.sponsor.Promote(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c, err := member.ParseCert(rec); err != nil || !c.Sponsor() {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestRenewAfterConflict gives a host that lost its address another one.
func TestRenewAfterConflict(t *testing.T) {
	s := newSite(t)
	for _, n := range []cluster.NodeID{"n2", "n3", "n4", "n5"} {
		s.admit(n)
	}
	// A sponsor out of a backup has given n4's address to n5.
	c := s.cert("n5")
	c.IP4, c.Issued, c.Since = s.cert("n4").IP4, c.Issued+1, c.Issued+1
	rec, err := c.Sign(s.id.IDKey())
	if err != nil {
		t.Fatal(err)
	}
	if ch := s.merge(member.Records{Certs: []member.Signed{rec}}); len(ch.Evidence) != 1 {
		t.Fatalf("%+v", ch)
	}
	got := s.renew("n5")
	if got.IP4 == c.IP4 || !s.cert("n1").Slice.Contains(got.IP4) {
		t.Errorf("n5 is at %s", got.IP4)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, ok := s.table.Member("n5"); !ok || m.IP4 != got.IP4 || s.table.RenewDue("n5", wall) {
		t.Errorf("%+v", m)
	}
}

func TestRevokeByASponsor(t *testing.T) {
	s := newSite(t)
	second := &site{t: t, dir: s.admit("n2"), log: &lockedBuffer{}, now: wall}
	s.admit("n3")
	dir := filepath.Join(t.TempDir(), "n4")
	tok := s.token(2)
	if err := Join(t.Context(), tok, dir, s.options("n4")); err != nil {
		t.Fatal(err)
	}
	second.restart()
	second.merge(s.records())
	if _, err := second.sponsor.Revoke(t.Context(), "n3", ""); !errors.Is(err, ErrNeedRoot) {
		t.Errorf("a sponsor ends a sponsor: %v", err)
	}
	if _, err := second.sponsor.Revoke(t.Context(), "n2", ""); err == nil {
		t.Error("a sponsor removed itself")
	}
	if _, err := second.sponsor.Revoke(t.Context(), "n9", ""); !errors.Is(err, ErrNoMember) {
		t.Errorf("a stranger: %v", err)
	}
	rec, err := second.sponsor.Revoke(t.Context(), "n4", strings.Repeat("lost ", 30))
	if err != nil {
		t.Fatal(err)
	}
	// Who asked may drop it: it counts from when it is merged.
	if _, err := second.sponsor.Renew(t.Context(), "n4"); err != nil {
		t.Errorf("renewal before it is merged: %v", err)
	}
	second.merge(member.Records{Revokes: []member.Signed{rec}})
	if again, err := second.sponsor.Revoke(t.Context(), "n4", "twice"); err != nil || !again.Equal(rec) {
		t.Errorf("removed twice: %v", err)
	}
	if _, err := second.sponsor.Renew(t.Context(), "n4"); !errors.Is(err, ErrNoMember) {
		t.Errorf("renewal of a removed host: %v", err)
	}
	if ch := s.merge(member.Records{Revokes: []member.Signed{rec}}); len(ch.Removed) != 1 || len(ch.Left) != 0 {
		t.Errorf("%+v", ch)
	}
	old, _ := s.retired("n4")
	// Neither the removed host nor another under its name comes back, and the
	// operator of the sponsor sees why.
	if err := os.Remove(filepath.Join(dir, durable.Identity.Name)); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{dir, filepath.Join(t.TempDir(), "fresh")} {
		if err := Join(t.Context(), tok, at, s.options("n4")); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", at, err)
		}
	}
	if log := s.log.String(); !strings.Contains(log, "belongs to a host that is gone, until "+old.Until.Format(time.DateOnly)) {
		t.Errorf("the sponsor's log does not say so:\n%s", log)
	}
	// Another host never gets the address while the revocation lasts.
	for i := range 5 {
		n := cluster.NodeID(fmt.Sprintf("m%d", i))
		s.admit(n)
		if s.cert(n).IP4 == old.Cert.IP4 {
			t.Error("the address of a removed host was given away")
		}
	}
}

func (s *site) retired(node cluster.NodeID) (member.Retired, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.table.Retired() {
		if r.Node == node {
			return r, true
		}
	}
	return member.Retired{}, false
}

func TestLeaveForGood(t *testing.T) {
	s := newSite(t)
	dir := s.admit("n2")
	id, rs, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	tab := member.NewTable(id.Verifier())
	if _, err := tab.Restore(rs, wall); err != nil {
		t.Fatal(err)
	}
	cert, _ := tab.Cert("n2")
	rec, err := Leave(id, cert, wall)
	if err != nil {
		t.Fatal(err)
	}
	if ch := s.merge(member.Records{Revokes: []member.Signed{rec}}); len(ch.Left) != 1 {
		t.Errorf("%+v", ch)
	}
	if r, ok := s.retired("n2"); !ok || !r.Left || r.Reason != member.ReasonLeft {
		t.Errorf("%+v", r)
	}
	for range 2 {
		if err := MarkLeft(dir); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := Load(dir); !errors.Is(err, ErrLeft) {
		t.Errorf("load: %v", err)
	}
	if past, rs, err := LoadPast(dir); err != nil || past.Node != "n2" || len(rs.Certs) == 0 {
		t.Errorf("load of what was: %v", err)
	}
	if err := Join(t.Context(), s.token(1), dir, s.options("n2")); !errors.Is(err, ErrLeft) {
		t.Errorf("join: %v", err)
	}
	if err := Init(dir, initOptions("n2")); !errors.Is(err, ErrInitialised) {
		t.Errorf("init: %v", err)
	}
}

// TestRotation walks through a change of the WireGuard key and, between any two
// steps, a crash.
func TestRotation(t *testing.T) {
	s := newSite(t)
	tok := s.token(1) // names the key of now
	id := s.id
	load := func() *Identity {
		t.Helper()
		id, _, err := Load(s.dir)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	if _, err := PromoteWGKey(s.dir, id); !errors.Is(err, ErrNoStagedKey) {
		t.Errorf("promote without a staged key: %v", err)
	}
	pub, err := StageWGKey(s.dir, id)
	if err != nil || pub == id.WGPub {
		t.Fatal(err)
	}
	if again, err := StageWGKey(s.dir, load()); err != nil || again != pub {
		t.Errorf("staged again after a crash: %x, %v", again, err)
	}
	if got, ok, err := StagedWGKey(s.dir, load()); err != nil || !ok || got != pub || load().WGPub != id.WGPub {
		t.Errorf("%x, %t, %v", got, ok, err)
	}
	ann, err := Announce(s.dir, id, About{Next: pub, NextAt: wall.Add(10 * time.Second)}, wall)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := member.ParseAnn(ann); err != nil || a.Next != pub || a.NextAt != wall.Unix()+10 || a.WGPub != id.WGPub {
		t.Errorf("%+v, %v", a, err)
	}
	staged, err := os.ReadFile(filepath.Join(s.dir, durable.NextKey.Name))
	if err != nil {
		t.Fatal(err)
	}
	next, err := PromoteWGKey(s.dir, id)
	if err != nil || next.WGPub != pub || !next.IDPub.Equal(id.IDPub) || load().WGPub != pub {
		t.Fatalf("%v, %v", next, err)
	}
	// A crash after the identity was written and before the staged key went.
	if err := os.WriteFile(filepath.Join(s.dir, durable.NextKey.Name), staged, fileMode); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := StagedWGKey(s.dir, load()); err != nil || ok {
		t.Errorf("the promoted key counts as staged: %v", err)
	}
	if again, err := PromoteWGKey(s.dir, load()); err != nil || again.WGPub != pub || len(again.wgOld) != 1 {
		t.Errorf("promoted twice: %v, %v", again, err)
	}
	if other, err := StageWGKey(s.dir, load()); err != nil || other == pub {
		t.Errorf("the next rotation stages the same key: %v", err)
	}
	// Tokens that were made before stay good.
	ann, err = Announce(s.dir, next, About{Endpoints: endpoint("192.0.2.1:51820")}, wall)
	if err != nil {
		t.Fatal(err)
	}
	s.merge(member.Records{Anns: []member.Signed{ann}})
	saved := s.records()
	if err := saveRecords(s.dir, saved); err != nil {
		t.Fatal(err)
	}
	s.restart()
	tok.Addrs = []string{s.addr}
	if err := Join(t.Context(), tok, filepath.Join(t.TempDir(), "n2"), s.options("n2")); err != nil {
		t.Error(err)
	}
	for range 2 * maxOldKeys {
		if _, err := StageWGKey(s.dir, s.id); err != nil {
			t.Fatal(err)
		}
		if s.id, err = PromoteWGKey(s.dir, s.id); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(load().wgOld); n != maxOldKeys {
		t.Errorf("%d former keys are kept", n)
	}
	if keys := load().tokenKeys(time.Now().Add(keepOld)); len(keys) != 1 {
		t.Errorf("%d keys for tokens that are all over", len(keys))
	}
}

func TestRaiseEpoch(t *testing.T) {
	s := newSite(t)
	epoch := func() uint64 { return s.announce(t, wall) }
	ahead := uint64(wall.Unix()) + 41
	if err := starts.RaiseEpoch(s.dir, ahead); err != nil || epoch() != ahead+1 {
		t.Error("the epoch was not raised", err)
	}
	if err := starts.RaiseEpoch(s.dir, 7); err != nil || epoch() != ahead+2 {
		t.Error("the epoch fell", err)
	}
}

func TestRootExport(t *testing.T) {
	s, other := newSite(t), newSite(t)
	out := filepath.Join(t.TempDir(), "root.json")
	root, err := RootKey(s.dir, s.id.RootPub)
	if err != nil {
		t.Fatal(err)
	}
	if err := ExportRoot(s.dir, out, false); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != fileMode {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := ExportRoot(s.dir, out, true); !errors.Is(err, os.ErrExist) {
		t.Errorf("over an existing file: %v", err)
	}
	if k, err := RootKey(s.dir, s.id.RootPub); err != nil || k == nil {
		t.Fatal("a failed export took the key away")
	}
	if err := ExportRoot(s.dir, filepath.Join(t.TempDir(), "no", "dir"), true); err == nil {
		t.Error("exported into a directory that is not there")
	}
	if err := os.Remove(out); err != nil {
		t.Fatal(err)
	}
	if err := ExportRoot(s.dir, out, true); err != nil {
		t.Fatal(err)
	}
	if k, err := RootKey(s.dir, s.id.RootPub); err != nil || k != nil {
		t.Errorf("the key is still there: %v", err)
	}
	if err := ExportRoot(s.dir, out+"2", false); !errors.Is(err, ErrNoRoot) {
		t.Errorf("%v, want ErrNoRoot", err)
	}
	// The host goes on as a sponsor, and makes no sponsors.
	s.admit("n2")
	if c := s.cert("n2"); c.Sponsor() {
		t.Error("a sponsor was made without the root key")
	}
	if err := ImportRoot(other.dir, out); !errors.Is(err, ErrOtherCluster) {
		t.Errorf("into another cluster: %v", err)
	}
	if err := ImportRoot(s.dir, out); err != nil {
		t.Fatal(err)
	}
	if k, err := RootKey(s.dir, s.id.RootPub); err != nil || !k.Equal(root) {
		t.Errorf("another key came back: %v", err)
	}
	if _, err := RootKey(other.dir, s.id.RootPub); !durable.IsDamaged(err) {
		t.Errorf("root key of another cluster: %v", err)
	}
}

func TestSlotIsWaitedForWithADeadline(t *testing.T) {
	s := newSite(t)
	s.sponsor.slot <- struct{}{}
	defer func() { <-s.sponsor.slot }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.sponsor.Renew(ctx, "n1"); !errors.Is(err, context.Canceled) {
		t.Errorf("renew: %v", err)
	}
	if _, err := s.sponsor.Revoke(ctx, "n2", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("revoke: %v", err)
	}
}

// TestManyInvites holds that a sponsor with more certificates given than a
// table takes at once still works.
func TestManyInvites(t *testing.T) {
	s := newSite(t)
	s.admit("n2")
	now := wall
	s.invites.mu.Lock()
	one := s.invites.state.Invites[0].Spent[0]
	one.Answer = []byte("{}")
	for i := range 40 {
		inv := inviteFile{
			ID: fmt.Sprintf("%016d", 0), Secret: make([]byte, token.SecretLen), Created: now, Expires: now.Add(time.Hour), Uses: MaxUses,
		}
		inv.ID = strings.Repeat(string(rune('a'+i%20)), token.IDLen)
		for range MaxUses {
			inv.Spent = append(inv.Spent, one)
		}
		s.invites.state.Invites = append(s.invites.state.Invites, inv)
	}
	s.invites.mu.Unlock()
	if n := len(s.invites.issued(now)); n <= 2*member.MaxMembers {
		t.Fatalf("%d certificates", n)
	}
	if _, err := NewSponsor(s.sponsor.o); err != nil {
		t.Fatal(err)
	}
	s.admit("n3")
	if got := len(s.invites.issued(now.Add(keepSpent + 2*time.Hour))); got != 0 {
		t.Errorf("%d certificates of invites that are long over", got)
	}
}

func FuzzIdentityFile(f *testing.F) {
	dir := f.TempDir()
	if err := Init(dir, initOptions("n1")); err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{durable.Identity.Name, durable.RootKey.Name, durable.Records.Name} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"version":1,"wg_old":[{"key":"AA=="}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		for _, name := range []string{durable.Identity.Name, durable.NextKey.Name, durable.RootKey.Name, durable.Epoch.Name} {
			if err := os.WriteFile(filepath.Join(dir, name), b, fileMode); err != nil {
				t.Fatal(err)
			}
		}
		id, err := loadIdentity(dir)
		if err == nil {
			if _, ok := netip.AddrFromSlice(id.Network.Addr().AsSlice()); !ok || len(id.ClusterSecret()) != token.SecretLen {
				t.Fatal("a damaged identity was accepted")
			}
		}
		if _, err := readNextKey(dir); err == nil {
			_, _ = RootKey(dir, make([]byte, 32))
		}
		if n, err := starts.Read(dir, durable.Epoch); err == nil && n >= 1<<53 {
			t.Fatalf("counter %d", n)
		}
	})
}

func FuzzInvitesFile(f *testing.F) {
	f.Add([]byte(`{"version":1,"serial":3,"invites":[]}`))
	f.Add([]byte(`{"version":1,"invites":[{"id":"aaaaaaaaaaaaaaaa","secret":"` + strings.Repeat("A", 43) + `=","uses":1}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, durable.Invites.Name), b, fileMode); err != nil {
			t.Fatal(err)
		}
		s, err := OpenInvites(dir)
		if err != nil {
			return
		}
		if len(s.List()) > MaxInvites || s.nextSerial() == 0 {
			t.Fatal("out of bounds")
		}
		_ = s.issued(wall)
		_, _ = fmt.Fprint(io.Discard, s.List())
	})
}
