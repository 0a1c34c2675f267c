package outside

import (
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/gateway/registry"
)

// TestOwnWorkers: an access token for work enrols workers of its owner, and shuts out no
// others; the holder goes by its own log, whatever a gateway says.
func TestOwnWorkers(t *testing.T) {
	d, h := newDesk(t)
	ctx := t.Context()
	if err := h.Set(ctx, event.UserSet{Name: "bob", Role: "submitter"}); err != nil {
		t.Fatal(err)
	}
	token := func(owner string, roles ...string) api.Secret {
		made, err := d.CreateAccess(ctx, "uid:0", owner, roles, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return made.Secret
	}
	ann, bob, watch := token("user:ann", "work"), token("user:bob", "work"), token("user:ann", "watch")
	a := attic(1)
	w, err := d.OwnWorker(ctx, ann, a.Worker, a.Key, "attic")
	if err != nil || w.Owner != "user:ann" || w.Name != "attic" || w.Trusted || w.Actor[:6] != "token:" {
		t.Fatalf("%+v, %v", w, err)
	}
	before := h.seq
	if _, err := d.OwnWorker(ctx, ann, a.Worker, a.Key, "other"); err != nil || h.seq != before {
		t.Errorf("again: %v, %d events", err, h.seq-before)
	}
	asked := func(w forward.OwnWorker) error {
		return second(d.own(ctx, forward.Asker{From: "n2", Self: "n1", Actor: "token:x@n2"}, w))
	}
	over := registry.NewToken("")
	if err := h.Set(ctx, event.AccessSet{ID: over.ID, Hash: over.Hash(), Owner: "user:ann", Roles: []string{"work"}, Expires: 1}); err != nil {
		t.Fatal(err)
	}
	before = h.seq
	b := attic(2)
	for name, bad := range map[string]struct {
		w    forward.OwnWorker
		code api.Code
	}{
		"for watching":         {forward.OwnWorker{Token: watch, Worker: b.Worker, Key: b.Key}, api.CodeUnauthorized},
		"not a token":          {forward.OwnWorker{Token: "skt_x", Worker: b.Worker, Key: b.Key}, api.CodeUnauthorized},
		"an invented token":    {forward.OwnWorker{Token: api.Secret(registry.NewToken("").Text()), Worker: b.Worker, Key: b.Key}, api.CodeUnauthorized},
		"a token that is over": {forward.OwnWorker{Token: api.Secret(over.Text()), Worker: b.Worker, Key: b.Key}, api.CodeUnauthorized},
		"another's worker":     {forward.OwnWorker{Token: bob, Worker: a.Worker, Key: a.Key}, api.CodeConflict},
		"to end another's":     {forward.OwnWorker{Token: bob, Worker: a.Worker}, api.CodeNotFound},
		"to end nobody's":      {forward.OwnWorker{Token: ann, Worker: b.Worker}, api.CodeNotFound},
	} {
		if err := asked(bad.w); !api.IsCode(err, bad.code) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if h.seq != before {
		t.Errorf("%d events were logged", h.seq-before)
	}
	if list := d.OwnWorkers("user:ann", 10); len(list) != 1 || list[0].Worker != a.Worker || len(d.OwnWorkers("user:bob", 10)) != 0 || len(d.OwnWorkers("user:ann", 0)) != 0 {
		t.Errorf("%+v", list)
	}
	if w, err := d.OwnWorker(ctx, ann, a.Worker, nil, ""); err != nil || w.State != api.StateRevoked {
		t.Errorf("%+v, %v", w, err)
	}
	if err := asked(forward.OwnWorker{Token: ann, Worker: a.Worker, Key: a.Key}); !api.IsCode(err, api.CodeForbidden) {
		t.Errorf("a revoked one: %v", err)
	}
	h.old = "n3"
	if _, err := d.OwnWorker(ctx, ann, b.Worker, b.Key, ""); !is(err, api.CodeConflict, "n3 is too old") {
		t.Errorf("with an old member: %v", err)
	}
	for name, bad := range map[string]forward.OwnWorker{
		"no token":      {Worker: b.Worker, Key: b.Key},
		"a host":        {Token: ann, Worker: "n1"},
		"another's key": {Token: ann, Worker: b.Worker, Key: a.Key},
		"a bad name":    {Token: ann, Worker: b.Worker, Key: b.Key, Name: "a b"},
	} {
		if forward.Own.Check(bad) == nil {
			t.Errorf("%s was taken", name)
		}
	}
}
