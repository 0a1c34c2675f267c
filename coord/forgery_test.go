package coord

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/wire"
)

// state is what no forgery may change.
func (h *host) state() string {
	v := h.svc.View()
	var b strings.Builder
	fmt.Fprintf(&b, "%x %s %d %d\n", v.Digest, v.Lease.Holder, v.Lease.Term, v.Lease.Vote.PromisedTerm)
	for _, m := range v.Members {
		fmt.Fprintf(&b, "%s %s %s %x %v %s %v\n", m.Node, m.IP4, m.IP6, m.WGPub, m.Endpoints, m.Health, m.Observed)
	}
	return b.String()
}

// TestForgeries: each is refused for its own reason, counted, and changes
// nothing. What is about a single field of a message is in
// TestBadDatagramsAreCountedAndChangeNothing.
func TestForgeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		a, b, c := w.three()
		defer w.stopAll()
		time.Sleep(6 * time.Second)
		now := time.Now().Unix()
		mallory := seedKey("mallory")
		cert := func(issuer, ip string, node cluster.NodeID) member.Signed {
			s, err := member.Cert{
				Cluster: w.verify.Cluster, Node: node, IDPub: publicKey(mallory), IP4: netip.MustParseAddr(ip),
				IP6: member.ULA(w.verify.Cluster, publicKey(mallory)), Serial: 9, Issued: now, Since: now,
				Expires: now + 1000, Issuer: publicKey(seedKey(issuer)),
			}.Sign(seedKey(issuer))
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		ann := func(wg byte) member.Signed {
			s, err := member.Ann{IDPub: publicKey(mallory), WGPub: [32]byte{wg}, Epoch: 1, Issued: now}.Sign(mallory)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		seq := uint64(1 << 20)
		// by is a member that passes on what mallory made: a member's own
		// signature must not make a record true.
		by := func(from *host, cert, ann member.Signed, ip string) []byte {
			seq++
			pa := wire.PeerAnnounce{TunnelIP: netip.MustParseAddr(ip), Cert: cert.String(), Ann: ann.String()}
			pa.ClusterToken = wire.AnnounceToken(w.verify.Cluster[:], from.node, pa)
			return seal(t, from.key, header(from, a, wire.TypePeerAnnounce, seq), pa)
		}
		beat := wire.Heartbeat{Role: cluster.RoleStandby, Version: "0.1.0", Profile: w.profile, SentUS: 1, Members: a.svc.View().Digest}
		good := seal(t, b.key, header(b, a, wire.TypeHeartbeat, 1<<21), beat)
		fromB := udpAddr(b.addr)
		for _, tc := range []struct {
			name   string
			reason wire.Reason
			from   netip.AddrPort
			data   []byte
		}{
			{
				"a host of the underlay with a stolen source", wire.ReasonSignature, fromB,
				seal(t, mallory, header(b, a, wire.TypeHeartbeat, 1<<22), beat),
			},
			{"a host of the underlay at its own address", wire.ReasonSource, netip.MustParseAddrPort("198.51.100.9:51821"), good},
			{
				"a local user of a member host, with that host's address", wire.ReasonSignature, fromB,
				seal(t, mallory, header(b, a, wire.TypeLeaseRelease, 1<<22), nil),
			},
			{
				"a local user of a member host, under another name", wire.ReasonSource, fromB,
				seal(t, mallory, header(c, a, wire.TypeHeartbeat, 1<<22), beat),
			},
			{"the record of a key that nobody certified", wire.ReasonRecord, fromB, by(b, cert("mallory", "10.0.0.77", "host-m"), ann(77), "10.0.0.77")},
			{"the record of a key that a plain member certified", wire.ReasonRecord, fromB, by(b, cert("host-b", "10.0.0.77", "host-m"), ann(77), "10.0.0.77")},
			{"an announcement with a stolen node id", wire.ReasonRecord, fromB, by(b, cert("mallory", "10.0.0.77", c.node), ann(77), "10.0.0.77")},
			{"an announcement with a wrong token", wire.ReasonRecord, fromB, func() []byte {
				seq++
				pa := wire.PeerAnnounce{TunnelIP: c.addr, Cert: c.cert.String(), Ann: c.ann.String(), ClusterToken: "v2:AAAA"}
				return seal(t, b.key, header(b, a, wire.TypePeerAnnounce, seq), pa)
			}()},
			{"an announcement that contradicts its records", wire.ReasonRecord, fromB, by(b, c.cert, c.ann, "10.0.0.77")},
			{"a claim without a term", wire.ReasonTerm, fromB, seal(t, b.key, header(b, a, wire.TypeLeaseClaim, 1<<21+5), claimWithoutTerm{Priority: 1})},
			{"64 KiB", wire.ReasonSize, fromB, slices.Repeat([]byte("{"), 64<<10-29)},
			{"deep JSON", wire.ReasonParse, fromB, []byte(`{"payload":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`)},
			{"a repeated key", wire.ReasonParse, fromB, []byte(strings.Replace(string(good), `"to":`, `"node_id":"host-a","to":`, 1))},
			{"a key in capitals", wire.ReasonParse, fromB, []byte(strings.Replace(string(good), `"to":`, `"NODE_ID":"host-a","to":`, 1))},
			{"a repeated key in the payload", wire.ReasonParse, fromB, []byte(strings.Replace(string(good), `"role":`, `"role":"publisher","role":`, 1))},
		} {
			before, n := a.state(), a.rejected(string(tc.reason))
			w.net.Inject(tc.from, udpAddr(a.addr), tc.data)
			time.Sleep(5 * time.Millisecond)
			if got := a.rejected(string(tc.reason)); got != n+1 {
				t.Errorf("%s: %s counted %d times, all: %v", tc.name, tc.reason, got-n, a.svc.View().Rejected)
			}
			if after := a.state(); after != before {
				t.Errorf("%s: changed\n%s\ninto\n%s", tc.name, before, after)
			}
		}
	})
}

