package groupsync

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/config"
)

func TestDropsHalf(t *testing.T) {
	have := []string{"a", "b", "c", "d"}
	for next, want := range map[string]bool{"a,b,c,d": false, "a,b": false, "a": true, "": true, "b,c,x,y,z": false, "x,y": true} {
		if got := dropsHalf(have, strings.Split(next, ",")); got != want {
			t.Errorf("%q: %t", next, got)
		}
	}
	if dropsHalf(nil, nil) || dropsHalf(nil, have) {
		t.Error("a new group waits")
	}
}

// TestGroupsURL fetches groups: by a credential, once per version, and holds back
// what would drop most of a group.
func TestGroupsURL(t *testing.T) {
	var text, etag atomic.Value
	text.Store("a = [\"user:ann\", \"user:bob\", \"user:carl\"]\n")
	etag.Store(`"1"`)
	var asked, same atomic.Int64
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch {
		case r.Header.Get("Authorization") != "Bearer s3cret":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/moved":
			http.Redirect(w, r, "/", http.StatusFound)
		case r.URL.Path == "/huge":
			_, _ = w.Write(make([]byte, config.MaxGroupsFile+2))
		case r.Header.Get("If-None-Match") == etag.Load().(string):
			same.Add(1)
			w.WriteHeader(http.StatusNotModified)
		default:
			w.Header().Set("ETag", etag.Load().(string))
			_, _ = w.Write([]byte(text.Load().(string)))
		}
	}))
	defer srv.Close()
	secret := filepath.Join(t.TempDir(), "credential")
	if err := os.WriteFile(secret, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	have, actor := map[string][]string{}, "config@n1"
	g := New(Options{
		Have: func(group string) ([]string, string) { return have[group], actor }, Logger: zerolog.Nop(),
		Set: func(_ context.Context, b event.GroupSet) (bool, error) {
			have[b.Group], actor = b.Members, "config@n1"
			return false, nil
		},
	})
	g.client.Transport, g.client.Timeout = srv.Client().Transport, 5*time.Minute // on a machine with much else to do
	members := func() string { return strings.Join(have["a"], " ") }
	look := func(want string) {
		t.Helper()
		if err := g.look(t.Context(), srv.URL, secret); err != nil {
			t.Fatal(err)
		}
		if got := members(); got != want {
			t.Fatalf("members %s, want %s", got, want)
		}
	}
	all := "user:ann user:bob user:carl"
	look(all)
	look(all)
	if same.Load() != 1 {
		t.Errorf("%d of %d questions found the same", same.Load(), asked.Load())
	}
	text.Store("a = [\"user:ann\"]\nb = [\"user:x\"]\n")
	etag.Store(`"2"`)
	look(all)
	if why := g.Reasons(); len(why) != 1 || !strings.Contains(why[0], "group a") {
		t.Errorf("nothing says what waits: %q", why)
	}
	if held := g.Waiting(); len(held) != 1 || held[0].Group != "a" || strings.Join(held[0].Members, " ") != "user:ann" || held[0].From != "jobs.groups_url" {
		t.Errorf("waits: %+v", held)
	}
	have["a"], actor = []string{"user:ann", "user:bob"}, "uid:0@n1" // an operator decides
	if held := g.Waiting(); len(held) > 0 {
		t.Errorf("still waits: %+v", held)
	}
	look("user:ann")
	if why := g.Reasons(); len(why) > 0 {
		t.Errorf("still %q", why)
	}
	for path, want := range map[string]string{"/moved": "redirected", "/huge": "at most"} {
		if err := g.look(t.Context(), srv.URL+path, secret); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := g.look(t.Context(), srv.URL, ""); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("without credential: %v", err)
	}
	text.Store("a = [\"user ann\"]\n")
	etag.Store(`"3"`)
	if err := g.look(t.Context(), srv.URL, secret); err == nil || members() != "user:ann" {
		t.Errorf("a wrong text: %v, members %s", err, members())
	}
}

// TestSmallLosses: many losses of a few count as one of all of them, for a day or until
// an operator decides.
func TestSmallLosses(t *testing.T) {
	have, actor := strings.Fields("user:a user:b user:c user:d user:e user:f user:g user:h"), "config@n2"
	now := time.Now()
	g := New(Options{
		Have: func(string) ([]string, string) { return have, actor }, Logger: zerolog.Nop(),
		Set: func(_ context.Context, b event.GroupSet) (bool, error) {
			have, actor = b.Members, "config@n1"
			return false, nil
		},
	})
	g.now = func() time.Time { return now }
	take := func(members, want string) {
		t.Helper()
		g.remember()
		if _, err := g.take(t.Context(), "jobs.groups_url", []event.GroupSet{{Group: "a", Members: strings.Fields(members)}}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(have, " "); got != want {
			t.Fatalf("%s: members %s, want %s", members, got, want)
		}
		if waits := len(g.Waiting()) > 0; waits != (members != want) {
			t.Fatalf("%s: waits %t", members, waits)
		}
		now = now.Add(time.Minute)
	}
	take("user:a user:b user:c user:d user:e user:f", "user:a user:b user:c user:d user:e user:f")
	take("user:a user:b user:c user:d", "user:a user:b user:c user:d")
	take("user:a user:b", "user:a user:b user:c user:d")
	have = strings.Fields("user:a user:b user:c") // another host takes away what it may
	take("user:a user:b", "user:a user:b user:c")
	actor = "user:olga@n3"
	take("user:a user:b", "user:a user:b")
	take("user:a", "user:a user:b")
	now = now.Add(lately)
	take("user:a", "user:a")
}

// TestLongETag: what is no version of a file but a load is not kept.
func TestLongETag(t *testing.T) {
	tag := `"` + strings.Repeat("x", maxETag) + `"`
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") != "" {
			t.Error("a long ETag is sent again")
		}
		w.Header().Set("ETag", tag)
		_, _ = w.Write([]byte("a = [\"user:ann\"]\n"))
	}))
	defer srv.Close()
	g := New(Options{
		Have: func(string) ([]string, string) { return nil, "" }, Logger: zerolog.Nop(),
		Set: func(context.Context, event.GroupSet) (bool, error) { return false, nil },
	})
	for range 2 {
		if err := g.look(t.Context(), srv.URL, ""); err != nil {
			t.Fatal(err)
		}
	}
}
