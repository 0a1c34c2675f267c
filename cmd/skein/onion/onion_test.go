package onion

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cmd/skein/cli"
)

// TestOtherKeepers: that no other host has a key is said only where the daemon said
// so.
func TestOtherKeepers(t *testing.T) {
	keepers := func(health cluster.Health, list ...cluster.NodeID) *api.Onion {
		return &api.Onion{
			Header:    api.Header{Node: "n1"},
			Addresses: []api.OnionAddress{{Address: "a"}, {Address: "b", Keepers: list}},
			Hosts:     []api.OnionHost{{Node: "n1", Health: cluster.Alive}, {Node: "n2", Health: health}},
		}
	}
	for _, c := range []struct {
		name   string
		answer *api.Onion // nil: it fails
		others []cluster.NodeID
		known  bool
	}{
		{"the daemon is gone", nil, nil, false},
		{"nobody else is alive", keepers(cluster.Dead, "n1"), nil, true},
		{"another has it", keepers(cluster.Alive, "n1", "n2"), []cluster.NodeID{"n2"}, true},
	} {
		daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if c.answer == nil {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			if err := json.NewEncoder(w).Encode(c.answer); err != nil {
				t.Error(err)
			}
		}))
		client, err := api.Dial(daemon.URL)
		if err != nil {
			t.Fatal(err)
		}
		others, known := otherKeepers(t.Context(), client, api.OnionChanged{Address: "b"})
		daemon.Close()
		if !slices.Equal(others, c.others) || known != c.known {
			t.Errorf("%s: %v, known %t, want %v, %t", c.name, others, known, c.others, c.known)
		}
	}
}

// TestVerifyIsPatient: a directory may take longer than commands wait by default.
func TestVerifyIsPatient(t *testing.T) {
	for _, given := range []bool{false, true} {
		a := &cli.App{Timeout: time.Second, TimeoutSet: given}
		a.Out, a.Err, a.Env = io.Discard, io.Discard, []string{"SKEIN_SOCKET=" + filepath.Join(t.TempDir(), "none")}
		cmd := verify(a)
		cmd.SetArgs([]string{"x.onion"})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.ExecuteContext(t.Context()); err == nil {
			t.Error("verified without a daemon")
		}
		if long := a.Timeout >= 15*time.Second; long == given {
			t.Errorf("timeout given %t: waits for %s", given, a.Timeout)
		}
	}
}
