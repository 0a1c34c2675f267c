package coord

import (
	"bytes"
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/simnet"
	"github.com/skein-project/skein/lease"
)

// pair are the services of host-a and host-b, which know each other and a third
// host. Their sockets are open, but nothing runs that would say anything by
// itself. The fake clock makes every byte that they send the same each time.
func pair(t *testing.T) (a, b *Service, out *recorder) {
	t.Helper()
	w := newWorld(t, cluster.ProfileLAN, 1, simnet.Link{})
	ha, hb, hc := w.add("host-a", 10), w.add("host-b", 20), w.add("host-c", 30)
	ha.founder = true
	ha.knows(hb, hc)
	hb.knows(ha, hc)
	published := uint64(time.Now().Unix()) - 20
	ha.tweak = func(o *Options) {
		o.Rand = func() float64 { return 0.5 }
		o.Local = func() Local { return Local{Slots: 4, Busy: 1, IntroPoints: 3, LastPublish: &published} }
	}
	for _, h := range []*host{ha, hb} {
		s, err := New(h.optionsAt(3))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.net.Run(ctx, func(err error) { t.Error(err) })
		}()
		t.Cleanup(func() {
			cancel()
			s.net.CloseSend()
			<-done
		})
		if h == ha {
			a = s
		} else {
			b = s
		}
	}
	out = &recorder{w: w}
	w.net.Tap(func(_, _ netip.AddrPort, data []byte) { out.data = append(out.data, bytes.Clone(data)) })
	synctest.Wait()
	return a, b, out
}

// recorder has what hosts sent.
type recorder struct {
	w    *world
	data [][]byte
}

// one is the one datagram that was sent since the last call.
func (r *recorder) one(t *testing.T) []byte {
	t.Helper()
	synctest.Wait()
	if len(r.data) != 1 {
		t.Fatalf("%d datagrams were sent", len(r.data))
	}
	defer func() { r.data = nil }()
	return r.data[0]
}

// received is the one message that b has accepted since the last call.
func received(t *testing.T, b *Service) (d transport.Delivery, ok bool) {
	t.Helper()
	synctest.Wait()
	select {
	case d = <-b.net.Inbox():
		if len(b.net.Inbox()) > 0 {
			t.Fatal("more than one message")
		}
		return d, true
	default:
		return d, false
	}
}

// messages sends each of the six messages from a to host-b, as the service does
// by itself.
func messages(t *testing.T, a *Service, r *recorder) map[string][]byte {
	t.Helper()
	out := make(map[string][]byte)
	note := func(name string) { out[name] = r.one(t) }
	now := a.now()
	a.beats.look(now)
	hb := a.beats.says.heartbeat(a.Members.hosts.peers["host-b"], now, false)
	hb.Role, hb.KnownPeers = cluster.RolePublisher, a.beats.endpoints.Hints("host-b", a.beats.schedule.round, a.net.Directory())
	if err := a.net.Send("host-b", wire.TypeHeartbeat, hb); err != nil {
		t.Fatal(err)
	}
	note("heartbeat")
	a.records.Send("host-b", "host-a")
	note("peer_announce")
	cfg := cluster.VoterConfig{Epoch: 3, Term: 7, Voters: []cluster.NodeID{"host-a", "host-b", "host-c"}, Mode: cluster.ModeQuorum}
	a.Lease.elector.Send(lease.Send{To: "host-b", Msg: lease.Message{Phase: lease.Vote, Priority: 10, Term: 8, Round: 5, Config: cfg}})
	note("lease_claim")
	a.Lease.elector.Send(lease.Send{To: "host-b", Msg: lease.Message{
		Phase: lease.ReleaseTerm, Priority: 10, Term: 8, Config: cfg, Successor: "host-b",
		Released: &lease.Release{Term: 8, Holder: "host-a", Successor: "host-b"},
	}})
	note("lease_release")
	list := func(points ...string) {
		var pieces [][]byte
		for _, p := range points {
			pieces = append(pieces, wire.PieceData(p))
		}
		if err := a.PublishShare(pieces, time.Now().Add(-5*time.Second)); err != nil {
			t.Fatal(err)
		}
		(<-a.loop.commands)() // the loop does not run
		a.shares.SendTo("host-b")
	}
	list("intro-point-1", "intro-point-2")
	note("intro_points")
	list(strings.Repeat("one", 500), strings.Repeat("two", 500))
	note("intro_points_digest")
	if err := a.net.Send("host-b", wire.TypeBackendUnhealthy, wire.BackendUnhealthy{Backend: "backend-2"}); err != nil {
		t.Fatal(err)
	}
	note("backend_unhealthy")
	return out
}

