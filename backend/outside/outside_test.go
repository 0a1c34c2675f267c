package outside

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/gateway/registry"
	"github.com/skein-project/skein/scheduler"
)

// host is a log and a scheduler that writes it.
type host struct {
	mu      sync.Mutex
	st      *state.State
	seq     uint64
	changed chan struct{}
	many    bool // there is room for nothing more
	down    bool // nobody says which workers there are
	old     cluster.NodeID
}

func (h *host) View(fn func(*state.State)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fn(h.st)
}

func (h *host) Changed() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed
}

// Set logs what the fold then takes as it is.
func (h *host) Set(_ context.Context, b event.Register) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.many {
		return fmt.Errorf("set %s: %w: at most 1", b.Subject(), scheduler.ErrMany)
	}
	return h.add(b.Kind(), b)
}

func (h *host) add(kind event.Kind, body any) error { return h.addAs("n1", kind, body) }

func (h *host) addAs(node cluster.NodeID, kind event.Kind, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	h.seq++
	h.st.Apply(event.Event{Source: event.SourceID{Node: node, Inc: 1}, Seq: h.seq, HLC: cluster.HLC(h.seq << 16), Term: 1, Kind: kind, Body: text})
	close(h.changed)
	h.changed = make(chan struct{})
	if _, _, bad := h.st.Counts(); bad > 0 {
		return fmt.Errorf("%s is malformed: %s", kind, text)
	}
	return nil
}

func (h *host) aware(kind event.Kind) error {
	if h.old == "" {
		return nil
	}
	return api.Errorf(api.CodeConflict, "the skein of %s is too old for %s", h.old, kind)
}

func newDesk(t *testing.T) (*Desk, *host) {
	t.Helper()
	h := &host{st: state.New(), changed: make(chan struct{})}
	if err := errors.Join(h.add(event.KindTermStart, event.TermStart{Term: 1}), h.Set(t.Context(), event.UserSet{Name: "ann", Role: "submitter"})); err != nil {
		t.Fatal(err)
	}
	r, err := forward.New(forward.Options{Self: "n1", Lease: func() forward.Lease { return forward.Lease{Holder: "n1", Holding: true} }})
	if err != nil {
		t.Fatal(err)
	}
	workers := func(context.Context) (api.Workers, error) {
		if h.down {
			return api.Workers{}, api.Errorf(api.CodeNoHolder, "nobody holds")
		}
		return api.Workers{Workers: []api.Worker{{Node: "n1"}, {Node: "outside@n1", Via: "n1", Kind: api.WorkerGroup, Workers: 7000}}}, nil
	}
	d := New(Options{Self: "n1", Log: h, Scheduler: h, Remote: r, Workers: workers, Aware: h.aware, Health: func(n cluster.NodeID) cluster.Health {
		if n == "n1" {
			return cluster.Alive
		}
		return cluster.Dead
	}})
	d.Handle(r)
	return d, h
}

// TestGateways: each host is listed once, by what it said last, with the workers that the
// holder reaches through it.
func TestGateways(t *testing.T) {
	d, h := newDesk(t)
	for i, kid := range []string{"a", "b", "c"} {
		b := event.GatewayOpened{URL: "https://" + kid, KID: strings.Repeat(kid, 16), Key: bytes.Repeat([]byte{byte(i)}, 32), Store: "memory", Until: int64(1_800_000_000 + i)}
		if err := h.addAs([]cluster.NodeID{"n1", "n1", "n2"}[i], event.KindGatewayOpened, b); err != nil {
			t.Fatal(err)
		}
	}
	out, err := d.Gateways(t.Context())
	if err != nil || len(out.Gateways) != 2 {
		t.Fatalf("%+v, %v", out, err)
	}
	if g := out.Gateways[0]; g.Node != "n1" || g.URL != "https://b" || g.Live != cluster.Alive || g.KeyEnds.Unix() != 1_800_000_001 || g.Workers == nil || *g.Workers != 7000 {
		t.Errorf("%+v", g)
	}
	if g := out.Gateways[1]; g.Node != "n2" || g.Live != cluster.Dead || g.Workers == nil || *g.Workers != 0 {
		t.Errorf("%+v", g)
	}
	h.down = true
	if out, err := d.Gateways(t.Context()); err != nil || len(out.Gateways) != 2 || out.Gateways[0].Workers != nil {
		t.Errorf("without a holder: %+v, %v", out, err)
	}
}

