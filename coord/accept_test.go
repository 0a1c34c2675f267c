package coord

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/election"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/simnet"
	"github.com/skein-project/skein/lease"
)

// claim is a lease message that would do harm if it were believed: a vote for
// a far higher term.
func claim(t *testing.T, from *host, term cluster.Term, cfg cluster.VoterConfig) wire.Claim {
	t.Helper()
	c, err := wire.NewClaim(election.Message{
		Message: lease.Message{Phase: lease.Vote, Priority: 1, Term: term, Round: 1, Config: cfg}, Profile: from.profile,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func seal(t *testing.T, key ed25519.PrivateKey, h wire.Header, payload any) []byte {
	t.Helper()
	b, err := wire.Seal(key, h, payload)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBadDatagramsAreCountedAndChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, simnet.Link{})
		a, b, c := w.three()
		defer w.stopAll()
		// b falls silent, so that the test can speak in its place.
		// This one is good, and old when it arrives.
		recorded := seal(t, b.key, wire.Header{
			Node: b.node, Time: time.Now().Unix(), Type: wire.TypeLeaseClaim, To: a.node, Boot: b.boot, Seq: 5000,
		}, claim(t, b, 1000, a.svc.View().Lease.Config))
		time.Sleep(6 * time.Second) // more than the tolerance, with what follows
		b.crash()
		w.until("b is suspect", 10*time.Second, func() bool {
			m, _ := a.svc.View().Member(b.node)
			return m.Health == cluster.Suspect
		})
		if w.holder(a.node, c.node) != a.node {
			t.Fatal("a does not hold")
		}
		now := func() int64 { return time.Now().Unix() }
		cfg := a.svc.View().Lease.Config
		good := claim(t, b, 1000, cfg)
		header := func(seq uint64) wire.Header {
			return wire.Header{Node: b.node, Time: now(), Type: wire.TypeLeaseClaim, To: a.node, Boot: b.boot, Seq: seq}
		}
		with := func(f func(*wire.Header)) wire.Header {
			h := header(9000)
			f(&h)
			return h
		}
		announce := func(about *host, key ed25519.PrivateKey, node cluster.NodeID) []byte {
			pa := wire.PeerAnnounce{TunnelIP: about.addr, Cert: about.cert.String(), Ann: about.ann.String()}
			pa.ClusterToken = wire.AnnounceToken(w.verify.Cluster[:], node, pa)
			return seal(t, key, wire.Header{
				Node: node, Time: now(), Type: wire.TypePeerAnnounce, To: a.node, Boot: 1, Seq: 1,
			}, pa)
		}
		stranger := w.add("host-x", 1)
		mallory := seedKey("mallory")
		forgedCert, err := member.Cert{
			Cluster: w.verify.Cluster, Node: "host-y", IDPub: publicKey(mallory), IP4: netip.MustParseAddr("10.0.0.77"),
			IP6: member.ULA(w.verify.Cluster, publicKey(mallory)), Serial: 9, Issued: now(), Since: now(),
			Expires: now() + 1000, Issuer: publicKey(mallory),
		}.Sign(mallory)
		if err != nil {
			t.Fatal(err)
		}
		forgedAnn, err := member.Ann{IDPub: publicKey(mallory), WGPub: [32]byte{7}, Epoch: 1, Issued: now()}.Sign(mallory)
		if err != nil {
			t.Fatal(err)
		}
		forged := &host{addr: netip.MustParseAddr("10.0.0.77"), cert: forgedCert, ann: forgedAnn}
		fromB := udpAddr(b.addr)
		for _, tc := range []struct {
			name   string
			reason wire.Reason
			from   netip.AddrPort
			data   []byte
		}{
			{"empty", wire.ReasonSize, fromB, nil},
			{"oversized", wire.ReasonSize, fromB, bytes.Repeat([]byte("x"), wire.MaxDatagram+1)},
			{"huge", wire.ReasonSize, fromB, bytes.Repeat([]byte("x"), 60_000)},
			{"garbage", wire.ReasonParse, fromB, []byte("\x00\xff{")},
			{"unsigned", wire.ReasonParse, fromB, []byte(fmt.Sprintf(
				`{"node_id":"host-b","timestamp":%d,"type":"lease_claim","payload":{"priority":1,"term":9},"v":2,"boot":1,"seq":9,"to":"*"}`, now()))},
			{"plain old message", wire.ReasonVersion, fromB, []byte(fmt.Sprintf(
				`{"node_id":"host-b","timestamp":%d,"type":"lease_claim","payload":{"priority":1}}`, now()))},
			{"duplicate field", wire.ReasonParse, fromB, []byte(`{"node_id":"host-b","node_id":"host-a"}`)},
			{"no member", wire.ReasonUnknownSender, udpAddr(stranger.addr), seal(t, stranger.key,
				with(func(h *wire.Header) { h.Node = stranger.node }), good)},
			{"own name", wire.ReasonUnknownSender, udpAddr(a.addr), seal(t, a.key, with(func(h *wire.Header) { h.Node = a.node }), good)},
			{"foreign source", wire.ReasonSource, udpAddr(c.addr), seal(t, b.key, header(9000), good)},
			{"underlay source", wire.ReasonSource, netip.MustParseAddrPort("192.0.2.2:51821"), seal(t, b.key, header(9000), good)},
			{"stale", wire.ReasonClock, fromB, seal(t, b.key, with(func(h *wire.Header) { h.Time -= 6 }), good)},
			{"from the future", wire.ReasonClock, fromB, seal(t, b.key, with(func(h *wire.Header) { h.Time += 7 }), good)},
			{"recorded long ago", wire.ReasonClock, fromB, recorded},
			{"for another", wire.ReasonTo, fromB, seal(t, b.key, with(func(h *wire.Header) { h.To = c.node }), good)},
			{"forged", wire.ReasonSignature, fromB, seal(t, c.key, header(9000), good)},
			{"tampered", wire.ReasonSignature, fromB, bytes.Replace(seal(t, b.key, header(9000), good), []byte(`"term":1000`), []byte(`"term":1001`), 1)},
			{"unknown type", wire.ReasonUnknownType, fromB, seal(t, b.key, with(func(h *wire.Header) { h.Type = "run_command"; h.Seq = 9001 }), nil)},
			{"a number used twice", transport.ReasonDuplicate, fromB, seal(t, b.key, with(func(h *wire.Header) { h.Seq = 9001 }), good)},
			{"claim without term", wire.ReasonTerm, fromB, seal(t, b.key, with(func(h *wire.Header) { h.Seq = 9002 }), json.RawMessage(`{"priority":1}`))},
			{"empty release", wire.ReasonTerm, fromB, seal(t, b.key, with(func(h *wire.Header) { h.Type = wire.TypeLeaseRelease; h.Seq = 9003 }), nil)},
			{"bad phase", wire.ReasonPayload, fromB, seal(t, b.key, with(func(h *wire.Header) { h.Seq = 9004 }), json.RawMessage(`{"priority":1,"term":9,"phase":"grab"}`))},
			{"bad heartbeat", wire.ReasonPayload, fromB, seal(t, b.key, with(func(h *wire.Header) { h.Type = wire.TypeHeartbeat; h.Seq = 9005 }), json.RawMessage(`{"role":"king"}`))},
			{"other profile", reasonProfile, fromB, seal(t, b.key, with(func(h *wire.Header) { h.Seq = 9006 }),
				json.RawMessage(`{"priority":1,"term":1000,"phase":"vote","round":1,"config":{"epoch":0,"term":0,"voters":null,"mode":""},"profile":"fast"}`))},
			{"forged release", election.ReasonProof, fromB, seal(t, b.key, with(func(h *wire.Header) { h.Seq = 9007 }), releaseClaim(t, a, b, cfg))},
			{"announcement of a made-up host", wire.ReasonRecord, udpAddr(forged.addr), announce(forged, mallory, "host-y")},
			{"announcement from elsewhere", wire.ReasonSource, fromB, announce(stranger, stranger.key, stranger.node)},
			{"announcement signed by another", wire.ReasonSignature, udpAddr(stranger.addr), announce(stranger, mallory, stranger.node)},
			{"earlier boot", wire.ReasonBoot, fromB, seal(t, b.key, with(func(h *wire.Header) { h.Boot = b.boot }), good)},
		} {
			if tc.name == "earlier boot" { // as if b had restarted; its first message is of no known type
				w.net.Inject(fromB, udpAddr(a.addr), seal(t, b.key, with(func(h *wire.Header) {
					h.Type, h.Boot, h.Seq = "run_command", b.boot+1, 1
				}), nil))
			}
			synctest.Wait()
			before, rejects := a.svc.View(), a.svc.View().Rejected
			term := before.Lease.Term
			metric := a.metric("skein_coord_rejected_total", string(tc.reason))
			w.net.Inject(tc.from, udpAddr(a.addr), tc.data)
			synctest.Wait()
			after := a.svc.View()
			rejects[string(tc.reason)]++
			if !maps.Equal(after.Rejected, rejects) {
				t.Errorf("%s: rejected %v, want %v", tc.name, after.Rejected, rejects)
			}
			if got := a.metric("skein_coord_rejected_total", string(tc.reason)); got != metric+1 {
				t.Errorf("%s: metric of %s went from %v to %v", tc.name, tc.reason, metric, got)
			}
			if !reflect.DeepEqual(before.Lease.Vote, after.Lease.Vote) || after.Lease.Holder != a.node || after.Lease.Term != term ||
				after.Digest != before.Digest || len(after.Members) != len(before.Members) || !a.svc.MayAct(term) {
				t.Errorf("%s: state changed: %+v, was %+v", tc.name, after.Lease, before.Lease)
			}
		}
		// The same bytes, true this time, are believed; and only once.
		data := seal(t, b.key, with(func(h *wire.Header) { h.Type, h.Boot, h.Seq = wire.TypeHeartbeat, b.boot+1, 9500 }), wire.Heartbeat{
			Role: cluster.RoleStandby, Version: "0.1.0", Profile: cluster.ProfileLAN, Members: a.svc.View().Digest, SentUS: 1,
		})
		replays := a.rejected("replay")
		w.net.Inject(fromB, udpAddr(a.addr), data)
		synctest.Wait()
		if m, _ := a.svc.View().Member(b.node); m.Health != cluster.Alive {
			t.Errorf("a good heartbeat was not believed: %s, %v", m.Health, a.svc.View().Rejected)
		}
		w.net.Inject(fromB, udpAddr(a.addr), data)
		synctest.Wait()
		if got := a.rejected("replay"); got != replays+1 {
			t.Errorf("replay counted %d times, want %d", got, replays+1)
		}
		w.order = w.order[:3] // the stranger never ran
	})
}

