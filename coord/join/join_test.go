package join

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join/token"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/internal/durable"
)

func TestInitMakesAMember(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "state")
	if err := Init(dir, initOptions("n1")); err != nil {
		t.Fatal(err)
	}
	id, rs, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	tab := member.NewTable(id.Verifier())
	if _, err := tab.AddAll(rs, wall); err != nil {
		t.Fatal(err)
	}
	m, ok := tab.Member("n1")
	if !ok || m.Zone != "fsn" || m.Priority != 10 || m.Epoch != 1 || len(m.Caps) != 1 || !network.Contains(m.IP4) ||
		[32]byte(m.WGPub) != id.WGPub || len(m.Endpoints) != 1 {
		t.Errorf("member %+v", m)
	}
	if err := Init(dir, initOptions("n1")); !errors.Is(err, ErrInitialised) {
		t.Errorf("second init: %v", err)
	}
	if root, err := RootKey(dir, id.RootPub); err != nil || !id.RootPub.Equal(root.Public()) {
		t.Errorf("root key: %v", err)
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm() != fileMode {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestInitRefuses(t *testing.T) {
	for name, change := range map[string]func(*InitOptions){
		"node":      func(o *InitOptions) { o.Node = "N 1" },
		"outside":   func(o *InitOptions) { o.Node = cluster.OutsideID(nil) },
		"others":    func(o *InitOptions) { o.Node = cluster.OutsideOthers },
		"network":   func(o *InitOptions) { o.Network = netip.MustParsePrefix("10.0.0.1/16") },
		"no net":    func(o *InitOptions) { o.Network = netip.Prefix{} },
		"name":      func(o *InitOptions) { o.ClusterName = strings.Repeat("x", 100) },
		"zone":      func(o *InitOptions) { o.About.Zone = "a\nb" },
		"endpoints": func(o *InitOptions) { o.About.Endpoints = make([]netip.AddrPort, 5) },
	} {
		dir := t.TempDir()
		o := initOptions("n1")
		change(&o)
		if err := Init(dir, o); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if _, _, err := Load(dir); !errors.Is(err, ErrNotInitialised) {
			t.Errorf("%s: %v, want a directory that is still free", name, err)
		}
		if err := Init(dir, initOptions("n1")); err != nil {
			t.Errorf("%s: init afterwards: %v", name, err)
		}
	}
}

func TestLoadNamesDamageWithoutShowingIt(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir, initOptions("n1")); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, durable.Identity.Name)
	good, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		string(good[:len(good)/2]),
		strings.Replace(string(good), `"version": 1`, `"version": 2`, 1),
		strings.Replace(string(good), `"id_key": "`, `"id_key": "!secret!`, 1),
		strings.Replace(string(good), `"id_key": "`, `"id_key": "AAAA`, 1),
		strings.Replace(string(good), `"node": "n1"`, `"node": ""`, 1),
		"{}",
	} {
		if err := os.WriteFile(name, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := Load(dir)
		if err == nil || !strings.Contains(err.Error(), durable.Identity.Name) || strings.Contains(err.Error(), "secret!") {
			t.Errorf("damaged identity: %v", err)
		}
	}
}