func attic(n byte) event.WorkerEnrolled {
	key := bytes.Repeat([]byte{n}, 32)
	return event.WorkerEnrolled{Worker: cluster.OutsideID(key), Key: key, Owner: "user:ann", Name: "attic"}
}

func is(err error, code api.Code, text string) bool {
	p, ok := errors.AsType[*api.Problem](err)
	return ok && p.Code == code && strings.Contains(p.Detail+" "+p.Hint, text)
}

// TestWorkers enrols, changes and revokes, each twice.
func TestWorkers(t *testing.T) {
	d, h := newDesk(t)
	ctx := t.Context()
	for range 2 {
		out, err := d.EnrolWorker(ctx, "uid:0", attic(1))
		if w := out.Worker; err != nil || w.State != api.StateEnrolled || w.Owner != "user:ann" || w.Zone != "outside" || w.Actor != "uid:0@n1" || w.Name != "attic" {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	if h.seq != 3 {
		t.Errorf("%d events, want one for one worker", h.seq-2)
	}
	other := attic(1)
	other.Trusted = true
	if out, err := d.EnrolWorker(ctx, "uid:0", other); err != nil || !out.Worker.Trusted {
		t.Errorf("trusted from now on: %+v, %v", out, err)
	}
	if _, err := d.EnrolWorker(ctx, "uid:0", attic(2)); err != nil {
		t.Fatal(err)
	}
	first, err := d.OutsideWorkers(ctx, "", 1)
	if err != nil || len(first.Workers) != 1 || first.Next != first.Workers[0].Worker {
		t.Fatalf("first page %+v, %v", first, err)
	}
	second, err := d.OutsideWorkers(ctx, first.Next, 1)
	if err != nil || len(second.Workers) != 1 || second.Next != "" || second.Workers[0].Worker <= first.Next {
		t.Errorf("second page %+v, %v", second, err)
	}
	if _, err := d.RevokeWorker(ctx, "uid:0", attic(3).Worker); !is(err, api.CodeNotFound, "no outside worker") {
		t.Errorf("nobody enrolled it: %v", err)
	}
	before := h.seq
	for range 2 {
		out, err := d.RevokeWorker(ctx, "uid:7", other.Worker)
		if err != nil || out.Worker.State != api.StateRevoked || out.Worker.RevokedBy != "uid:7@n1" || out.Worker.RevokedAt == nil {
			t.Errorf("%+v, %v", out, err)
		}
	}
	if h.seq != before+1 {
		t.Errorf("%d events for one end", h.seq-before)
	}
	if _, err := d.EnrolWorker(ctx, "uid:0", other); !is(err, api.CodeConflict, "was revoked") {
		t.Errorf("after its end: %v", err)
	}
	if err := h.Set(ctx, event.UserSet{Name: "ann", Role: "submitter", Disabled: true}); err != nil {
		t.Fatal(err)
	}
	list, err := d.OutsideWorkers(ctx, "", 10)
	states := map[cluster.NodeID]string{}
	for _, w := range list.Workers {
		states[w.Worker] = w.State
	}
	if err != nil || len(states) != 2 || states[other.Worker] != api.StateRevoked || states[attic(2).Worker] != api.StateDisabled {
		t.Errorf("states %v, %v", states, err)
	}
}

// TestTokens makes tokens and revokes them; a secret is good for what was said of it.
func TestTokens(t *testing.T) {
	d, h := newDesk(t)
	ctx := t.Context()
	reg := registry.New(h)
	out, err := d.CreateAccess(ctx, "uid:0", "user:ann", []string{"submit", "work"}, time.Hour)
	if err != nil || out.State != api.StateValid || len(out.Roles) != 2 || out.Actor != "uid:0@n1" || time.Until(out.ExpiresAt) > time.Hour {
		t.Fatalf("%+v, %v", out, err)
	}
	secret := out.Secret.Reveal()
	if a, ok := reg.Access(secret, time.Now()); !ok || a.Owner != "user:ann" || a.ID != out.ID {
		t.Errorf("%+v, %v", a, ok)
	}
	list, err := d.AccessTokens(ctx)
	text, _ := json.Marshal(list)
	if err != nil || len(list.Tokens) != 1 || bytes.Contains(text, []byte("skt_")) || bytes.Contains(text, []byte("hash")) {
		t.Errorf("%s, %v", text, err)
	}
	// Another secret under the id of one that is good for something.
	stolen := registry.NewToken(out.ID)
	set := event.AccessSet{ID: stolen.ID, Hash: stolen.Hash(), Owner: "user:ann", Roles: []string{"work"}, Expires: time.Now().Add(time.Hour).Unix()}
	if _, err := forward.AskHolder(ctx, d.o.Remote, forward.Access, "uid:0@n2", set); !is(err, api.CodeConflict, "already") {
		t.Errorf("a token was replaced: %v", err)
	}
	for _, expires := range []int64{1, time.Now().Unix(), time.Now().Add(2 * api.MaxAccessTTL).Unix()} {
		bad := set
		bad.ID, bad.Expires = "bbbbbbbbbbbbbbbb", expires
		if _, err := forward.AskHolder(ctx, d.o.Remote, forward.Access, "uid:0@n2", bad); !is(err, api.CodeInvalidRequest, "expires") {
			t.Errorf("until %d: %v", expires, err)
		}
	}
	before := h.seq
	for range 2 {
		end, err := d.RevokeAccess(ctx, "uid:7", out.ID)
		if err != nil || end.Token.State != api.StateRevoked || len(end.Token.Roles) != 0 || end.Token.Actor != "uid:7@n1" {
			t.Errorf("%+v, %v", end, err)
		}
	}
	if h.seq != before+1 {
		t.Errorf("%d events for one end", h.seq-before)
	}
	if _, ok := reg.Access(secret, time.Now()); ok {
		t.Error("it is good for something after its end")
	}
	if _, err := d.RevokeAccess(ctx, "uid:0", "bbbbbbbbbbbbbbbb"); !is(err, api.CodeNotFound, "no access token") {
		t.Errorf("no such token: %v", err)
	}
	// One that ended is not made good again by who kept its hash.
	again := event.AccessSet{ID: out.ID, Hash: cluster.Hash{}, Owner: "user:ann", Roles: []string{"work"}, Expires: set.Expires}
	kept, err := registry.ParseToken(secret)
	if err != nil {
		t.Fatal(err)
	}
	again.Hash = kept.Hash()
	if _, err := forward.AskHolder(ctx, d.o.Remote, forward.Access, "uid:0@n2", again); !is(err, api.CodeConflict, "already") {
		t.Errorf("a revoked token was made good again: %v", err)
	}
}

// TestTokensTakeThePlaceOfOldOnes: where there is no room, a new token has the id of one
// that is over, and the secret of that one is good for nothing.
func TestTokensTakeThePlaceOfOldOnes(t *testing.T) {
	d, h := newDesk(t)
	ctx := t.Context()
	future := time.Now().Add(time.Hour).Unix()
	var old registry.Token
	for i := range cluster.MaxAccessTokens {
		tok := registry.NewToken("")
		set := event.AccessSet{ID: tok.ID, Hash: tok.Hash(), Owner: "user:ann", Roles: []string{"work"}, Expires: future}
		if i == cluster.MaxAccessTokens/2 {
			old, set.Expires = tok, 1
		}
		if err := h.add(event.KindAccessSet, set); err != nil {
			t.Fatal(err)
		}
	}
	out, err := d.CreateAccess(ctx, "uid:0", "user:ann", []string{"watch"}, time.Hour)
	if err != nil || out.ID != old.ID {
		t.Fatalf("%+v, %v, want the id %s", out, err, old.ID)
	}
	reg := registry.New(h)
	if _, ok := reg.Access(old.Text(), time.Unix(0, 0)); ok {
		t.Error("the old secret is good for the new token")
	}
	if a, ok := reg.Access(out.Secret.Reveal(), time.Now()); !ok || a.Roles[0] != "watch" {
		t.Errorf("%+v, %v", a, ok)
	}
	h.many = true // as the scheduler says
	if _, err := d.CreateAccess(ctx, "uid:0", "user:ann", []string{"watch"}, time.Hour); !is(err, api.CodeConflict, "revoke one") {
		t.Errorf("no room: %v", err)
	}
	if _, err := d.EnrolWorker(ctx, "uid:0", attic(1)); !is(err, api.CodeConflict, "those that are revoked count") {
		t.Errorf("no room: %v", err)
	}
}

// TestOldMembers: nothing is asked of the holder while a member that lives would not
// understand it.
func TestOldMembers(t *testing.T) {
	d, h := newDesk(t)
	ctx := t.Context()
	if _, err := d.EnrolWorker(ctx, "uid:0", attic(1)); err != nil {
		t.Fatal(err)
	}
	before := h.seq
	h.old = "n3"
	for name, err := range map[string]error{
		"enrol":  second(d.EnrolWorker(ctx, "uid:0", attic(2))),
		"revoke": second(d.RevokeWorker(ctx, "uid:0", attic(1).Worker)),
		"create": second(d.CreateAccess(ctx, "uid:0", "user:ann", []string{"work"}, time.Hour)),
		"end":    second(d.RevokeAccess(ctx, "uid:0", "aaaaaaaaaaaaaaaa")),
	} {
		if !is(err, api.CodeConflict, "the skein of n3 is too old for ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if h.seq != before {
		t.Errorf("%d events were logged", h.seq-before)
	}
}

func second[T any](_ T, err error) error { return err }

// TestStrangersMayNotAppoint: a member that is no sponsor cannot say who is let in.
func TestStrangersMayNotAppoint(t *testing.T) {
	d, h := newDesk(t)
	before := h.seq
	asker := forward.Asker{From: "n2", Self: "n1", Actor: "uid:0@n2"}
	set := event.AccessSet{ID: "aaaaaaaaaaaaaaaa", Hash: cluster.Hash{1}, Owner: "user:ann", Roles: []string{"work"}, Expires: 1}
	for name, err := range map[string]error{
		"enrol":  forward.Enrol.Allow(asker, attic(1)),
		"revoke": forward.RevokeWorker.Allow(asker, event.WorkerRevoked{Worker: attic(1).Worker}),
		"access": forward.Access.Allow(asker, set),
		"end":    forward.RevokeAccess.Allow(asker, forward.AccessToken{ID: set.ID}),
	} {
		if !is(err, api.CodeForbidden, "n2 is no sponsor") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"a host's id": forward.Enrol.Check(event.WorkerEnrolled{Worker: "n1"}),
		"no roles":    forward.Access.Check(event.AccessSet{ID: set.ID, Hash: set.Hash, Owner: set.Owner, Expires: 1}),
		"no id":       forward.RevokeAccess.Check(forward.AccessToken{}),
		"a host":      forward.RevokeWorker.Check(event.WorkerRevoked{Worker: "n1"}),
	} {
		if err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if h.seq != before || d == nil {
		t.Errorf("%d events were logged", h.seq-before)
	}
}

// TestOneAtATime: of two that say something else of one worker at once, both are logged
// one after the other; of many that say the same, one is.
func TestOneAtATime(t *testing.T) {
	d, h := newDesk(t)
	before := h.seq
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := d.EnrolWorker(t.Context(), "uid:0", attic(1)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if h.seq != before+1 {
		t.Errorf("%d events for one enrolment that was asked for 20 times", h.seq-before)
	}
	d.changing <- struct{}{} // somebody decides, for ever
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := d.EnrolWorker(ctx, "uid:0", attic(2)); err == nil || !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
		t.Errorf("with nobody to decide: %v", err)
	}
}
