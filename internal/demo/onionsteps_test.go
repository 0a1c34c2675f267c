package demo

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/skein-project/skein/api"
)

// starting is a host whose tor is one step further each time it is asked; it stays
// at the last one. A step of -1 is a daemon that does not answer.
func starting(t *testing.T, d *demo, name string, steps ...int) *host {
	t.Helper()
	asked := 0
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		percent := steps[min(asked, len(steps)-1)]
		asked++
		if percent < 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		answer := api.Onion{Tor: api.OnionTor{State: "bootstrapping", Bootstrap: percent}}
		if percent == 100 {
			answer.Tor.State = "ready"
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(daemon.Close)
	client, err := api.Dial(daemon.URL)
	if err != nil {
		t.Fatal(err)
	}
	return &host{d: d, name: name, api: client}
}

// TestTorsSayHowFarTheyAre: while the tors of the hosts start, which takes longest,
// each says how far it is, now and then, and that it is there.
func TestTorsSayHowFarTheyAre(t *testing.T) {
	var out bytes.Buffer
	d := &demo{o: Options{Out: &out}}
	d.hosts = []*host{
		starting(t, d, "n1", 0, 5, 45, 50, 75, 90, 100),
		starting(t, d, "n2", 0, 0, -1, 10, 95, 95, 100),
		starting(t, d, "n3", 100),
	}
	if err := d.torsReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	const want = "the tor of n3: 100 %\nthe tor of n1: 45 %\nthe tor of n2: 95 %\nthe tor of n1: 90 %\nthe tor of n1: 100 %\nthe tor of n2: 100 %\n"
	if got := regexp.MustCompile(`(?m)^ *[0-9.]+s  `).ReplaceAllString(out.String(), ""); got != want {
		t.Errorf("said\n%swant\n%s", got, want)
	}
}
