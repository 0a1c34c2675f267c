package join

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join/door"
	"github.com/skein-project/skein/coord/join/token"
	"github.com/skein-project/skein/coord/member"
)

var (
	network = netip.MustParsePrefix("10.77.0.0/16")
	wall    = time.Unix(1_700_000_000, 0)
)

// site is a first host whose sponsor serves on loopback.
type site struct {
	t       *testing.T
	dir     string
	id      *Identity
	invites *Invites
	sponsor *Sponsor
	addr    string
	log     *lockedBuffer

	mu       sync.Mutex
	now      time.Time     // guarded by mu
	table    *member.Table // guarded by mu
	admitted []Admission   // guarded by mu
	fail     error         // guarded by mu: what OnAdmit returns
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func endpoint(s string) []netip.AddrPort { return []netip.AddrPort{netip.MustParseAddrPort(s)} }

func initOptions(node cluster.NodeID) InitOptions {
	return InitOptions{
		Node: node, ClusterName: "test", Network: network, Wall: wall,
		About: About{Zone: "fsn", Priority: 10, Endpoints: endpoint("192.0.2.1:51820")},
	}
}

func newSite(t *testing.T) *site {
	t.Helper()
	return newSiteIn(t, network)
}

func newSiteIn(t *testing.T, network netip.Prefix) *site {
	t.Helper()
	s := &site{t: t, dir: filepath.Join(t.TempDir(), "first"), log: &lockedBuffer{}, now: wall}
	o := initOptions("n1")
	o.Network = network
	if err := Init(s.dir, o); err != nil {
		t.Fatal(err)
	}
	s.restart()
	return s
}

// restart reads everything from disk again and serves it.
func (s *site) restart() {
	s.t.Helper()
	id, rs, err := Load(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	s.id = id
	s.mu.Lock()
	s.table = member.NewTable(id.Verifier())
	_, err = s.table.Restore(rs, wall)
	s.mu.Unlock()
	if err != nil {
		s.t.Fatal(err)
	}
	if s.invites, err = OpenInvites(s.dir); err != nil {
		s.t.Fatal(err)
	}
	s.sponsor, err = NewSponsor(SponsorOptions{
		Identity: id, RootKey: s.rootKey, Invites: s.invites, Records: s.records, OnAdmit: s.onAdmit, Wall: s.wall,
		Logger: zerolog.New(s.log).Level(zerolog.TraceLevel),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.addr = serve(s.t, id, s.sponsor)
}

// serve runs a Server until the test ends and returns its address.
func serve(t *testing.T, id *Identity, s *Sponsor) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, err := door.NewServer(door.ServerOptions{Key: id.IDKey(), Listener: ln, Handler: s})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

func (s *site) rootKey() (ed25519.PrivateKey, error) { return RootKey(s.dir, s.id.RootPub) }

func (s *site) wall() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *site) setWall(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
}

func (s *site) records() member.Records {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.Records()
}

func (s *site) onAdmit(_ context.Context, a Admission) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	s.admitted = append(s.admitted, a)
	if _, err := s.table.AddCert(a.Cert, s.now); err != nil {
		return err
	}
	_, err := s.table.AddAnn(a.Ann, s.now)
	return err
}

func (s *site) setFail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func (s *site) admissions() []Admission {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Admission(nil), s.admitted...)
}

func (s *site) token(uses int) token.Token {
	s.t.Helper()
	t, err := s.invites.Create(s.id, []string{s.addr}, time.Hour, uses, s.wall())
	if err != nil {
		s.t.Fatal(err)
	}
	return t
}

func (s *site) options(node cluster.NodeID) Options {
	return Options{
		Node: node, Wall: s.wall, Logger: zerolog.New(s.log).Level(zerolog.TraceLevel),
		About: About{Zone: "nbg", Priority: 20, Endpoints: endpoint("192.0.2.9:51820")},
	}
}

// announce signs a new announcement and returns its epoch.
func (s *site) announce(t *testing.T, now time.Time) uint64 {
	t.Helper()
	ann, err := Announce(s.dir, s.id, About{}, now)
	if err != nil {
		t.Fatal(err)
	}
	a, err := member.ParseAnn(ann)
	if err != nil {
		t.Fatal(err)
	}
	return a.Epoch
}
