package status

import (
	"encoding/json"
	"net/http/httptest"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/status/door"
)

// TestWhoami: everybody is told as whom the host takes them, and what that is worth.
func TestWhoami(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := usersServer(t, func(_ *fake, o *Options) { o.Tokens = newLent() })
		u := someone("ann", access.Submitter)
		u.UIDs = []uint64{1000}
		f.users = access.NewDirectory([]access.User{u, someone("vic", access.Viewer), someone("olga", access.Operator)})
		time.Sleep(2 * access.Window)
		token := func(name string, role access.Role) string {
			text, err := access.Mint(testCluster, name, role, userKey(name), "id", time.Now(), time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		all, own, look := api.Rights{Look: "all", Read: "all", Use: "all", Operate: "all"}, api.Rights{Look: "all", Read: "own", Use: "own", Operate: "none"}, api.Rights{Look: "all", Read: "all", Use: "none", Operate: "none"}
		for name, c := range map[string]struct {
			peer        door.Peer
			user, token string
			want        api.Whoami
		}{
			"root":                 {peer: door.Peer{Admin: true}, want: api.Whoami{Name: "uid:0", Role: "operator", Proof: "socket", UID: new(uint32(0)), Rights: all, MayChange: true}},
			"a uid":                {peer: door.Peer{UID: 7}, want: api.Whoami{Name: "uid:7", Role: "viewer", Proof: "socket", UID: new(uint32(7)), Rights: look}},
			"the uid of a user":    {peer: door.Peer{UID: 1000}, want: api.Whoami{Name: "uid:1000", Role: "submitter", Proof: "socket", UID: new(uint32(1000)), Rights: own, MayChange: true}},
			"where all may read":   {peer: door.Peer{TCP: true}, want: api.Whoami{Role: "viewer", Proof: "none", Rights: look}},
			"a submitter":          {user: "ann", want: api.Whoami{Name: "user:ann", Role: "submitter", Proof: "signature", Rights: own, MayChange: true}},
			"an operator":          {user: "olga", want: api.Whoami{Name: "user:olga", Role: "operator", Proof: "signature", Rights: all, MayChange: true}},
			"a token, for reading": {token: token("olga", access.Operator), want: api.Whoami{Name: "user:olga", Role: "operator", Proof: "token", Rights: all}},
			"a token lent":         {token: token("ann", access.Viewer), want: api.Whoami{Name: "user:ann", Role: "viewer", Proof: "token", Rights: api.Rights{Look: "all", Read: "own", Use: "none", Operate: "none"}}},
			"an access token":      {token: "skt_submit", want: api.Whoami{Name: "user:ann", Role: "submitter", Proof: "access_token", Rights: own, MayChange: true}},
			"one to watch":         {token: "skt_watch", want: api.Whoami{Name: "user:ann", Role: "submitter", Proof: "access_token", Rights: own}},
			"an operator's":        {token: "skt_olgas", want: api.Whoami{Name: "user:olga", Role: "submitter", Proof: "access_token", Rights: own, MayChange: true}},
		} {
			r := httptest.NewRequest("GET", "/v1/whoami", nil)
			switch {
			case c.user != "":
				r = asUser(t, c.user, "GET", "/v1/whoami", "", time.Now())
			case c.token != "":
				r.Header.Set("Authorization", "Bearer "+c.token)
				r = r.WithContext(door.With(t.Context(), door.Peer{TCP: true, Users: true, Addr: "192.0.2.1", Gate: door.Gate{Host: "gw1"}}))
			default:
				r = r.WithContext(door.With(t.Context(), c.peer))
			}
			w := httptest.NewRecorder()
			s.mux.ServeHTTP(w, r)
			var got api.Whoami
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 {
				t.Fatalf("%s: %d %s", name, w.Code, w.Body)
			}
			if (got.KeyID != "") != (c.user != "" || c.token != "") || (got.EndsAt != nil) != (c.token != "") {
				t.Errorf("%s: %s", name, w.Body)
			}
			got.Header, got.KeyID, got.EndsAt = api.Header{}, "", nil
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s: %s", name, w.Body)
			}
		}
	})
}
