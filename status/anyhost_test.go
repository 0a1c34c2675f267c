package status

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/status/door"
)

// placed is a fake that does only what is done here, and carries to others.
type placed struct {
	*fake
	refuse  error
	carryTo func(to cluster.NodeID, c api.Carried) (api.Answered, error)
}

func (p *placed) done(ctx context.Context) error {
	if p.refuse == nil {
		p.did(door.Of(ctx).Actor())
	}
	return p.refuse
}

func (p *placed) Carry(_ context.Context, to cluster.NodeID, c api.Carried) (api.Answered, error) {
	return p.carryTo(to, c)
}

func (p *placed) RevokeToken(ctx context.Context, _, _ string) error { return p.done(ctx) }

func (p *placed) Remove(ctx context.Context, _ string, _ cluster.NodeID, _ string) (api.Removed, error) {
	return api.Removed{}, p.done(ctx)
}

func (p *placed) Drain(ctx context.Context, _ string, _ api.DrainRequest) (api.Drain, error) {
	return api.Drain{}, p.done(ctx)
}

func (p *placed) RemoveOnion(ctx context.Context, _, _ string) (api.OnionChanged, error) {
	return api.OnionChanged{}, p.done(ctx)
}

func (p *placed) SetOnionClients(ctx context.Context, _, _ string, _ api.OnionClientsRequest) (api.OnionChanged, error) {
	return api.OnionChanged{}, p.done(ctx)
}

func (p *placed) GrantOnion(ctx context.Context, _, _ string, _ cluster.NodeID) (api.OnionGranted, error) {
	return api.OnionGranted{}, p.done(ctx)
}

func (p *placed) VerifyOnion(ctx context.Context, _ string) (api.OnionVerified, error) {
	return api.OnionVerified{}, p.done(ctx)
}

func (p *placed) PublishOnion(ctx context.Context, _, _ string) (api.OnionPublished, error) {
	return api.OnionPublished{}, p.done(ctx)
}

func (p *placed) DrainOnion(ctx context.Context, _ string, _ api.OnionDrainRequest) (api.OnionDrained, error) {
	return api.OnionDrained{}, p.done(ctx)
}

// TestChangesGoWhereTheyAreMade walks what an operator may change: what another host
// must do goes there with its proof, to the first that can, and is checked there again.
func TestChangesGoWhereTheyAreMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := map[cluster.NodeID]*Server{}
		fakes := map[cluster.NodeID]*placed{}
		for _, name := range []cluster.NodeID{"n1", "n2", "n3"} {
			servers[name], _ = usersServer(t, func(f *fake, o *Options) {
				fakes[name] = &placed{fake: f}
				o.Backend = fakes[name]
				o.Hosts = []string{"host-" + string(name)}
			})
		}
		edge, f := servers["n1"], fakes["n1"]
		down := cluster.NodeID("n4")
		var asked []cluster.NodeID
		f.carryTo = func(to cluster.NodeID, c api.Carried) (api.Answered, error) {
			asked = append(asked, to)
			if to == down {
				return api.Answered{}, errors.New("nobody there")
			}
			return servers[to].Carried(t.Context(), "n1", c), nil
		}
		time.Sleep(2 * access.Window)
		away := func(hosts ...cluster.NodeID) error {
			return &api.Elsewhere{Hosts: hosts, Problem: api.Errorf(api.CodeConflict, "it lacks what that takes")}
		}
		walked := 0
		for _, rt := range edge.handlers.table() {
			if !rt.named || !rt.change {
				continue
			}
			walked++
			path := strings.NewReplacer("{node}", "n3", "{id}", "abc", "{address}", "a", "{inc}", "1", "{seq}", "1").Replace(rt.path)
			body := "{}"
			if strings.HasSuffix(path, "/drain") || strings.HasSuffix(path, "/grant") {
				body = `{"node":"n3"}`
			}
			ask := func(who string) *httptest.ResponseRecorder {
				asked = nil
				for _, x := range fakes {
					x.actors = nil
				}
				w := httptest.NewRecorder()
				edge.mux.ServeHTTP(w, asUser(t, who, rt.method, path, body, time.Now(), "host-n1:7443"))
				return w
			}
			f.refuse, fakes["n2"].refuse, fakes["n3"].refuse = away("n4", "n2", "n3"), away("n1", "n3"), nil
			if w := ask("olga"); w.Code != http.StatusOK || !slices.Equal(asked, []cluster.NodeID{"n4", "n2", "n3"}) || !slices.Equal(fakes["n3"].actors, []string{"user:olga"}) || w.Header().Get(elsewhere) != "" {
				t.Errorf("%s %s: %d %s, asked %v, n3 did it for %v", rt.method, rt.path, w.Code, w.Body, asked, fakes["n3"].actors)
			}
			if w := ask("ann"); w.Code != http.StatusForbidden || len(asked) > 0 {
				t.Errorf("%s %s by a submitter: %d, asked %v", rt.method, rt.path, w.Code, asked)
			}
			fakes["n3"].refuse = away("n1")
			if w := ask("olga"); w.Code != http.StatusConflict || !slices.Equal(asked, []cluster.NodeID{"n4", "n2", "n3"}) || !strings.Contains(w.Body.String(), "it lacks") {
				t.Errorf("%s %s that none can do: %d %s, asked %v", rt.method, rt.path, w.Code, w.Body, asked)
			}
			f.refuse = away("n4")
			if w := ask("olga"); w.Code < 500 {
				t.Errorf("%s %s with nobody there: %d %s", rt.method, rt.path, w.Code, w.Body)
			}
			f.refuse = away()
			if w := ask("olga"); w.Code != http.StatusConflict || len(asked) > 0 {
				t.Errorf("%s %s with nobody to ask: %d %s, asked %v", rt.method, rt.path, w.Code, w.Body, asked)
			}
		}
		if walked < 8 {
			t.Errorf("%d routes", walked)
		}
	})
}