// TestGoldenMessages fixes the exact bytes of all six messages as one host sends
// them, and that another takes them through all its checks. They change only
// with the protocol. SKEIN_UPDATE=1 rewrites the files.
func TestGoldenMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, out := pair(t)
		sent := messages(t, a, out)
		for name, got := range sent {
			file := filepath.Join("testdata", name+".json")
			if os.Getenv("SKEIN_UPDATE") == "1" {
				if err := os.WriteFile(file, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s:\n got %s\nwant %s\nif that is meant: SKEIN_UPDATE=1 go test ./coord -run GoldenMessages", name, got, want)
			}
			if len(got) > wire.MaxDatagram {
				t.Errorf("%s: %d bytes", name, len(got))
			}
		}
		for range len(sent) {
			if d := <-b.net.Inbox(); d.Msg.Node != "host-a" || d.Payload == nil {
				t.Errorf("%+v", d.Msg.Header)
			}
		}
		if rest := b.net.Refused(); len(rest) != 0 || len(b.net.Inbox()) != 0 {
			t.Errorf("host-b refused %v", rest)
		}
	})
}

// TestNewerVersion: fields that this version does not know, in the envelope and
// in every payload, change nothing; a type that it does not know is counted and
// dropped.
func TestNewerVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, out := pair(t)
		inject := func(data []byte) {
			out.w.net.Inject(udpAddr(a.Members.hosts.self.IP4), udpAddr(b.Members.hosts.self.IP4), data)
		}
		sent := messages(t, a, out)
		for range len(sent) {
			<-b.net.Inbox()
		}
		for name, data := range sent {
			m, err := wire.Parse(data)
			if err != nil {
				t.Fatal(err)
			}
			want, err := wire.Decode(m)
			if err != nil {
				t.Fatal(err)
			}
			var fields map[string]json.RawMessage
			if err := json.Unmarshal(m.Payload, &fields); err != nil {
				t.Fatal(err)
			}
			fields["a_later_field"] = json.RawMessage(`{"list":[1,-2.5,null,{"deep":"x"}]}`)
			m.Seq += 1000
			later := seal(t, out.w.hosts["host-a"].key, m.Header, fields)
			later = bytes.Replace(later, []byte(`"v":2`), []byte(`"v":2,"hops":[1,2],"zone":{"id":"z"}`), 1)
			inject(later)
			got, ok := received(t, b)
			if !ok || got.Msg.Header != m.Header {
				t.Errorf("%s: %+v, refused %v", name, got.Msg.Header, b.net.Refused())
				continue
			}
			p := got.Payload
			switch v := p.(type) { // these keep their bytes for the lease core
			case wire.Claim:
				v.Raw = want.(wire.Claim).Raw //nolint:errcheck,forcetypeassert // the same type
				p = v
			case wire.Release:
				v.Raw = want.(wire.Release).Raw //nolint:errcheck,forcetypeassert // the same type
				p = v
			}
			if !reflect.DeepEqual(p, want) {
				t.Errorf("%s: read %+v, want %+v", name, p, want)
			}
		}
		later := seal(t, out.w.hosts["host-a"].key, wire.Header{
			Node: "host-a", Time: time.Now().Unix(), Type: "a_later_type", To: "host-b", Boot: 3, Seq: 5000,
		}, map[string]int{"x": 1})
		before := b.View()
		inject(later)
		_, taken := received(t, b)
		after := b.View()
		if after.Rejected[string(wire.ReasonUnknownType)] != 1 || taken {
			t.Errorf("an unknown type: %v", after.Rejected)
		}
		before.Rejected, after.Rejected = nil, nil
		if !reflect.DeepEqual(before, after) {
			t.Error("an unknown type changed the view")
		}
	})
}

