package coord

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
)

// TestLegacyHeartbeats: a listed member may beat unsigned; that says that it
// lives and nothing more.
func TestLegacyHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		hosts := w.many(3)
		a, old, other := hosts[0], hosts[1], hosts[2]
		a.tweak = func(o *Options) { o.Legacy = []cluster.NodeID{old.node, "host-unknown"} }
		a.start()
		defer w.stopAll()
		w.until("holds", 10*time.Second, func() bool { return len(w.acters()) == 1 })
		v1 := func(node cluster.NodeID, kind wire.Type, at int64) string {
			return fmt.Sprintf(`{"node_id":%q,"timestamp":%d,"type":%q,"payload":{"role":"publisher","eligible":true,"term":99,`+
				`"holder":"host-001","members":"AAAAAAAAAAAAAAAAAAAAAA","known_peers":[{"node_id":"host-002","wg_pubkey":"x","wg_endpoint":"203.0.113.9:1"}]}}`,
				node, at, kind)
		}
		inject := func(from *host, data string) {
			w.net.Inject(udpAddr(from.addr), udpAddr(a.addr), []byte(data))
			time.Sleep(10 * time.Millisecond)
		}
		now := time.Now().Unix()
		before := a.svc.View()
		for _, tc := range []struct {
			name   string
			reason wire.Reason
			from   *host
			data   string
		}{
			{"not listed", wire.ReasonVersion, other, v1(other.node, wire.TypeHeartbeat, now)},
			{"no member", wire.ReasonUnknownSender, other, v1("host-unknown", wire.TypeHeartbeat, now)},
			{"foreign source", wire.ReasonSource, other, v1(old.node, wire.TypeHeartbeat, now)},
			{"old", wire.ReasonClock, old, v1(old.node, wire.TypeHeartbeat, now-9)},
			{"claim", wire.ReasonVersion, old, v1(old.node, wire.TypeLeaseClaim, now)},
			{"announcement", wire.ReasonVersion, old, v1(old.node, wire.TypePeerAnnounce, now)},
			{"stripped of its signature", wire.ReasonParse, old, fmt.Sprintf(
				`{"node_id":%q,"timestamp":%d,"type":"heartbeat","payload":{},"v":2,"boot":1,"seq":1,"to":"*"}`, old.node, now)},
			{"repeated field", wire.ReasonParse, old, fmt.Sprintf(
				`{"node_id":%q,"node_id":%q,"timestamp":%d,"type":"heartbeat","payload":{}}`, old.node, old.node, now)},
		} {
			n := a.rejected(string(tc.reason))
			inject(tc.from, tc.data)
			if a.rejected(string(tc.reason)) != n+1 {
				t.Errorf("%s: want %s, rejected %v", tc.name, tc.reason, a.svc.View().Rejected)
			}
			if m, _ := a.svc.View().Member(old.node); m.Health != cluster.Joining {
				t.Errorf("%s: health %s", tc.name, m.Health)
			}
		}
		for range 5 {
			inject(old, v1(old.node, wire.TypeHeartbeat, time.Now().Unix()))
			time.Sleep(time.Second)
		}
		v := a.svc.View()
		m, _ := v.Member(old.node)
		if m.Health != cluster.Alive || m.Eligible || m.Term != 0 || m.CaughtUp {
			t.Errorf("the old host: %+v", m)
		}
		if o, _ := v.Member(other.node); len(o.Observed) != 0 || o.Health != cluster.Joining {
			t.Errorf("it was believed about others: %+v", o)
		}
		if v.Lease.Holder != a.node || len(v.Lease.Config.Voters) != 1 || v.Digest != before.Digest || v.PublicEndpoint.IsValid() {
			t.Errorf("it changed more than its own liveness: %+v", v.Lease)
		}
		if n := a.metric("skein_coord_accepted_total", string(typeLegacy)); n != 5 {
			t.Errorf("%v counted", n)
		}
		inject(old, v1(old.node, wire.TypeHeartbeat, time.Now().Unix()-3))
		if a.rejected("replay") != 1 {
			t.Errorf("an older one was taken: %v", a.svc.View().Rejected)
		}
		a.svc.Tune(Tunables{})
		n := a.rejected("version")
		inject(old, v1(old.node, wire.TypeHeartbeat, time.Now().Unix()))
		if a.rejected("version") != n+1 {
			t.Errorf("taken off the list and still believed: %v", a.svc.View().Rejected)
		}
		w.order = w.order[:1] // the others never ran
	})
}
