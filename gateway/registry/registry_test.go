package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state"
)

// log is a State to which events are added.
type log struct {
	st  *state.State
	seq uint64
}

func newLog(t *testing.T) *log {
	t.Helper()
	l := &log{st: state.New()}
	l.add(t, event.KindTermStart, event.TermStart{Term: 1, Cut: event.Cut{}})
	return l
}

func (l *log) View(fn func(*state.State)) { fn(l.st) }

func (l *log) add(t *testing.T, kind event.Kind, body any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	l.seq++
	term := cluster.Term(1)
	if !kind.Authority() {
		term = 0
	}
	if l.st.Apply(event.Event{Source: event.SourceID{Node: "n1", Inc: 1}, Seq: l.seq, HLC: cluster.HLC(l.seq), Term: term, Kind: kind, Body: text}) {
		t.Fatal("a rebuild")
	}
	if _, _, malformed := l.st.Counts(); malformed > 0 {
		t.Fatalf("%s %s was refused", kind, text)
	}
}

func (l *log) enrol(t *testing.T, n byte, change func(*event.WorkerEnrolled)) cluster.NodeID {
	t.Helper()
	key := bytes.Repeat([]byte{n}, 32)
	b := event.WorkerEnrolled{Worker: cluster.OutsideID(key), Key: key, Owner: "user:ann"}
	if change != nil {
		change(&b)
	}
	l.add(t, event.KindWorkerEnrolled, b)
	return b.Worker
}

// TestWorkers: what the log says now counts.
func TestWorkers(t *testing.T) {
	l := newLog(t)
	r := New(l)
	home := l.enrol(t, 1, nil)
	rack := l.enrol(t, 2, func(b *event.WorkerEnrolled) { b.Owner, b.Trusted, b.Zone, b.Name = "node:n1", true, "fsn", "rack-1" })
	w, ok := r.Worker(cluster.OutsideID(bytes.Repeat([]byte{1}, 32)))
	if !ok || w.ID != home || w.Zone != cluster.OutsideZone || w.Trusted || w.Admitted() {
		t.Errorf("the worker of a user that is not there: %+v, %v", w, ok)
	}
	ann := event.UserSet{Name: "ann", Role: "submitter"}
	l.add(t, event.KindUserSet, ann)
	if w, _ := r.Worker(home); !w.Admitted() {
		t.Errorf("not let in: %+v", w)
	}
	ann.Disabled = true
	l.add(t, event.KindUserSet, ann)
	if w, _ := r.Worker(home); w.Admitted() || !w.Disabled {
		t.Errorf("of a disabled user: %+v", w)
	}
	if w, ok := r.Worker(rack); !ok || !w.Admitted() || !w.Trusted || w.Zone != "fsn" || w.Owner != "node:n1" || w.Name != "rack-1" {
		t.Errorf("a trusted one: %+v", w)
	}
	l.add(t, event.KindWorkerRevoked, event.WorkerRevoked{Worker: rack})
	l.enrol(t, 2, func(b *event.WorkerEnrolled) { b.Owner, b.Trusted = "node:n1", true })
	if w, ok := r.Worker(rack); !ok || w.Admitted() || !w.Revoked {
		t.Errorf("enrolled again after it was revoked: %+v", w)
	}
	if _, ok := r.Worker("n1"); ok {
		t.Error("a host is an outside worker")
	}
}

// TestShut: of very many workers those are named that are not let in, and Moment is another
// one exactly when that may have changed.
func TestShut(t *testing.T) {
	l := newLog(t)
	r := New(l)
	was := r.Moment()
	changed := func(what string, want bool) {
		t.Helper()
		if now := r.Moment(); (now != was) != want {
			t.Errorf("%s: changed %v, want %v", what, !want, want)
		} else {
			was = now
		}
	}
	changed("nothing", false)
	l.add(t, event.KindUserSet, event.UserSet{Name: "ann", Role: "submitter"})
	changed("a user", true)
	home := l.enrol(t, 1, nil)
	changed("a worker", true)
	rack := l.enrol(t, 2, func(b *event.WorkerEnrolled) { b.Owner, b.Trusted = "node:n1", true })
	changed("another worker", true)
	changed("nothing", false)
	strangers := make([]cluster.NodeID, shutAtOnce)
	for i := range strangers {
		strangers[i] = cluster.OutsideID([]byte(fmt.Sprint("stranger", i)))
	}
	all := append(slices.Clone(strangers), home, rack)
	if got := r.Shut(all); !slices.Equal(got, strangers) {
		t.Errorf("%d shut out, want those whom nobody enrolled, %d", len(got), len(strangers))
	}
	l.add(t, event.KindUserSet, event.UserSet{Name: "ann", Role: "submitter", Disabled: true})
	changed("a disabled user", true)
	if got := r.Shut([]cluster.NodeID{rack, home}); !slices.Equal(got, []cluster.NodeID{home}) {
		t.Errorf("of a disabled user: %v", got)
	}
	l.add(t, event.KindWorkerRevoked, event.WorkerRevoked{Worker: rack})
	changed("a revoked worker", true)
	if got := r.Shut([]cluster.NodeID{rack, home}); len(got) != 2 {
		t.Errorf("also revoked: %v", got)
	}
	if got := r.Shut(nil); got != nil {
		t.Errorf("of nobody: %v", got)
	}
}

