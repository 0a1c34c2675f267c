package status

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/fakeflows"
	"github.com/skein-project/skein/status/door"
)

const jobB = job.ID("jbbbbbbbbbbbbbbbbbbbbbbbbb")

// twoOwners gives jobA to ann and jobB to sam, with an event each and some of nobody.
func twoOwners(f *fake) {
	f.job = api.Job{ID: jobA, Owner: "user:ann", State: job.Running}
	f.more = []api.Job{f.job, {ID: jobB, Owner: "user:sam", State: job.Running}}
	logged(f, event.KindJobSubmitted, `{"job":"`+string(jobA)+`","owner":"user:ann","spec":{"params":{"owner":"user:sam"}}}`)
	logged(f, event.KindJobSubmitted, `{"job":"`+string(jobB)+`","owner":"user:sam"}`)
	logged(f, event.KindJobStopped, `{"job":"`+string(jobA)+`","actor":"user:sam"}`)
	logged(f, event.KindJobsForgotten, `{"jobs":["`+string(jobA)+`","`+string(jobB)+`"]}`)
	logged(f, event.KindHostOwnerSet, `{"node":"n2","owner":"user:sam","actor":"user:olga"}`)
}

func logged(f *fake, kind event.Kind, body string) {
	e := testEvent(uint64(len(f.log)+1), kind, time.Unix(1_800_000_000, 0))
	e.Body = json.RawMessage(body)
	f.log = append(f.log, e)
}

// askFor answers a request of somebody for so long, which ends streams.
func askFor(t *testing.T, s *Server, r *http.Request, long time.Duration) *httptest.ResponseRecorder {
	t.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), long)
	defer cancel()
	w := httptest.NewRecorder()
	s.mux.ServeHTTP(w, r.WithContext(ctx))
	return w
}

// TestAnothersJobIsNone walks all routes: a submitter finds the own job, and of
// another's nothing, by whatever it is asked for.
func TestAnothersJobIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := usersServer(t, nil)
		twoOwners(f)
		time.Sleep(2 * access.Window)
		get := func(who, path string) (int, string) {
			w := askFor(t, s, asUser(t, who, "GET", path, "", time.Now()), 2*time.Second)
			return w.Code, w.Body.String()
		}
		walked := 0
		for _, rt := range s.handlers.table() {
			if rt.needs != access.Read && rt.needs != access.Use && rt.needs != access.Look {
				continue
			}
			walked++
			if strings.HasPrefix(rt.path, "/v1/jobs/{id}") {
				for _, id := range []string{string(jobA), string(jobA[:6])} {
					path := strings.ReplaceAll(rt.path, "{id}", id)
					w := askFor(t, s, asUser(t, "sam", rt.method, path, "{}", time.Now()), 2*time.Second)
					if w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "user:ann") {
						t.Errorf("%s %s by sam: %d %s", rt.method, path, w.Code, w.Body)
					}
				}
				continue
			}
			if strings.HasPrefix(rt.path, "/v1/workflows") {
				path := strings.ReplaceAll(rt.path, "{id}", string(fakeflows.Run))
				w := askFor(t, s, asUser(t, "sam", rt.method, path, "{}", time.Now()), 2*time.Second)
				if named := path != rt.path; strings.Contains(w.Body.String(), fakeflows.Owner) || named && w.Code != http.StatusNotFound {
					t.Errorf("%s %s by sam: %d %s", rt.method, path, w.Code, w.Body)
				}
				if _, text := get("vic", path); rt.method == http.MethodGet && !strings.Contains(text, string(fakeflows.Run)) {
					t.Errorf("%s does not show vic all: %s", path, text)
				}
				continue
			}
			if strings.HasPrefix(rt.path, "/v1/load") {
				path := strings.ReplaceAll(rt.path, "{id}", string(fakeflows.Load))
				w := askFor(t, s, asUser(t, "sam", rt.method, path, "{}", time.Now()), 2*time.Second)
				if named := path != rt.path; strings.Contains(w.Body.String(), fakeflows.Owner) || strings.Contains(w.Body.String(), "n3") || named && w.Code != http.StatusNotFound {
					t.Errorf("%s %s by sam: %d %s", rt.method, path, w.Code, w.Body)
				}
				if _, text := get("vic", path); rt.method == http.MethodGet && !strings.Contains(text, "n3") {
					t.Errorf("%s does not show vic all: %s", path, text)
				}
				continue
			}
			if strings.HasPrefix(rt.path, "/v1/schedules") {
				path, body := strings.ReplaceAll(rt.path, "{id}", string(fakeflows.Schedule)), `{"key":"k"}`
				if rt.method == http.MethodPut {
					continue // one of sam's own, whatever it is called
				}
				if rt.method == http.MethodDelete || !strings.HasSuffix(path, "/run") {
					body = "{}"
				}
				w := askFor(t, s, asUser(t, "sam", rt.method, path, body, time.Now()), 2*time.Second)
				if named := path != rt.path; strings.Contains(w.Body.String(), fakeflows.Owner) || named && w.Code != http.StatusNotFound {
					t.Errorf("%s %s by sam: %d %s", rt.method, path, w.Code, w.Body)
				}
				if _, text := get("vic", path); rt.method == http.MethodGet && !strings.Contains(text, string(fakeflows.Schedule)) {
					t.Errorf("%s does not show vic all: %s", path, text)
				}
				continue
			}
			if rt.method != http.MethodGet || rt.path == "/v1/events/{node}/{inc}/{seq}" { // whose bytes TestProofOfOwn reads
				continue
			}
			path := rt.path
			if path == "/v1/watch" {
				path += "?topics=status,members,lease,terms,workers,jobs,workflows,onion,events&after="
			}
			switch code, text := get("sam", path); {
			case strings.Contains(text, string(jobA)) || strings.Contains(text, "user:ann"):
				t.Errorf("%s shows sam what is ann's: %d %s", path, code, text)
			case rt.needs == access.Read && !strings.Contains(text, string(jobB)):
				t.Errorf("%s does not show sam what is sam's: %d %s", path, code, text)
			}
			if _, text := get("vic", path); rt.needs == access.Read && (!strings.Contains(text, string(jobA)) || !strings.Contains(text, string(jobB))) {
				t.Errorf("%s does not show vic all: %s", path, text)
			}
		}
		if walked < 20 {
			t.Fatalf("%d routes", walked)
		}
		for _, path := range []string{
			"/v1/jobs?after=" + string(jobA), "/v1/jobs/" + string(jobA) + "?consistency=strong", "/v1/events?job=" + string(jobA), "/v1/events?job=" + string(jobA[:6]),
			"/v1/watch?topics=jobs&job=" + string(jobA), "/v1/watch?topics=jobs&job=" + string(jobA[:6]),
		} {
			if code, text := get("sam", path); code != http.StatusNotFound {
				t.Errorf("%s by sam: %d %s", path, code, text)
			}
			if code, text := get("ann", path); code != http.StatusOK {
				t.Errorf("%s by ann: %d %s", path, code, text)
			}
		}
	})
}