// releaseClaim is a pre-vote of b that carries a release of a's term, which a
// never signed.
func releaseClaim(t *testing.T, a, b *host, cfg cluster.VoterConfig) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(election.Message{Profile: b.profile, Message: lease.Message{
		Phase: lease.PreVote, Priority: 20, Term: 1000, Round: 1, Config: cfg,
		Released: &lease.Release{Term: 1, Holder: a.node, Successor: b.node, Proof: bytes.Repeat([]byte{1}, 64)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestFloodStarvesNobody: one peer sends 10 000 good datagrams a second.
func TestFloodStarvesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		a, b, c := w.three()
		defer w.stopAll()
		term := a.svc.View().Lease.Term
		hb := wire.Heartbeat{Role: cluster.RoleStandby, Version: "0.1.0", Profile: cluster.ProfileLAN, SentUS: 1, Members: a.svc.View().Digest}
		seq := uint64(1 << 20)
		seconds := 1
		if prove() {
			seconds = 10
		}
		before := a.metric("skein_coord_accepted_total", "heartbeat")
		for range seconds * 100 {
			seq++
			data := seal(t, b.key, wire.Header{Node: b.node, Time: time.Now().Unix(), Type: wire.TypeHeartbeat, To: a.node, Boot: b.boot, Seq: seq}, hb)
			for range 100 { // the rate is looked at before anything that costs
				w.net.Inject(udpAddr(b.addr), udpAddr(a.addr), data)
			}
			time.Sleep(10 * time.Millisecond)
			if !a.svc.MayAct(term) {
				t.Fatal("the holder was kept from renewing")
			}
		}
		synctest.Wait()
		accepted := a.metric("skein_coord_accepted_total", "heartbeat") - before
		if most := memberBurst + float64(seconds+1)*memberRate + 20; accepted > most {
			t.Errorf("%v heartbeats accepted, want at most %v", accepted, most)
		}
		if got := a.rejected("rate"); got < uint64(seconds*9500)-uint64(memberBurst) {
			t.Errorf("%d datagrams refused for their rate", got)
		}
		if q := a.rejected("queue"); q != 0 {
			t.Errorf("%d accepted messages found the loop too far behind", q)
		}
		if m, _ := a.svc.View().Member(c.node); m.Health != cluster.Alive {
			t.Errorf("%s is %s", c.node, m.Health)
		}
	})
}

func TestHeartbeatsFit(t *testing.T) {
	large(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, simnet.Link{})
		long := func(i int) cluster.NodeID { return cluster.NodeID(fmt.Sprintf("h%02d-%s", i, strings.Repeat("x", 28))) }
		var hosts []*host
		for i := range 9 {
			hosts = append(hosts, w.add(long(i), uint32(i)))
		}
		hosts[0].founder = true
		var mu sync.Mutex
		biggest := 0
		w.net.Tap(func(_, _ netip.AddrPort, data []byte) {
			mu.Lock()
			defer mu.Unlock()
			biggest = max(biggest, len(data))
		})
		// All of seven hosts vote, and go on when more come.
		for i, h := range hosts {
			if i > 0 {
				h.knows(hosts[0])
			}
			if i == 7 {
				w.until("seven voters", time.Minute, func() bool { return w.voters(7) })
			}
			h.start()
		}
		defer w.stopAll()
		for _, h := range hosts[1:] {
			if err := hosts[0].svc.AddRecords(t.Context(), h.records()); err != nil {
				t.Fatal(err)
			}
		}
		w.until("all alive, seven voters", time.Minute, func() bool { return w.allAlive() && w.voters(7) })
		time.Sleep(10 * time.Second)
		mu.Lock()
		if biggest > wire.MaxDatagram || biggest < 900 {
			t.Errorf("biggest datagram %d bytes", biggest)
		}
		mu.Unlock()
		for _, h := range hosts {
			if n := h.metric("skein_coord_unsent_total", "queue"); n != 0 {
				t.Errorf("%s: %v datagrams not queued", h.node, n)
			}
		}
	})
}
