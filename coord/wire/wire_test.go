package wire

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

func testKey(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func pub(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

func header(t Type) Header {
	return Header{Node: "n1", Time: 1_700_000_123, Type: t, To: "n2", Boot: 3, Seq: 9}
}

func hint(n cluster.NodeID) PeerHint {
	return PeerHint{Node: n, WGPub: WGKey{1, 2}, Endpoint: netip.MustParseAddrPort("192.168.1.2:51820"), TunnelIP: netip.MustParseAddr("10.77.0.2")}
}

func goldens() map[string]struct {
	h Header
	p any
} {
	published := uint64(1_700_000_100)
	full := Heartbeat{
		Role: cluster.RolePublisher, LastPublish: &published, KnownPeers: []PeerHint{hint("n2"), hint("n3")}, IntroPoints: 3,
		Version: "0.1.0", Profile: cluster.ProfileLAN, Zone: "fsn<1>", Priority: 10, Eligible: true, Term: 7, Holder: "n1",
		Members: Digest{1}, Log: Digest{2}, Slots: 4, Busy: 1, SentUS: 1_000_000, EchoUS: 900_000, HeldUS: 50_000,
	}
	ann := PeerAnnounce{
		WGPub: WGKey{9}, Endpoint: netip.MustParseAddrPort("192.168.1.3:51820"), TunnelIP: netip.MustParseAddr("10.77.0.3"),
		Cert: "Y2VydA.c2ln", Ann: "YW5u.c2ln",
	}
	ann.ClusterToken = AnnounceToken([]byte("cluster secret"), "n1", ann)
	everyone := header(TypeLeaseRelease)
	everyone.To = Everyone
	all := map[string]struct {
		h Header
		p any
	}{
		"heartbeat":       {header(TypeHeartbeat), full},
		"heartbeat_small": {header(TypeHeartbeat), Heartbeat{Role: cluster.RoleStandby, KnownPeers: []PeerHint{}}},
		"heartbeat_probed": {header(TypeHeartbeat), Heartbeat{
			Role: cluster.RoleStandby, KnownPeers: []PeerHint{}, LogEvents: 12, ProbeEcho: 1392,
		}},
		"heartbeat_loaded": {header(TypeHeartbeat), Heartbeat{
			Role: cluster.RoleStandby, KnownPeers: []PeerHint{}, Load: &Load{LoadLevel: 2, LoadCPU: 71, LoadMemory: 3, LoadDelayMS: 120},
		}},
		"heartbeat_placed": {header(TypeHeartbeat), Heartbeat{
			Role: cluster.RoleStandby, KnownPeers: []PeerHint{}, Place: strings.Repeat("A", 59), ZoneTrips: "AAABAfQ",
		}},
		"revoke":        {header(TypeRevoke), Revoke{Record: "cmV2.c2ln"}},
		"peer_announce": {header(TypePeerAnnounce), ann},
		"lease_claim":   {header(TypeLeaseClaim), Claim{Priority: 20, Term: 8, Raw: json.RawMessage(`{"phase":"vote","priority":20,"term":8}`)}},
		"lease_release": {header(TypeLeaseRelease), Release{Term: 8, Raw: json.RawMessage(`{"phase":"release","priority":20,"term":8}`)}},
		"release_empty": {everyone, nil},
		"intro_points": {header(TypeShare), Share{
			Pieces: []SharePiece{{Data: PieceData("one")}, {Data: PieceData("two?>")}}, FetchedAt: 1_700_000_120,
		}},
		"intro_points_digest": {header(TypeShare), Share{
			Pieces: []SharePiece{}, FetchedAt: 1_700_000_120, Count: 2,
			Digest: ShareDigest([]SharePiece{{Data: PieceData("one")}, {Data: PieceData("two?>")}}),
		}},
		"backend_unhealthy": {header(TypeBackendUnhealthy), BackendUnhealthy{Backend: "backend-2"}},
		"backends_unhealthy": {header(TypeBackendUnhealthy), BackendUnhealthy{
			Backend: "backend-2", Backends: []Backend{{Name: "backend-2"}, {Name: "backend-1", Healthy: true}},
		}},
	}
	for name, p := range swimGoldens() {
		g := all[name]
		g.h, g.p = header(p.kind()), p
		all[name] = g
	}
	return all
}

func TestGolden(t *testing.T) {
	for name, g := range goldens() {
		got, err := Seal(testKey(1), g.h, g.p)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
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
			t.Errorf("%s:\n got %s\nwant %s\nif that is meant: SKEIN_UPDATE=1 go test ./coord/wire -run Golden", name, got, want)
		}
		m, err := Parse(want)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if m.Header != g.h {
			t.Errorf("%s: header %+v, want %+v", name, m.Header, g.h)
		}
		if err := Verify(m, pub(testKey(1))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		p, err := Decode(m)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if again, err := Seal(testKey(1), g.h, p); err != nil || !bytes.Equal(again, want) {
			t.Errorf("%s: decoded and sealed again: %s, %v", name, again, err)
		}
		if a, ok := p.(PeerAnnounce); ok {
			if !a.CheckToken([]byte("cluster secret"), "n1") || a.CheckToken([]byte("other"), "n1") || a.CheckToken([]byte("cluster secret"), "n2") {
				t.Error("cluster token does not prove what it should")
			}
			if a.Endpoint = (netip.AddrPort{}); a.CheckToken([]byte("cluster secret"), "n1") {
				t.Error("cluster token does not cover the endpoint")
			}
		}
	}
}

func TestSignatureCoversEverything(t *testing.T) {
	raw, err := Seal(testKey(1), header(TypeLeaseClaim), Claim{Priority: 2, Term: 8, Raw: json.RawMessage(`{"priority":2,"term":8}`)})
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Message){
		"node":      func(m *Message) { m.Node = "n3" },
		"time":      func(m *Message) { m.Time++ },
		"type":      func(m *Message) { m.Type = TypeLeaseRelease },
		"to":        func(m *Message) { m.To = Everyone },
		"boot":      func(m *Message) { m.Boot++ },
		"seq":       func(m *Message) { m.Seq++ },
		"payload":   func(m *Message) { m.Payload = []byte(`{"priority":2,"term": 8}`) },
		"absent":    func(m *Message) { m.Payload = nil },
		"signature": func(m *Message) { m.Sig[0] ^= 1 },
		"cut":       func(m *Message) { m.Sig = m.Sig[:63] },
		"boundary":  func(m *Message) { m.Node, m.Type = "n", "1lease_claim" },
	} {
		m, err := Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		change(&m)
		if err := Verify(m, pub(testKey(1))); ReasonOf(err) != ReasonSignature {
			t.Errorf("%s changed: %v", name, err)
		}
	}
	m, _ := Parse(raw)
	if err := Verify(m, pub(testKey(2))); ReasonOf(err) != ReasonSignature {
		t.Errorf("foreign key: %v", err)
	}
	if err := Verify(m, nil); ReasonOf(err) != ReasonSignature {
		t.Errorf("no key: %v", err)
	}
}

// mangle returns a good heartbeat with old replaced by new, once.
func mangle(t *testing.T, old, new string) []byte {
	t.Helper()
	raw, err := Seal(testKey(1), header(TypeHeartbeat), Heartbeat{Role: cluster.RoleStandby, KnownPeers: []PeerHint{hint("n2")}})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(raw, []byte(old)) {
		t.Fatalf("%s not in %s", old, raw)
	}
	return bytes.Replace(raw, []byte(old), []byte(new), 1)
}

func TestParseRefuses(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 8) + "1" + strings.Repeat("}", 8)
	for name, c := range map[string]struct {
		old, new string
		want     Reason
	}{
		"repeated envelope field":   {`"v":2`, `"v":2,"node_id":"n3"`, ReasonParse},
		"upper-case envelope field": {`"v":2`, `"v":2,"NODE_ID":"n3"`, ReasonParse},
		"folding letter":            {`"v":2`, `"v":2,"` + "node_\u0131d" + `":"n3"`, ReasonParse},
		"escaped field name":        {`"v":2`, `"v":2,"n\u006fde_id":"n3"`, ReasonParse},
		"empty field name":          {`"v":2`, `"v":2,"":1`, ReasonParse},
		"repeated payload field":    {`"role":`, `"role":"publisher","role":`, ReasonParse},
		"case variant in payload":   {`"role":`, `"Role":"publisher","role":`, ReasonParse},
		"repeated deep field":       {`"wg_endpoint":`, `"node_id":"n9","wg_endpoint":`, ReasonParse},
		"nested too deep":           {`"v":2`, `"v":2,"x":` + deep, ReasonParse},
		"number 2^53":               {`"v":2`, `"v":2,"x":9007199254740992`, ReasonParse},
		"number -2^53":              {`"v":2`, `"v":2,"x":-9007199254740992`, ReasonParse},
		"number 1e400":              {`"v":2`, `"v":2,"x":1e400`, ReasonParse},
		"boot 2^53":                 {`"boot":3`, `"boot":9007199254740992`, ReasonParse},
		"boot 0":                    {`"boot":3`, `"boot":0`, ReasonParse},
		"seq 0":                     {`"seq":9`, `"seq":0`, ReasonParse},
		"seq as text":               {`"seq":9`, `"seq":"9"`, ReasonParse},
		"seq as fraction":           {`"seq":9`, `"seq":9.0`, ReasonParse},
		"seq negative":              {`"seq":9`, `"seq":-9`, ReasonParse},
		"timestamp 0":               {`"timestamp":1700000123`, `"timestamp":0`, ReasonParse},
		"node id":                   {`"node_id":"n1"`, `"node_id":"N1"`, ReasonParse},
		"node id of null":           {`"node_id":"n1"`, `"node_id":null`, ReasonParse},
		"no node id":                {`"node_id":"n1",`, ``, ReasonParse},
		"to":                        {`"to":"n2"`, `"to":"**"`, ReasonParse},
		"no to":                     {`"to":"n2",`, ``, ReasonParse},
		"type":                      {`"type":"heartbeat"`, `"type":"heart beat"`, ReasonParse},
		"no type":                   {`"type":"heartbeat",`, ``, ReasonParse},
		"short sig":                 {`"sig":"`, `"sig":"x","y":"`, ReasonParse},
		"unsigned":                  {`"sig":"`, `"other":"`, ReasonParse},
		"two values":                {`{"node_id"`, `{} {"node_id"`, ReasonParse},
		"array":                     {`{"node_id"`, `[{"node_id"`, ReasonParse},
		"not UTF-8":                 {`"v":2`, "\"v\":2,\"x\":\"\xff\"", ReasonParse},
		"version 1":                 {`"v":2`, `"v":1`, ReasonVersion},
		"no version":                {`"v":2,`, ``, ReasonVersion},
		"too long":                  {`"v":2`, `"v":2,"x":"` + strings.Repeat("x", MaxDatagram) + `"`, ReasonSize},
	} {
		m, err := Parse(mangle(t, c.old, c.new))
		if err == nil || ReasonOf(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		if err != nil && m.Node != "" {
			t.Errorf("%s: a refused message was returned", name)
		}
	}
	for _, raw := range []string{"", "{}", "null", `"x"`, "[]"} {
		if _, err := Parse([]byte(raw)); err == nil {
			t.Errorf("%q was accepted", raw)
		}
	}
}

func TestParseIgnoresUnknownFields(t *testing.T) {
	m, err := Parse(mangle(t, `"v":2`, `"v":2,"extra":{"a":[1,-2.5e3,true,null,"x\"}"]},"later":[]`))
	if err != nil {
		t.Fatal(err)
	}
	if err := Verify(m, pub(testKey(1))); err != nil {
		t.Error(err)
	}
}

func TestParseCopies(t *testing.T) {
	raw := mangle(t, `"v":2`, `"v":2`)
	m, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	clear(raw)
	if err := Verify(m, pub(testKey(1))); err != nil {
		t.Errorf("the message changed with the buffer: %v", err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	peers := func(n int) string {
		return strings.TrimSuffix(strings.Repeat(`{"node_id":"n2","wg_pubkey":"`+strings.Repeat("A", 43)+`=","wg_endpoint":"","tunnel_ip":"10.0.0.1"},`, n), ",")
	}
	for name, c := range map[string]struct {
		t       Type
		payload string
		want    Reason
	}{
		"unknown type":          {"reboot_now", `{}`, ReasonUnknownType},
		"heartbeat absent":      {TypeHeartbeat, ``, ReasonPayload},
		"heartbeat null":        {TypeHeartbeat, `null`, ReasonPayload},
		"heartbeat array":       {TypeHeartbeat, `[]`, ReasonPayload},
		"heartbeat role":        {TypeHeartbeat, `{"role":"holder"}`, ReasonPayload},
		"heartbeat role type":   {TypeHeartbeat, `{"role":1}`, ReasonPayload},
		"heartbeat five peers":  {TypeHeartbeat, `{"role":"standby","known_peers":[` + peers(5) + `]}`, ReasonPayload},
		"heartbeat peer ip":     {TypeHeartbeat, `{"role":"standby","known_peers":[{"node_id":"n2"}]}`, ReasonPayload},
		"heartbeat digest":      {TypeHeartbeat, `{"role":"standby","log":"AAAA"}`, ReasonPayload},
		"heartbeat zone":        {TypeHeartbeat, `{"role":"standby","zone":"a\u001b[0m"}`, ReasonPayload},
		"heartbeat priority":    {TypeHeartbeat, `{"role":"standby","priority":-1}`, ReasonPayload},
		"heartbeat busy":        {TypeHeartbeat, `{"role":"standby","busy":1}`, ReasonPayload},
		"heartbeat holder":      {TypeHeartbeat, `{"role":"standby","holder":"X"}`, ReasonPayload},
		"heartbeat load level":  {TypeHeartbeat, `{"role":"standby","load":[5,0,0,0,0]}`, ReasonPayload},
		"heartbeat load share":  {TypeHeartbeat, `{"role":"standby","load":[0,0,101,0,0]}`, ReasonPayload},
		"heartbeat load delay":  {TypeHeartbeat, `{"role":"standby","load":[0,0,0,0,3600001]}`, ReasonPayload},
		"heartbeat load types":  {TypeHeartbeat, `{"role":"standby","load":[1,-2]}`, ReasonPayload},
		"announce plain secret": {TypePeerAnnounce, `{"cluster_token":"secret","tunnel_ip":"10.0.0.1","cert":"a","ann":"b"}`, ReasonPayload},
		"announce no cert":      {TypePeerAnnounce, `{"cluster_token":"v2:x","tunnel_ip":"10.0.0.1","ann":"b"}`, ReasonPayload},
		"announce long ann":     {TypePeerAnnounce, `{"cluster_token":"v2:x","tunnel_ip":"10.0.0.1","cert":"a","ann":"` + strings.Repeat("b", MaxRecordText+1) + `"}`, ReasonPayload},
		"claim without term":    {TypeLeaseClaim, `{"priority":20}`, ReasonTerm},
		"claim term 0":          {TypeLeaseClaim, `{"priority":20,"term":0}`, ReasonTerm},
		"claim no priority":     {TypeLeaseClaim, `{"term":3}`, ReasonPayload},
		"claim priority":        {TypeLeaseClaim, `{"priority":4294967296,"term":3}`, ReasonPayload},
		"claim null":            {TypeLeaseClaim, `null`, ReasonPayload},
		"intro points absent":   {TypeShare, `[]`, ReasonPayload},
		"intro point empty":     {TypeShare, `{"intro_points":[{"data":""}],"fetched_at":1}`, ReasonPayload},
		"intro point no base64": {TypeShare, `{"intro_points":[{"data":"!"}],"fetched_at":1}`, ReasonPayload},
		"intro point too long":  {TypeShare, `{"intro_points":[{"data":"` + strings.Repeat("A", 2736) + `"}],"fetched_at":1}`, ReasonPayload},
		"21 intro points":       {TypeShare, `{"intro_points":[` + strings.Repeat(`{"data":"AAAA"},`, 20) + `{"data":"AAAA"}],"fetched_at":1}`, ReasonPayload},
		"intro count alone":     {TypeShare, `{"intro_points":[],"fetched_at":1,"count":2}`, ReasonPayload},
		"intro count 21":        {TypeShare, `{"intro_points":[],"fetched_at":1,"count":21,"digest":"AgAAAAAAAAAAAAAAAAAAAA"}`, ReasonPayload},
		"intro list and digest": {TypeShare, `{"intro_points":[{"data":"AAAA"}],"fetched_at":1,"count":1,"digest":"AgAAAAAAAAAAAAAAAAAAAA"}`, ReasonPayload},
		"intro time negative":   {TypeShare, `{"intro_points":[],"fetched_at":-1}`, ReasonPayload},
		"backend absent":        {TypeBackendUnhealthy, `{}`, ReasonPayload},
		"backend of control":    {TypeBackendUnhealthy, `{"backend":"a\u001b[31m"}`, ReasonPayload},
		"backend too long":      {TypeBackendUnhealthy, `{"backend":"` + strings.Repeat("b", MaxBackend+1) + `"}`, ReasonPayload},
		"backend a number":      {TypeBackendUnhealthy, `{"backend":2}`, ReasonPayload},
		"9 backends":            {TypeBackendUnhealthy, `{"backend":"b","backends":[` + strings.Repeat(`{"name":"b"},`, 8) + `{"name":"b"}]}`, ReasonPayload},
		"backends without name": {TypeBackendUnhealthy, `{"backend":"b","backends":[{"healthy":true}]}`, ReasonPayload},
		"backends of control":   {TypeBackendUnhealthy, `{"backend":"b","backends":[{"name":"a\u001b[31m"}]}`, ReasonPayload},
		"backends too long":     {TypeBackendUnhealthy, `{"backend":"b","backends":[{"name":"` + strings.Repeat("b", MaxBackendName+1) + `"}]}`, ReasonPayload},
		"release text":          {TypeLeaseRelease, `"x"`, ReasonPayload},
		"release term type":     {TypeLeaseRelease, `{"term":"x"}`, ReasonPayload},
	} {
		m := Message{Header: header(c.t)}
		if c.payload != "" {
			m.Payload = json.RawMessage(c.payload)
		}
		if _, err := Decode(m); err == nil || ReasonOf(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func TestReleaseWithoutPayload(t *testing.T) {
	for _, payload := range []string{"", "null", "{}", "{ }"} {
		raw := fmt.Sprintf(`{"node_id":"n1","timestamp":1,"type":"lease_release","v":2,"boot":1,"seq":1,"to":"*","sig":%q,"payload":%s}`,
			strings.Repeat("A", 86), payload)
		if payload == "" {
			raw = strings.Replace(raw, `,"payload":`, "", 1)
		}
		m, err := Parse([]byte(raw))
		if err != nil {
			t.Fatalf("%q: %v", payload, err)
		}
		p, err := Decode(m)
		if err != nil || p.(Release).Term != 0 {
			t.Errorf("%q: %+v, %v", payload, p, err)
		}
	}
}

func TestSealRefuses(t *testing.T) {
	if _, err := Seal(testKey(1), header(TypeHeartbeat), Claim{Term: 1, Raw: []byte("{}")}); ReasonOf(err) != ReasonPayload {
		t.Errorf("payload of another type: %v", err)
	}
	long := header("later")
	if _, err := Seal(testKey(1), long, map[string]string{"x": strings.Repeat("x", MaxDatagram)}); ReasonOf(err) != ReasonSize {
		t.Errorf("too long: %v", err)
	}
	if _, err := NewClaim(struct {
		Priority uint32 `json:"priority"`
	}{}); ReasonOf(err) != ReasonTerm {
		t.Errorf("claim without term: %v", err)
	}
}

func TestHeartbeatSizes(t *testing.T) {
	const n32 = "abcdefghijklmnopqrstuvwxyz012345"
	h := Header{Node: n32, Time: 1_900_000_000, Type: TypeHeartbeat, To: n32, Boot: 1 << 20, Seq: 1 << 33}
	published := uint64(1_900_000_000)
	big := PeerHint{Node: "abcdefghijklmnop", WGPub: WGKey{0xff}, Endpoint: netip.MustParseAddrPort("255.255.255.255:65535"), TunnelIP: netip.MustParseAddr("10.255.255.255")}
	hb := Heartbeat{
		Role: cluster.RolePublisher, LastPublish: &published, KnownPeers: []PeerHint{big, big, big}, IntroPoints: 20,
		Version: "10.20.30", Level: 100, Profile: cluster.ProfileClassic, Zone: "datacenter-frankfurt", Priority: 1 << 31, Eligible: true, Term: 1 << 40, Holder: n32,
		Slots: 512, Busy: 512, SentUS: 1 << 45, EchoUS: 1 << 45, HeldUS: 1 << 21,
	}
	raw, err := Seal(testKey(1), h, hb)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("heartbeat with 3 deltas: %d bytes", len(raw))
	h.Node, h.To, hb.Load = "web-01", "web-02", &Load{1, 50, 0, 2, 12}
	hb.Holder, hb.KnownPeers = "web-01", []PeerHint{hint("web-03"), hint("web-04"), hint("web-05"), hint("web-06")}
	if raw, err = Seal(testKey(1), h, hb); err != nil {
		t.Fatal(err)
	}
	t.Logf("heartbeat with 4 deltas: %d bytes", len(raw))
	placed := hb
	placed.Place, placed.KnownPeers = strings.Repeat("A", 59), hb.KnownPeers[:3]
	if raw, err = Seal(testKey(1), h, placed); err != nil {
		t.Fatal(err)
	}
	t.Logf("heartbeat with 3 deltas and a place: %d bytes", len(raw))

	// Names and addresses of the greatest length: at least one known peer fits.
	big.Node, h.Node, h.To, hb.Holder, hb.Load = n32, n32, n32, n32, &Load{4, 100, 100, 100, maxLoadDelay}
	big.Endpoint = netip.MustParseAddrPort("[2001:db8:ffff:ffff:ffff:ffff:ffff:ffff]:65535")
	hb.KnownPeers = []PeerHint{big, big, big, big}
	if _, err := Seal(testKey(1), h, hb); ReasonOf(err) != ReasonSize {
		t.Fatalf("sealed what is too long: %v", err)
	}
	hb.KnownPeers = hb.KnownPeers[:1]
	if raw, err = Seal(testKey(1), h, hb); err != nil {
		t.Fatal(err)
	}
	t.Logf("longest heartbeat with one delta: %d bytes", len(raw))
}

func TestFresh(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		now  time.Duration // since start
		sent int64         // seconds since start
		ok   bool
	}{
		{time.Minute, 60, true},
		{time.Minute, 55, true},
		{time.Minute + 900*time.Millisecond, 55, true},
		{time.Minute, 54, false},
		{time.Minute, 65, true},
		{time.Minute, 66, false},
		{time.Second, -1, false},
		{time.Second, 0, true},
		{time.Minute, 1 << 52, false},
	} {
		m := Message{Header: Header{Time: start.Unix() + c.sent}}
		err := m.Fresh(start.Add(c.now), start, 5*time.Second)
		if (err == nil) != c.ok || (err != nil && ReasonOf(err) != ReasonClock) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestFor(t *testing.T) {
	for to, ok := range map[cluster.NodeID]bool{"n2": true, Everyone: true, "n3": false} {
		err := Message{Header: Header{To: to}}.For("n2")
		if (err == nil) != ok || (err != nil && ReasonOf(err) != ReasonTo) {
			t.Errorf("to %s: %v", to, err)
		}
	}
}

func TestReasonsAreUnique(t *testing.T) {
	seen := map[Reason]bool{}
	for _, r := range Reasons() {
		if seen[r] {
			t.Errorf("%s twice", r)
		}
		seen[r] = true
	}
}

func BenchmarkAccept(b *testing.B) {
	raw, err := Seal(testKey(1), header(TypeHeartbeat), Heartbeat{Role: cluster.RoleStandby, KnownPeers: []PeerHint{hint("n2")}})
	if err != nil {
		b.Fatal(err)
	}
	p := pub(testKey(1))
	for b.Loop() {
		m, err := Parse(raw)
		if err != nil {
			b.Fatal(err)
		}
		if Verify(m, p) != nil {
			b.Fatal("refused")
		}
		if _, err := Decode(m); err != nil {
			b.Fatal(err)
		}
	}
}

// TestProbe: a heartbeat may be padded with spaces to the length that it
// names, and nothing else may be long.
func TestProbe(t *testing.T) {
	beat := Heartbeat{Role: cluster.RoleStandby, KnownPeers: []PeerHint{}, Probe: 1392}
	sealed := func(h Header, p any) []byte {
		b, err := Seal(testKey(1), h, p)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	read := func(data []byte) error {
		m, err := Parse(data)
		if err == nil {
			err = Verify(m, pub(testKey(1)))
		}
		if err == nil {
			_, err = Decode(m)
		}
		return err
	}
	if err := read(Pad(sealed(header(TypeHeartbeat), beat), 1392)); err != nil {
		t.Error(err)
	}
	small := beat
	small.Probe = 0
	for name, data := range map[string][]byte{
		"shorter than it says": Pad(sealed(header(TypeHeartbeat), beat), 1391),
		"not padded":           sealed(header(TypeHeartbeat), beat),
		"does not say":         Pad(sealed(header(TypeHeartbeat), small), 1392),
		"another type":         Pad(sealed(header(TypeLeaseRelease), nil), 1392),
		"something behind":     append(Pad(sealed(header(TypeHeartbeat), beat), 1391), '}'),
		"only padding":         Pad(nil, MaxProbe+1),
	} {
		if err := read(data); ReasonOf(err) != ReasonSize {
			t.Errorf("%s: %v", name, err)
		}
	}
}