// TestWatchOfASubmitter: neither rows, differences, gauges nor events of another's job
// come, also not after a role has changed, and a position of before is none.
func TestWatchOfASubmitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := usersServer(t, nil)
		twoOwners(f)
		time.Sleep(2 * access.Window)
		set := func(role access.Role) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.users = access.NewDirectory([]access.User{someone("sam", role), someone("vic", access.Viewer)})
		}
		id := regexp.MustCompile(`"id":"([^"]+)"`)
		path := "/v1/watch?topics=jobs,events"
		watch := func(at string) string {
			r := asUser(t, "sam", "GET", path, "", time.Now())
			if at != "" {
				r.Header.Set("Last-Event-ID", at)
			}
			return askFor(t, s, r, 20*time.Second).Body.String()
		}
		more := func() { // while a stream is on
			time.Sleep(5 * time.Second)
			f.update(func() {
				f.more = slices.Clone(f.more)
				for i := range f.more {
					f.more[i].Waits += "something new "
					logged(f, event.KindChunkFailed, `{"job":"`+string(f.more[i].ID)+`","worker":"n2"}`)
				}
			})
			time.Sleep(5 * time.Second)
			f.update(func() {
				f.more = slices.Clone(f.more)
				for i := range f.more {
					f.more[i].ElapsedSeconds += 100
				}
			})
		}
		last := ""
		for _, role := range []access.Role{access.Viewer, access.Submitter, access.Operator, access.Submitter} {
			set(role)
			go more()
			go askFor(t, s, asUser(t, "vic", "GET", path, "", time.Now()), 20*time.Second) // shares what may be shared
			text := watch(last)
			for _, want := range []string{`"snapshot"`, `"delta"`, `"gauges"`, `"log"`, string(jobB), `"may_change":` + map[bool]string{true: "true", false: "false"}[role == access.Operator]} {
				if !strings.Contains(text, want) {
					t.Errorf("%s: no %s in %s", role, want, text)
				}
			}
			if all := role != access.Submitter; strings.Contains(text, string(jobA)) != all || strings.Contains(text, "user:ann") != all {
				t.Errorf("%s sees of the job of ann: %s", role, text)
			}
			if prev := last; prev != "" && role != access.Operator && !strings.Contains(text, `"reason":"restart"`) {
				t.Errorf("%s goes on at a position of another role: %s", role, text)
			}
			found := id.FindAllStringSubmatch(text, -1)
			if len(found) == 0 {
				t.Fatalf("%s: no position in %s", role, text)
			}
			last = found[len(found)-1][1]
			time.Sleep(time.Minute)
		}
	})
}