func TestJoin(t *testing.T) {
	s := newSite(t)
	tok := s.token(4)
	addrs := map[netip.Addr]bool{}
	for i := 2; i <= 5; i++ {
		node := cluster.NodeID(fmt.Sprintf("n%d", i))
		dir := filepath.Join(t.TempDir(), "state")
		if err := Join(t.Context(), tok, dir, s.options(node)); err != nil {
			t.Fatal(err)
		}
		id, rs, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		if id.Cluster != s.id.Cluster || id.Node != node || id.ClusterName != "test" || id.Network != network ||
			string(id.ClusterSecret()) != string(s.id.ClusterSecret()) {
			t.Errorf("%s", id)
		}
		tab := member.NewTable(id.Verifier())
		if _, err := tab.AddAll(rs, wall); err != nil {
			t.Fatal(err)
		}
		if _, ok := tab.Member("n1"); !ok {
			t.Errorf("%s does not know its sponsor", node)
		}
		m, ok := tab.Member(node)
		if !ok || m.Zone != "nbg" || m.Priority != 20 || addrs[m.IP4] {
			t.Errorf("member %+v", m)
		}
		addrs[m.IP4] = true
		if sponsor := len(m.Caps) > 0; sponsor != (i <= 3) {
			t.Errorf("%s is sponsor: %t", node, sponsor)
		}
		before := len(s.admissions())
		if err := Join(t.Context(), tok, dir, s.options(node)); err != nil || len(s.admissions()) != before {
			t.Errorf("join of a member: %v", err)
		}
		if _, err := os.Stat(filepath.Join(dir, durable.PendingKeys.Name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("pending keys were left: %v", err)
		}
	}
	got := s.admissions()
	if len(got) != 4 || got[0].Member.Node != "n2" || got[0].Again || got[0].Invite != tok.Invite {
		t.Errorf("admissions %+v", got)
	}
	if l := s.invites.List(); len(l) != 1 || len(l[0].Spent) != 4 || l[0].Open(wall) {
		t.Errorf("invites %+v", l)
	}
}

// TestJoinedHostSponsors lets the second host admit a third.
// TestInviteSaysWhose: a host is whose the invite says, also by an invite that was read
// again from the disk.
func TestInviteSaysWhose(t *testing.T) {
	s := newSite(t)
	tok, err := s.invites.CreateFor(token.For{Owner: "user:ann"}, s.id, []string{s.addr}, time.Hour, 1, s.wall())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.invites.CreateFor(token.For{Owner: strings.Repeat("u", 300)}, s.id, []string{s.addr}, time.Hour, 1, s.wall()); err == nil {
		t.Error("an invite for hosts of what is no principal")
	}
	again, err := OpenInvites(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	if list := again.List(); len(list) != 1 || list[0].Owner != "user:ann" {
		t.Errorf("read again: %+v", list)
	}
	for _, one := range []token.Token{tok, s.token(1)} {
		if err := Join(t.Context(), one, t.TempDir(), s.options(cluster.NodeID("n"+one.Invite[:5]))); err != nil {
			t.Fatal(err)
		}
	}
	if a := s.admissions(); len(a) != 2 || a[0].Owner != "user:ann" || a[1].Owner != "" {
		t.Errorf("admitted %+v", a)
	}
}

func TestJoinedHostSponsors(t *testing.T) {
	s := newSite(t)
	dir := t.TempDir()
	if err := Join(t.Context(), s.token(1), dir, s.options("n2")); err != nil {
		t.Fatal(err)
	}
	second := &site{t: t, dir: dir, log: &lockedBuffer{}, now: wall}
	second.restart()
	second.setWall(wall.Add(-30 * time.Second)) // its clock is behind
	third := t.TempDir()
	if err := Join(t.Context(), second.token(1), third, second.options("n3")); err != nil {
		t.Fatal(err)
	}
	a := second.admissions()
	if len(a) != 1 || len(a[0].Member.Caps) != 0 {
		t.Fatalf("admissions %+v", a)
	}
	if c, err := member.ParseCert(a[0].Cert); err != nil || c.Issued < wall.Unix() {
		t.Errorf("issued %d with a clock that is behind: %v", c.Issued, err)
	}
	// The first host believes it.
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.table.AddCert(a[0].Cert, wall); err != nil {
		t.Error(err)
	}
	// The third cannot sponsor.
	id, rs, err := Load(third)
	if err != nil {
		t.Fatal(err)
	}
	_, err = NewSponsor(SponsorOptions{
		Identity: id, Invites: second.invites, Records: func() member.Records { return rs }, OnAdmit: second.onAdmit,
	})
	if !errors.Is(err, ErrNotSponsor) {
		t.Errorf("third host as sponsor: %v", err)
	}
}

func TestJoinRefusesAnotherCluster(t *testing.T) {
	a, b := newSite(t), newSite(t)
	dir := t.TempDir()
	if err := Join(t.Context(), a.token(1), dir, a.options("n2")); err != nil {
		t.Fatal(err)
	}
	if err := Join(t.Context(), b.token(1), dir, b.options("n2")); !errors.Is(err, ErrOtherCluster) {
		t.Errorf("%v, want ErrOtherCluster", err)
	}
	if len(b.admissions()) != 0 {
		t.Error("the other cluster was asked")
	}
}

// TestCrashBetweenSpendAndAnswer: the use is durable, the hook fails or the
// process dies; the same host asks again and gets the same answer.
func TestCrashBetweenSpendAndAnswer(t *testing.T) {
	s := newSite(t)
	tok := s.token(1)
	dir := t.TempDir()
	s.setFail(errors.New("crash"))
	if err := Join(t.Context(), tok, dir, s.options("n2")); !errors.Is(err, ErrRefused) {
		t.Fatalf("%v, want ErrRefused", err)
	}
	if l := s.invites.List(); len(l[0].Spent) != 1 {
		t.Fatalf("invites %+v", l)
	}
	inv, _ := s.invites.get(tok.Invite)
	want := inv.Spent[0]
	pending, err := os.ReadFile(filepath.Join(dir, durable.PendingKeys.Name))
	if err != nil {
		t.Fatal(err)
	}
	s.setFail(nil)
	s.restart()
	tok.Addrs = []string{"127.0.0.1:1", s.addr} // nobody listens on the first
	if err := Join(t.Context(), tok, dir, s.options("n2")); err != nil {
		t.Fatal(err)
	}
	_, rs, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, c := range rs.Certs {
		found = found || c.Equal(want.Cert)
	}
	a := s.admissions()
	if !found || len(a) != 1 || a[0].Again || !a[0].Cert.Equal(want.Cert) {
		t.Errorf("the answer changed: %+v", a)
	}
	// The answer is lost after all: the host asks a third time.
	if err := os.Remove(filepath.Join(dir, durable.Identity.Name)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, durable.PendingKeys.Name), pending, fileMode); err != nil {
		t.Fatal(err)
	}
	s.restart()
	tok.Addrs = []string{s.addr}
	if err := Join(t.Context(), tok, dir, s.options("n2")); err != nil {
		t.Fatal(err)
	}
	if a := s.admissions(); len(a) != 2 || !a[1].Again || !a[1].Cert.Equal(want.Cert) || a[1].Member.Epoch <= a[0].Member.Epoch {
		t.Errorf("third try: %+v", a)
	}
	if err := Join(t.Context(), tok, t.TempDir(), s.options("n3")); !errors.Is(err, ErrRefused) ||
		!strings.Contains(err.Error(), "as n3 by invite "+tok.Invite) || !strings.Contains(err.Error(), "by the clock here") {
		t.Errorf("another host with a spent invite: %v", err)
	}
	if n := len(s.invites.List()[0].Spent); n != 1 {
		t.Errorf("%d uses", n)
	}
}

func TestAddressesStayDistinctWhileUnknown(t *testing.T) {
	s := newSite(t)
	tok := s.token(2)
	s.setFail(errors.New("crash")) // the table never learns of the first
	_ = Join(t.Context(), tok, t.TempDir(), s.options("n2"))
	s.setFail(nil)
	if err := Join(t.Context(), tok, t.TempDir(), s.options("n2")); !errors.Is(err, ErrRefused) {
		t.Errorf("second host under a node id that was given: %v", err)
	}
	if err := Join(t.Context(), tok, t.TempDir(), s.options("n3")); err != nil {
		t.Fatal(err)
	}
	inv, _ := s.invites.get(tok.Invite)
	a, _ := member.ParseCert(inv.Spent[0].Cert)
	b, _ := member.ParseCert(inv.Spent[1].Cert)
	if a.IP4 == b.IP4 || (a.Sponsor() && b.Sponsor() && a.Slice.Overlaps(b.Slice)) || a.Serial == b.Serial {
		t.Errorf("certificates %+v and %+v", a, b)
	}
}

func TestTokenExpiresAtTheJoiner(t *testing.T) {
	s := newSite(t)
	tok := s.token(1)
	s.setWall(wall.Add(2 * time.Hour))
	if err := Join(t.Context(), tok, t.TempDir(), s.options("n2")); !errors.Is(err, token.ErrExpired) {
		t.Errorf("%v, want token.ErrExpired", err)
	}
}

// TestAnnounceNeverRepeatsAnEpoch, not even in a directory out of a backup.
func TestAnnounceNeverRepeatsAnEpoch(t *testing.T) {
	s := newSite(t)
	first := uint64(wall.Unix())
	for want := first; want < first+3; want++ {
		if got := s.announce(t, wall); got != want {
			t.Errorf("epoch %d, want %d", got, want)
		}
	}
	if got := s.announce(t, wall.Add(-time.Hour)); got != first+3 {
		t.Errorf("epoch %d of a clock that went back, want %d", got, first+3)
	}
	backup, err := os.ReadFile(filepath.Join(s.dir, durable.Epoch.Name))
	if err != nil {
		t.Fatal(err)
	}
	last := s.announce(t, wall.Add(time.Minute))
	if err := os.WriteFile(filepath.Join(s.dir, durable.Epoch.Name), backup, fileMode); err != nil {
		t.Fatal(err)
	}
	if got := s.announce(t, wall.Add(2*time.Minute)); got <= last {
		t.Errorf("epoch %d after a restore, others know %d", got, last)
	}
}
