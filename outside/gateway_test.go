package outside

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
)

// clocked is a gateway whose clock is ahead of this computer's, and counts what it is asked.
type clocked struct {
	*gateway
	tokens  int // that were asked for
	replays int // so many of them are said to be replayed
	nonces  map[string]bool
	refuse  bool
}

func newClocked(t *testing.T, ahead, life time.Duration) *clocked {
	t.Helper()
	c := &clocked{nonces: map[string]bool{}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := time.Now().Add(ahead)
		var out any = struct{}{}
		switch r.URL.Path {
		case "/v1/info":
			out = api.GatewayInfo{Cluster: "c1", ServerTime: now}
		case "/v1/workers/token":
			c.tokens++
			c.nonces[r.Header.Get(access.HeaderNonce)] = true
			if c.tokens <= c.replays {
				w.WriteHeader(http.StatusConflict)
				out = api.Errorf(api.CodeConflict, "taken already")
				break
			}
			out = api.WorkerToken{Token: "t", ExpiresAt: now.Add(life)}
		default:
			if c.refuse {
				w.WriteHeader(http.StatusUnauthorized)
				out = api.Errorf(api.CodeUnauthorized, "no good proof of who asks")
			}
		}
		if err := json.NewEncoder(w).Encode(out); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(srv.Close)
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.gateway, err = newGateway(srv.URL, key, nil, nil); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *clocked) ask(t *testing.T) {
	t.Helper()
	if _, err := c.bearer(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// TestClockIsOff: by the gateway's clock a token ends, whatever this computer's says.
func TestClockIsOff(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, -5 * time.Minute, 0, 5 * time.Minute, time.Hour} {
		good := newClocked(t, ahead, 10*time.Minute)
		good.ask(t)
		good.ask(t)
		if good.tokens != 1 {
			t.Errorf("a gateway that is %v ahead was asked for %d tokens, one is good for 10 minutes", ahead, good.tokens)
		}
		ending := newClocked(t, ahead, tokenSpare/2)
		ending.ask(t)
		ending.ask(t)
		if ending.tokens != 2 {
			t.Errorf("a gateway that is %v ahead was asked for %d tokens: one that is about to end was used again", ahead, ending.tokens)
		}
	}
}

// TestReplayed: a signature that was used already, as by a proxy that asked twice, is not the
// end: it is signed anew, once.
func TestReplayed(t *testing.T) {
	for replays, want := range []error{nil, nil, api.Errorf(api.CodeConflict, "taken already")} {
		c := newClocked(t, 0, 10*time.Minute)
		c.replays = replays
		_, err := c.bearer(t.Context())
		if api.IsCode(err, api.CodeConflict) != (want != nil) || c.tokens != min(replays+1, 2) || len(c.nonces) != c.tokens {
			t.Errorf("of %d replays: %v, %d requests, %d nonces", replays, err, c.tokens, len(c.nonces))
		}
	}
}

// TestTokenRefused: a token that a gateway does not take is not shown again.
func TestTokenRefused(t *testing.T) {
	g := newClocked(t, 0, 10*time.Minute)
	g.refuse = true
	var out struct{}
	err := g.call(t.Context(), api.RPCBeat, []byte("{}"), &out)
	if p, ok := errors.AsType[*api.Problem](err); !ok || p.Code != api.CodeUnauthorized {
		t.Fatalf("%v", err)
	}
	g.ask(t)
	if g.tokens != 2 {
		t.Errorf("%d tokens were asked for, want another one", g.tokens)
	}
}

// TestConnectionRefused: nor is one that a connection was refused for.
func TestConnectionRefused(t *testing.T) {
	h := newHall(t)
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := newGateway(h.open("").url, key, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.add(event.KindWorkerEnrolled, event.WorkerEnrolled{Worker: g.id, Key: key.Public().(ed25519.PublicKey), Owner: "user:ann", Actor: "uid:0@n1"})
	g.token, g.expires = "of another time", time.Now().Add(time.Hour)
	if _, err := g.open(t.Context(), "test"); err == nil {
		t.Fatal("a token that is none was taken")
	}
	l, err := g.open(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	l.close()
}