// TestExamples reads the protocol documents' own examples. What version 2 of
// the protocol demands beyond them, it demands for a reason: nobody takes an
// unsigned message, a plain secret or a claim without a term.
func TestExamples(t *testing.T) {
	example := func(t *testing.T, name string) (raw []byte, payload map[string]any, env wire.Message) {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join("testdata", "examples", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var v struct {
			Node    cluster.NodeID  `json:"node_id"`
			Time    int64           `json:"timestamp"`
			Type    wire.Type       `json:"type"`
			Payload json.RawMessage `json:"payload"`
		}
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(v.Payload, &payload); err != nil {
			t.Fatal(err)
		}
		return raw, payload, wire.Message{
			Header: wire.Header{Node: v.Node, Time: v.Time, Type: v.Type, To: wire.Everyone, Boot: 1, Seq: 1}, Payload: v.Payload,
		}
	}
	published := uint64(1700000100)
	for name, want := range map[string]any{
		"heartbeat": wire.Heartbeat{
			Role: cluster.RolePublisher, LastPublish: &published, IntroPoints: 3,
			KnownPeers: []wire.PeerHint{{Node: "node-b", Endpoint: netip.MustParseAddrPort("192.168.1.2:51820"), TunnelIP: netip.MustParseAddr("10.200.200.2")}},
		},
		"intro_points":      wire.Share{},
		"lease_release":     wire.Release{},
		"backend_unhealthy": wire.BackendUnhealthy{Backend: "backend-2"},
		"peer_announce":     wire.ReasonPayload, // the plain secret
		"lease_claim":       wire.ReasonTerm,
	} {
		raw, payload, m := example(t, name)
		if string(m.Type) != name {
			t.Fatalf("%s is a %s", name, m.Type)
		}
		// Unsigned, none of them is a message of version 2.
		if _, err := wire.Parse(raw); wire.ReasonOf(err) != wire.ReasonVersion {
			t.Errorf("%s: %v", name, err)
		}
		// Every field is called and shaped like this in what is sent today.
		golden, err := os.ReadFile(filepath.Join("testdata", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		g, err := wire.Parse(golden)
		if err != nil {
			t.Fatal(err)
		}
		var today map[string]any
		if err := json.Unmarshal(g.Payload, &today); err != nil {
			t.Fatal(err)
		}
		sameShape(t, name, payload, today)
		p, err := wire.Decode(m)
		if reason, refused := want.(wire.Reason); refused {
			if err == nil || wire.ReasonOf(err) != reason {
				t.Errorf("%s: %v, want %s", name, err, reason)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if v, ok := p.(wire.Share); ok { // opaque: what counts is that there are two, and when
			if len(v.Pieces) != 2 || v.FetchedAt != 1700000195 {
				t.Errorf("%s: %+v", name, v)
			}
			continue
		}
		if !reflect.DeepEqual(p, want) {
			t.Errorf("%s: %+v, want %+v", name, p, want)
		}
	}
	// With what version 2 adds, the other two are read.
	_, payload, m := example(t, "peer_announce")
	payload["cluster_token"], payload["wg_pubkey"] = "v2:AAAA", strings.Repeat("A", 43)+"="
	payload["cert"], payload["ann"] = "Y2VydA.c2ln", "YW5u.c2ln"
	m.Payload = mustJSON(t, payload)
	if p, err := wire.Decode(m); err != nil || p.(wire.PeerAnnounce).Endpoint != netip.MustParseAddrPort("192.168.1.3:51820") { //nolint:errcheck,forcetypeassert // of that type
		t.Errorf("peer_announce: %+v, %v", p, err)
	}
	_, payload, m = example(t, "lease_claim")
	payload["term"] = 8
	m.Payload = mustJSON(t, payload)
	if p, err := wire.Decode(m); err != nil || p.(wire.Claim).Priority != 20 { //nolint:errcheck,forcetypeassert // of that type
		t.Errorf("lease_claim: %+v, %v", p, err)
	}
}

// sameShape checks that got has every field of want, with the same kind of
// value.
func sameShape(t *testing.T, at string, want, got any) {
	t.Helper()
	if reflect.TypeOf(want) != reflect.TypeOf(got) {
		t.Errorf("%s is a %T, want a %T", at, got, want)
		return
	}
	switch w := want.(type) {
	case map[string]any:
		g := got.(map[string]any) //nolint:errcheck,forcetypeassert // the same type
		for k, v := range w {
			if _, ok := g[k]; !ok {
				t.Errorf("%s has no field %s", at, k)
				continue
			}
			sameShape(t, at+"."+k, v, g[k])
		}
	case []any:
		g := got.([]any) //nolint:errcheck,forcetypeassert // the same type
		if len(w) > 0 && len(g) > 0 {
			sameShape(t, at+"[]", w[0], g[0])
		} else if !slices.Equal(w, g) {
			t.Errorf("%s: %d entries, want %d", at, len(g), len(w))
		}
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