// TestStreamsEndWithRights: within a second, with the reason in the last line, and not
// before. One that has much to tell ends as soon.
func TestStreamsEndWithRights(t *testing.T) {
	olga := func(role access.Role, keys ...string) access.User {
		u := access.User{Name: "olga", Role: role, UIDs: []uint64{1000}}
		for _, k := range keys {
			u.Keys = append(u.Keys, someone(k, role).Keys...)
		}
		return u
	}
	disabled := olga(access.Operator, "olga", "second")
	disabled.Disabled = true
	const long = 30 * time.Second
	for name, c := range map[string]struct {
		by   string // signed, token or socket
		then *access.User
		code api.Code // empty: the stream goes on
	}{
		"disabled":                {"signed", &disabled, api.CodeUnauthorized},
		"another role":            {"signed", new(olga(access.Submitter, "olga", "second")), api.CodeNotReady},
		"key removed":             {"signed", new(olga(access.Operator, "second")), api.CodeUnauthorized},
		"user gone":               {"signed", new(someone("else", access.Viewer)), api.CodeUnauthorized},
		"another's now":           {"signed", new(someone("olga2", access.Operator)), api.CodeUnauthorized},
		"another key added":       {"signed", new(olga(access.Operator, "olga", "second", "third")), ""},
		"another key removed":     {"signed", new(olga(access.Operator, "olga")), ""},
		"token: key removed":      {"token", new(olga(access.Operator, "second")), api.CodeUnauthorized},
		"token: another role":     {"token", new(olga(access.Submitter, "olga", "second")), api.CodeNotReady},
		"token: nothing changes":  {"token", nil, ""},
		"token: ends":             {"short token", nil, api.CodeUnauthorized},
		"socket: another role":    {"socket", new(olga(access.Submitter, "olga")), api.CodeNotReady},
		"socket: disabled":        {"socket", &disabled, api.CodeNotReady},
		"socket: nothing changes": {"socket", nil, ""},
	} {
		for _, path := range []string{"/v1/watch?topics=jobs,events", "/v1/events?follow=true", "/v1/jobs/" + string(jobA) + "/watch", "/v1/jobs/" + string(jobA) + "/chunks?follow=true"} {
			t.Run(name+path, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, f := usersServer(t, nil)
					twoOwners(f)
					f.users = access.NewDirectory([]access.User{olga(access.Operator, "olga", "second")})
					if name == "another's now" {
						c.then.Keys = someone("olga", access.Operator).Keys
					}
					time.Sleep(2 * access.Window)
					var r *http.Request
					ends := 10 * time.Second // when it may see no more
					switch c.by {
					case "signed":
						r = asUser(t, "olga", "GET", path, "", time.Now())
					case "socket":
						r = httptest.NewRequestWithContext(door.With(t.Context(), door.Peer{UID: 1000}), "GET", path, nil)
					default:
						life := 10 * time.Minute
						if c.by == "short token" {
							life, ends = 10*time.Second, 10*time.Second
						}
						token, err := access.Mint(testCluster, "olga", access.Viewer, userKey("olga"), "id", time.Now(), life)
						if err != nil {
							t.Fatal(err)
						}
						r = httptest.NewRequestWithContext(door.With(t.Context(), door.Peer{TCP: true, Users: true, Addr: "192.0.2.1"}), "GET", path, nil)
						r.Header.Set("Authorization", "Bearer "+token)
					}
					go func() {
						time.Sleep(10 * time.Second)
						f.mu.Lock()
						defer f.mu.Unlock()
						if c.then != nil {
							f.users = access.NewDirectory([]access.User{*c.then})
						}
					}()
					began := time.Now()
					w := askFor(t, s, r, ends+long)
					took := time.Since(began)
					if w.Code != http.StatusOK {
						t.Fatalf("%d %s", w.Code, w.Body)
					}
					if c.code == "" {
						if took < ends+long {
							t.Errorf("ended after %v: %s", took, w.Body)
						}
						return
					}
					if took < ends || took > ends+time.Second {
						t.Errorf("ended after %v, want %v and at most a second", took, ends)
					}
					list := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
					if end := list[len(list)-1]; !strings.Contains(end, `"code":"`+string(c.code)+`"`) || strings.HasPrefix(path, "/v1/watch") && !strings.HasPrefix(end, `{"event":"bye"`) {
						t.Errorf("the last line is %s, want code %s", end, c.code)
					}
				})
			})
		}
	}
}

// TestOwnJobOfALaggingHost: who asks for what is not older than a position finds its
// job once this host knows it.
func TestOwnJobOfALaggingHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := usersServer(t, nil)
		twoOwners(f)
		f.job.Owner, f.more = "", nil // not known yet
		at := event.Cursor{{Node: "n1", Inc: 1}: uint64(len(f.log) + 1)}.String()
		time.Sleep(2 * access.Window)
		go func() {
			time.Sleep(time.Second)
			f.update(func() {
				f.job.Owner = "user:ann"
				logged(f, event.KindHostStarted, `{}`)
			})
		}()
		w := askFor(t, s, asUser(t, "ann", "GET", "/v1/jobs/"+string(jobA)+"?min="+at, "", time.Now()), time.Minute)
		if w.Code != http.StatusOK {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
