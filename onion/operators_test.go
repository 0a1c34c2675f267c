package onion

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/tor"
)

// TestOperatorService: who finds this host's page, and that there is no service that
// everybody finds where nobody is to.
func TestOperatorService(t *testing.T) {
	for _, operators := range []map[string]*ecdh.PublicKey{nil, {}, {"alice": operatorKey(t, 7), "bob": operatorKey(t, 8)}} {
		dir := t.TempDir()
		ft := newFakeTor(t, dir)
		log := &fakeCluster{self: Member{Node: "n1", Health: cluster.Alive}, members: map[cluster.NodeID]Member{}}
		h, err := New(Options{
			Node: "n1", Key: ed25519.NewKeyFromSeed(make([]byte, 32)), Client: clientPub(t, 1), Dir: filepath.Join(dir, "onion"), Operators: operators,
			Weight: func() uint32 { return 100 }, Now: func() time.Duration { return 0 },
			Tor: ft, Log: log, Cluster: log, Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry(),
		})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(ft.Services(), func(s tor.Service) bool { return s.Dir == filepath.Join(dir, "onion", "operators") })
		l, err := h.ListenOperators(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		st := h.Status()
		if len(operators) == 0 {
			if i >= 0 || l != nil || len(ft.Services()) != 1 || st.OperatorAddress != "" || st.Operators != nil {
				t.Errorf("without operators: %v, %v at %q", ft.Services(), st.Operators, st.OperatorAddress)
			}
			continue
		}
		if i < 0 || l == nil {
			t.Fatalf("no service: %v", ft.Services())
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		s := ft.Services()[i]
		want := map[string]string{"alice": clientEncoding.EncodeToString(operators["alice"].Bytes()), "bob": clientEncoding.EncodeToString(operators["bob"].Bytes())}
		if !reflect.DeepEqual(s.Clients, want) || isInstance(s) || len(s.Ports) != 1 || s.Ports[0] != (tor.Port{Virtual: 80, Target: "unix:" + l.Addr().String()}) {
			t.Errorf("%+v", s)
		}
		if a, err := s.Address(); err != nil || st.OperatorAddress != a || !slices.Equal(st.Operators, []string{"alice", "bob"}) {
			t.Errorf("%v at %q, want %q, %v", st.Operators, st.OperatorAddress, a, err)
		}
	}
}

func operatorKey(t *testing.T, n int) *ecdh.PublicKey {
	t.Helper()
	k, err := ecdh.X25519().NewPublicKey(clientPub(t, n))
	if err != nil {
		t.Fatal(err)
	}
	return k
}