// TestTokens: a token is good for as long as all that it hangs on.
func TestTokens(t *testing.T) {
	l := newLog(t)
	r := New(l)
	now := time.Unix(1000, 0)
	tok := NewToken("")
	set := event.AccessSet{ID: tok.ID, Hash: tok.Hash(), Owner: "user:ann", Roles: []string{"submit", "work"}, Expires: 1001}
	ann := event.UserSet{Name: "ann", Role: "submitter"}
	if _, ok := r.Access(tok.Text(), now); ok {
		t.Error("nobody made this token")
	}
	l.add(t, event.KindAccessSet, set)
	if _, ok := r.Access(tok.Text(), now); ok {
		t.Error("its user is not there")
	}
	l.add(t, event.KindUserSet, ann)
	a, ok := r.Access(tok.Text(), now)
	if !ok || a.Owner != "user:ann" || len(a.Roles) != 2 || a.ID != tok.ID || !a.Expires.Equal(time.Unix(1001, 0)) {
		t.Errorf("%+v, %v", a, ok)
	}
	if _, ok := r.Access(NewToken(tok.ID).Text(), now); ok {
		t.Error("another secret under the same id")
	}
	if _, ok := r.Access(tok.Text(), now.Add(time.Second)); ok {
		t.Error("it is over")
	}
	ann.Disabled = true
	l.add(t, event.KindUserSet, ann)
	if _, ok := r.Access(tok.Text(), now); ok {
		t.Error("its user is disabled")
	}
	ann.Disabled = false
	l.add(t, event.KindUserSet, ann)
	set.Roles = nil
	l.add(t, event.KindAccessSet, set)
	if _, ok := r.Access(tok.Text(), now); ok {
		t.Error("it is revoked")
	}
}

// TestGatewayKeys: a key is a host's, and good until it ends.
func TestGatewayKeys(t *testing.T) {
	l := newLog(t)
	r := New(l)
	key := bytes.Repeat([]byte{9}, 32)
	l.add(t, event.KindGatewayOpened, event.GatewayOpened{URL: "https://gw", KID: "k1", Key: key, Store: "memory", Until: 50})
	if k, ok := r.GatewayKey("n1", "k1", time.Unix(49, 0)); !ok || !bytes.Equal(k, key) {
		t.Errorf("%x, %v", k, ok)
	}
	for _, c := range []struct {
		node cluster.NodeID
		kid  string
		now  int64
	}{{"n1", "k1", 50}, {"n2", "k1", 1}, {"n1", "k2", 1}} {
		if _, ok := r.GatewayKey(c.node, c.kid, time.Unix(c.now, 0)); ok {
			t.Errorf("%+v has a key", c)
		}
	}
}

// TestSecretStays: no way to print a token but Text shows its secret.
func TestSecretStays(t *testing.T) {
	tok := NewToken("")
	secret := tok.Text()[len(tokenPrefix)+event.TokenIDLen+1:]
	for _, shown := range []string{fmt.Sprint(tok), fmt.Sprintf("%v %+v %#v %s", tok, &tok, tok, tok)} {
		if strings.Contains(shown, secret) || !strings.Contains(shown, tok.ID) {
			t.Errorf("shown as %s", shown)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	good := NewToken("abcdefghijklmnop")
	f.Add(good.Text())
	f.Add("skt_abcdefghijklmnop_")
	f.Add("skt_ABCDEFGHIJKLMNOP_" + strings.Repeat("A", 43))
	f.Add("skt_abcdefghijklmnop_" + strings.Repeat("A", 42) + "B") // bits that mean nothing
	f.Fuzz(func(t *testing.T, text string) {
		tok, err := ParseToken(text)
		if err != nil {
			return
		}
		if tok.Text() != text || event.CheckTokenID(tok.ID) != nil || !tok.Has(tok.Hash()) {
			t.Fatalf("%q was read as %q", text, tok.Text())
		}
	})
}
