package browser

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	names "github.com/skein-project/skein/cluster"
)

// TestPageHasAnIdentity: a key that does not leave the browser and outlives the page, whose
// proofs are those that a gateway takes, also where the computer's clock is off; a token is
// used until it nears its end.
func TestPageHasAnIdentity(t *testing.T) {
	const url = "https://Gw.example.org:443"
	ahead := 3 * time.Hour
	var mu sync.Mutex
	nonces := access.NewNonces(1000, time.Time{})
	var key ed25519.PublicKey
	asked := map[string]int{}
	life := time.Hour
	answer := func(w http.ResponseWriter, status int, out any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(out) // the page may have gone
	}
	o := newOffice(t, func(mux *http.ServeMux) {
		mux.HandleFunc("GET /v1/info", func(w http.ResponseWriter, _ *http.Request) {
			answer(w, 200, api.GatewayInfo{Cluster: "c1", URLs: []string{url, "https://other"}})
		})
		mux.HandleFunc("POST /v1/workers/{what}", func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			now := time.Now().Add(ahead)
			text, _ := io.ReadAll(r.Body) // a short body is refused with the proof
			if r.PathValue("what") == "register" {
				var body api.WorkerRegister
				if err := json.Unmarshal(text, &body); err != nil {
					t.Error(err)
				}
				key, _ = base64.StdEncoding.DecodeString(body.PublicKey)
			}
			asked[r.PathValue("what")]++
			proof, there, err := access.ProofOf(r.Header)
			if err == nil && there {
				err = proof.Verify(access.Request{
					Cluster: "c1", Method: "POST", Host: "gw.example.org:443", Path: r.URL.EscapedPath(), Body: sha256.Sum256(text), Outside: true,
				}, key, now)
			}
			if err == nil && there {
				err = nonces.Use(proof, now)
			}
			if err != nil || !there {
				answer(w, 401, map[string]any{"detail": "no good proof of who asks", "server_time": now.UTC()})
				return
			}
			if r.PathValue("what") == "token" {
				answer(w, 200, map[string]any{"token": "a.b.c", "expires_at": now.Add(life).UTC()})
				return
			}
			answer(w, 201, map[string]any{"worker": names.OutsideID(key), "state": api.StateUnclaimed, "claim_code": "7K3QD-0V9XW", "fingerprint": "f", "expires_at": nil})
		})
	})
	var who struct{ ID, Worker, Code, Token, Export, Stored string }
	o.wait(`identify()`, &who)
	if who.ID != string(names.OutsideID(key)) || who.Worker != who.ID || who.Code != "7K3QD-0V9XW" || who.Token != "a.b.c" {
		t.Errorf("%+v, the key's id is %s", who, names.OutsideID(key))
	}
	if who.Export != "InvalidAccessError" || who.Stored != "private, not extractable" {
		t.Errorf("the key: %+v", who)
	}
	mu.Lock()
	if asked["register"] != 2 || asked["token"] != 1 {
		t.Errorf("asked %v: the clock is found out once, and tokens are kept", asked)
	}
	life = -time.Minute // each token has ended when it comes
	mu.Unlock()
	first := who.ID
	o.do(chromedp.Reload())
	o.until("the page is back", "window.identify")
	o.wait(`identify()`, &who)
	mu.Lock()
	if who.ID != first || asked["token"] < 3 {
		t.Errorf("after a reload %s, before %s; asked %v", who.ID, first, asked)
	}
	mu.Unlock()
	o.wait(`forget().then(identify)`, &who)
	if who.ID == first || who.Worker != who.ID {
		t.Errorf("forgotten, and the same: %+v", who)
	}
}