type claimWithoutTerm struct {
	Priority uint32 `json:"priority"`
}

// TestReplay: a recorded datagram counts once, within the window and after a
// restart of the receiver, which has forgotten what it heard.
func TestReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		a, b, _ := w.three()
		defer w.stopAll()
		time.Sleep(6 * time.Second)
		beat := wire.Heartbeat{Role: cluster.RoleStandby, Version: "0.1.0", Profile: w.profile, SentUS: 1, Members: a.svc.View().Digest}
		b.crash()
		record := func(seq uint64) []byte { return seal(t, b.key, header(b, a, wire.TypeHeartbeat, seq), beat) }
		inject := func(data []byte) {
			w.net.Inject(udpAddr(b.addr), udpAddr(a.addr), data)
			time.Sleep(5 * time.Millisecond)
		}
		first := record(1 << 20)
		inject(first)
		before := a.state()
		for i := range 3 {
			inject(first)
			if got := a.rejected("replay"); got != uint64(i)+1 || a.state() != before {
				t.Errorf("replayed %d times, %d refused: %v", i+1, got, a.svc.View().Rejected)
			}
		}
		a.crash()
		a.restart()
		time.Sleep(1500 * time.Millisecond) // what others sent in the second of the start is refused as well
		n := a.rejected("clock")
		inject(first)
		m, _ := a.svc.View().Member(b.node)
		if a.rejected("clock") != n+1 || m.Health != cluster.Joining {
			t.Errorf("after a restart: %s, %v", m.Health, a.svc.View().Rejected)
		}
		time.Sleep(6 * time.Second)
		n = a.rejected("clock")
		inject(first)
		if a.rejected("clock") != n+1 {
			t.Errorf("later: %v", a.svc.View().Rejected)
		}
		// An earlier boot of b, recorded and held back until b is known anew.
		held := seal(t, b.key, header(b, a, wire.TypeHeartbeat, 7), beat)
		b.boot++
		inject(seal(t, b.key, header(b, a, wire.TypeHeartbeat, 1), beat))
		before = a.state()
		inject(held)
		if a.rejected("boot") != 1 || a.state() != before {
			t.Errorf("an earlier boot: %v", a.svc.View().Rejected)
		}
		b.boot--
		b.restart()
	})
}

// TestStolenAddress: two hosts are certified at one address, as after the
// restore of a sponsor's backup. The one with the better claim keeps it; the
// other gets no place in anyone's plan, and everyone is told.
func TestStolenAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		hosts := w.many(3)
		a, c := hosts[0], hosts[2]
		var told []member.Evidence
		a.tweak = func(o *Options) {
			o.OnChange = func(_ member.Change, ev []member.Evidence) {
				a.mu.Lock()
				defer a.mu.Unlock()
				told = append(told, ev...)
			}
		}
		for _, h := range hosts {
			h.start()
		}
		defer w.stopAll()
		w.until("all alive", 10*time.Second, w.allAlive)
		time.Sleep(time.Minute)
		thief := w.addAt("host-thief", 1, c.addr)
		w.order = w.order[:3]
		if err := a.svc.AddRecords(t.Context(), thief.records()); err != nil {
			t.Logf("refused: %v", err)
		}
		time.Sleep(5 * time.Second)
		for _, h := range hosts {
			v := h.svc.View()
			owners := 0
			for _, m := range v.Members {
				if m.IP4 == c.addr {
					owners++
					if m.Node != c.node {
						t.Errorf("%s: %s has the address", h.node, m.Node)
					}
				}
			}
			if m, ok := v.Member(c.node); owners != 1 || !ok || m.Health != cluster.Alive {
				t.Errorf("%s: %d owners, %+v", h.node, owners, m)
			}
		}
		a.mu.Lock()
		if len(told) != 1 {
			t.Errorf("told of %d contradictions", len(told))
		}
		a.mu.Unlock()
		// It cannot speak from that address either.
		n := a.rejected("source") + a.rejected("unknown_sender")
		w.net.Inject(udpAddr(c.addr), udpAddr(a.addr), seal(t, thief.key, wire.Header{
			Node: thief.node, Time: time.Now().Unix(), Type: wire.TypeHeartbeat, To: a.node, Boot: 1, Seq: 1,
		}, wire.Heartbeat{Role: cluster.RoleStandby, SentUS: 1}))
		time.Sleep(5 * time.Millisecond)
		if got := a.rejected("source") + a.rejected("unknown_sender"); got != n+1 {
			t.Errorf("a message of the thief: %v", a.svc.View().Rejected)
		}
	})
}
