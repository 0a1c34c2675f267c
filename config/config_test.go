package config

import (
	"bytes"
	"crypto/ecdh"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/publisher/descriptor"
)

const examplePath = "../config.example.toml"

func host() (string, error) { return "N7.example.org", nil }

func load(t *testing.T, text string) (Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "skein.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(Options{Path: path, Hostname: host})
}

// TestExample keeps config.example.toml equal to the table of keys.
func TestExample(t *testing.T) {
	var want bytes.Buffer
	if err := WriteExample(&want); err != nil {
		t.Fatal(err)
	}
	if os.Getenv("SKEIN_UPDATE") == "1" {
		if err := os.WriteFile(examplePath, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(examplePath)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want.Bytes()) {
		t.Fatal("config.example.toml is stale: run SKEIN_UPDATE=1 go test ./config")
	}
	fromFile, err := Load(Options{Path: examplePath, Hostname: host})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := Load(Options{Hostname: host})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range fromFile.Show() {
		if e.Origin != FromFile && e.Key != "mesh.peers" && e.Key != "exec.programs" && e.Key != "load.targets" && e.Key != "onion.operators" {
			t.Errorf("%s is not in the example", e.Key)
		}
	}
	fromFile.origin, plain.origin = nil, nil
	if !reflect.DeepEqual(fromFile, plain) {
		t.Errorf("the example is not the default:\n%+v\n%+v", fromFile, plain)
	}
}

// TestReference keeps docs/config.md equal to the table of keys.
func TestReference(t *testing.T) {
	const path = "../docs/config.md"
	var want bytes.Buffer
	if err := WriteReference(&want); err != nil {
		t.Fatal(err)
	}
	if os.Getenv("SKEIN_UPDATE") == "1" {
		if err := os.WriteFile(path, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, want.Bytes()) {
		t.Fatalf("docs/config.md is stale (%v): run SKEIN_UPDATE=1 go test ./config", err)
	}
}

func TestDefaults(t *testing.T) {
	c, err := Load(Options{Hostname: host})
	if err != nil {
		t.Fatal(err)
	}
	if c.Node.Name != "n7" || c.Join.Listen != c.Mesh.Listen || c.Worker.Slots != runtime.NumCPU() {
		t.Errorf("derived values: %+v", c)
	}
	if c.Live.Tolerance != 5*time.Second || c.Lease.Profile != cluster.ProfileLAN || c.Status.Listen.IsValid() {
		t.Errorf("defaults: %+v", c)
	}
}

func TestAllKeys(t *testing.T) {
	c, err := load(t, `
state_dir = "/srv/skein"
node.name = "n1"
[mesh]
listen = "127.0.0.1:4000"
advertise = ["192.0.2.1:4000", "[2001:db8::1]:4000"]
[mesh.peers]
n2 = ["192.0.2.2:51820"]
[exec.programs]
render = ["/usr/bin/render", "--batch"]
[load]
enabled = true
owners = ["group:qa", "uid:1000"]
[load.targets]
"api.example.org:443" = 2000
"10.20.0.0/16:8000-8999" = 0
"b:80" = { max_rate = 5, ramp = 2, connections = 3, allow_break = true, proof = true }
[clock]
tolerance_seconds = 2
[worker]
accept = "user"
accept_names = ["user:bob", "uid:1000", "user:bob"]
[status]
listen = "127.0.0.1:9464"
ui = true
[tor]
enabled = true
[onion]
target = "127.0.0.1:8080, unix:/run/app.sock,127.0.0.1:8081"
check_path = "/up?deep=1"
check_status = "204"
`)
	if err != nil {
		t.Fatal(err)
	}
	want := map[cluster.NodeID][]netip.AddrPort{"n2": {netip.MustParseAddrPort("192.0.2.2:51820")}}
	if !reflect.DeepEqual(c.Live.Peers, want) || len(c.Live.Advertise) != 2 || c.Live.Tolerance != 2*time.Second {
		t.Errorf("%+v", c)
	}
	if got := c.Live.Acceptance().String(); got != "user uid:1000, user:bob" {
		t.Errorf("accepts %s", got)
	}
	if want := []string{"127.0.0.1:8080", "unix:/run/app.sock", "127.0.0.1:8081"}; !reflect.DeepEqual(c.Onion.Targets, want) {
		t.Errorf("targets %q", c.Onion.Targets)
	}
	shown := map[string]Entry{}
	for _, e := range c.Show() {
		shown[e.Key] = e
	}
	for key, value := range map[string]string{
		"exec.programs":           `{ render = ["/usr/bin/render", "--batch"] }`,
		"load.targets":            `{ "10.20.0.0/16:8000-8999" = 0, "api.example.org:443" = 2000, "b:80" = { max_rate = 5, ramp = 2, connections = 3, allow_break = true, proof = true } }`,
		"load.owners":             `["group:qa", "uid:1000"]`,
		"mesh.peers":              `{ n2 = ["192.0.2.2:51820"] }`,
		"mesh.advertise":          `["192.0.2.1:4000", "[2001:db8::1]:4000"]`,
		"clock.tolerance_seconds": "2",
		"node.name":               `"n1"`,
		"status.listen":           `"127.0.0.1:9464"`,
		"status.ui":               "true",
		"onion.check_path":        `"/up?deep=1"`,
		"onion.check_status":      `"204"`,
		"onion.target":            `"127.0.0.1:8080, unix:/run/app.sock, 127.0.0.1:8081"`,
	} {
		if e := shown[key]; e.Value != value || e.Origin != FromFile {
			t.Errorf("%s: %+v, want %s from file", key, e, value)
		}
	}
	if e := shown["mesh.mtu"]; e.Value != "0" || e.Origin != FromDefault {
		t.Errorf("mesh.mtu: %+v", e)
	}
}

func TestPrecedence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.toml")
	if err := os.WriteFile(path, []byte("[node]\npriority = 1\nzone = \"a\"\n[mesh]\nmtu = 1300\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Options{
		Path: path, Hostname: host,
		Env: []string{
			"SKEIN_NODE_PRIORITY=2", "SKEIN_NODE_ZONE=b", "SKEIN_PROVE=1", "SKEIN_NODE_WITNESS=true",
			"SKEIN_MESH_PEERS=n2=192.0.2.2:1,n2=192.0.2.3:1", "SKEIN_MESH_ADVERTISE=192.0.2.9:5", "SKEIN_CLOCK_TOLERANCE_SECONDS=0.5",
		},
		Flags: map[string]string{"node.priority": "3"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Live.Priority != 3 || c.Live.Zone != "b" || c.Live.MTU != 1300 || !c.Node.Witness ||
		len(c.Live.Peers["n2"]) != 2 || len(c.Live.Advertise) != 1 || c.Live.Tolerance != 500*time.Millisecond {
		t.Errorf("%+v", c)
	}
	for _, e := range c.Show() {
		want := map[string]Origin{"node.priority": FromFlag, "node.zone": FromEnv, "mesh.mtu": FromFile, "log.level": FromDefault}[e.Key]
		if want != "" && e.Origin != want {
			t.Errorf("%s: origin %s, want %s", e.Key, e.Origin, want)
		}
	}
}

// operatorKey is the public key of an operator.
func operatorKey(n byte) string {
	k, err := ecdh.X25519().NewPrivateKey(bytes.Repeat([]byte{n}, 32))
	if err != nil {
		panic(err)
	}
	return descriptor.FormatClientKey(k.PublicKey())
}

func manyOperators(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, "a%d = %q\n", i, operatorKey(byte(i+1)))
	}
	return out.String()
}

// TestOperators: a table of keys, in the file and in the environment.
func TestOperators(t *testing.T) {
	want := `{ alice = "` + operatorKey(1) + `", bob = "` + operatorKey(2) + `" }`
	shown := func(c Config) string {
		for _, e := range c.Show() {
			if e.Key == "onion.operators" {
				return e.Value
			}
		}
		return ""
	}
	c, err := load(t, "[tor]\nenabled = true\n[onion.operators]\nbob = \""+operatorKey(2)+"\"\nalice = \""+operatorKey(1)+"\"\n")
	if err != nil || shown(c) != want || len(c.Onion.Operators) != 2 {
		t.Errorf("%s, %v", shown(c), err)
	}
	env := []string{"SKEIN_TOR_ENABLED=true", "SKEIN_ONION_OPERATORS=alice=" + operatorKey(1) + ", bob=" + operatorKey(2)}
	if c, err = Load(Options{Hostname: host, Env: env}); err != nil || shown(c) != want {
		t.Errorf("%s, %v", shown(c), err)
	}
	for _, bad := range []string{"alice", "alice=" + operatorKey(1) + ",alice=" + operatorKey(2)} {
		if _, err := Load(Options{Hostname: host, Env: []string{"SKEIN_TOR_ENABLED=true", "SKEIN_ONION_OPERATORS=" + bad}}); err == nil || !strings.Contains(err.Error(), "want name=key") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// handedOver is five lines in whose section more keys may follow, someCentrifugo five more.
const (
	handedOver     = "[redis]\naddresses = \"x:1\"\n[gateway]\nstore = \"redis\"\npush = \"centrifugo\"\n"
	someCentrifugo = "[centrifugo]\napi_url = \"http://x:1/api\"\nws_url = \"ws://x:2/ws\"\napi_key_file = \"/x\"\nsecret_file = \"/y\"\n"
)

// TestCentrifugo is a configuration that is good.
func TestCentrifugo(t *testing.T) {
	c, err := load(t, handedOver+"listen = \"127.0.0.1:1\"\ninternal_listen = \"10.0.0.1:2\"\n"+someCentrifugo)
	if err != nil {
		t.Fatal(err)
	}
	want := Centrifugo{APIURL: "http://x:1/api", WSURL: "ws://x:2/ws", APIKeyFile: "/x", SecretFile: "/y"}
	if c.Centrifugo != want || c.Gateway.Push != PushCentrifugo || c.Gateway.InternalListen.String() != "10.0.0.1:2" {
		t.Errorf("%+v, %+v", c.Centrifugo, c.Gateway)
	}
}

func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		line       int
		key, msg   string
	}{
		{"unknown key", "[node]\nzone = \"a\"\npriorty = 3\n", 3, "node.priorty", "unknown key"},
		{"unknown section", "\n[nodes]\nx = 1\n", 2, "nodes", "unknown key"},
		{"unknown dotted", "node.x = 1\n", 1, "node.x", "unknown key"},
		{"string for number", "[mesh]\n\nmtu = \"big\"\n", 3, "mesh.mtu", "want an integer, got a string"},
		{"float for integer", "[mesh]\nmtu = 1400.5\n", 2, "mesh.mtu", "want an integer, got a number"},
		{"number for string", "state_dir = 7\n", 1, "state_dir", "want a string, got an integer"},
		{"value for section", "node = 7\n", 1, "node", "unknown key"},
		{"table for value", "[state_dir]\n", 1, "state_dir", "want a string, got a table"},
		{"out of range", "[mesh]\nmtu = 100\n", 2, "mesh.mtu", "100 is out of range, want 1280 to 8920"},
		{"negative", "[node]\npriority = -1\n", 2, "node.priority", "out of range"},
		{"no delay", "[overload]\ndelay_ms = 0\n", 2, "overload.delay_ms", "out of range"},
		{"overloaded by a word", "[overload]\nenabled = \"no\"\n", 2, "overload.enabled", "want true or false"},
		{"too far off", "[clock]\ntolerance_seconds = 3600\n", 2, "clock.tolerance_seconds", "out of range"},
		{"not a number", "[clock]\ntolerance_seconds = nan\n", 2, "clock.tolerance_seconds", "out of range"},
		{"groups in the open", "[jobs]\ngroups_url = \"http://x/g\"\n", 2, "jobs.groups_url", "https://host"},
		{"whose jobs", "[worker]\naccept = \"friends\"\n", 2, "worker.accept", "want one of: public, owner, user, group, none"},
		{"whose jobs without names", "[worker]\naccept = \"user\"\n", 2, "worker.accept", "needs names"},
		{"names without use", "[worker]\naccept_names = [\"uid:1\"]\n", 2, "worker.accept_names", "only"},
		{"a group that is none", "[worker]\naccept = \"group\"\naccept_names = [\"user:ann\"]\n", 3, "worker.accept_names", "is not a name"},
		{"257 names", "[worker]\naccept = \"user\"\naccept_names = [" + strings.Repeat("\"uid:1\", ", 257) + "]\n", 3, "worker.accept_names", "257 names, at most 256"},
		{"no source", "[join]\ndiscover = [\"dns:a\", \"http://a\"]\n", 2, "join.discover", "is no source, want dns:NAME[:PORT]"},
		{"9 sources", "[join]\ndiscover = [" + strings.Repeat("\"dns:a\", ", 9) + "]\n", 2, "join.discover", "at most 8 strings"},
		{"bad enum", "[lease]\nprofile = \"slow\"\n", 2, "lease.profile", "want one of: classic, lan, fast"},
		{"other backend", "[mesh]\nbackend = \"ppp\"\n", 2, "mesh.backend", "want one of: auto, kernel, tun, netstack"},
		{"name", "[node]\nname = \"N_1\"\n", 2, "node.name", "node id must be"},
		{"name of an outside worker", "[node]\nname = \"w-aaaaaaaaaaaaaaaaaaaaaaaaaa\"\n", 2, "node.name", "kept for outside workers"},
		{"name of all others", "[node]\nname = \"w-others\"\n", 2, "node.name", "kept for outside workers"},
		{"relative", "state_dir = \"x\"\n", 1, "state_dir", "not an absolute path"},
		{"long socket", "[status]\nsocket = \"/" + strings.Repeat("x", 120) + "\"\n", 2, "status.socket", "at most 100"},
		{"api address", "[api]\nlisten = [\"h1:7443\"]\n", 2, "api.listen", "h1:7443"},
		{"half a certificate", "[api]\ntls_cert = \"/c.pem\"\n", 2, "api.tls_cert", "belong together"},
		{"no origin", "[api]\norigins = \"https://x/y\"\n", 2, "api.origins", "is not an origin"},
		{"name with a port", "[api]\nnames = \"api.example.org:443\"\n", 2, "api.names", "without scheme and port"},
		{"gateway's address", "[gateway]\nlisten = \"gw:1\"\n", 2, "gateway.listen", "is not an address"},
		{"gateway without TLS", "[gateway]\nlisten = \"192.0.2.1:443\"\n", 2, "gateway.listen", "there is no certificate"},
		{"gateway on all addresses", "[gateway]\nlisten = \"0.0.0.0:443\"\nurl = \"http://gw.example.org\"\n", 2, "gateway.listen", "there is no certificate"},
		{"gateway without a name", "[gateway]\nlisten = \"0.0.0.0:443\"\ntls_cert = \"/c\"\ntls_key = \"/k\"\n", 2, "gateway.listen", "nobody can know"},
		{"half a gateway's certificate", "[gateway]\ntls_cert = \"/c\"\n", 2, "gateway.tls_cert", "belong together"},
		{"gateway's url with a path", "[gateway]\nurl = \"https://gw.example.org/x\"\n", 2, "gateway.url", "not the address of a gateway"},
		{"gateway's url in capitals", "[gateway]\nurl = \"https://GW.example.org\"\n", 2, "gateway.url", "in lower case"},
		{"gateway's url with a password", "[gateway]\nurl = \"https://a:b@gw.example.org\"\n", 2, "gateway.url", "not the address of a gateway"},
		{"gateway behind nothing", "[gateway]\nlisten = \"127.0.0.1:1\"\nurl = \"https://gw.example.org\"\n", 3, "gateway.url", "wants TLS"},
		{"gateway's certificate unused", "[gateway]\nlisten = \"127.0.0.1:1\"\nurl = \"http://gw.example.org\"\ntls_cert = \"/c\"\ntls_key = \"/k\"\n", 3, "gateway.url", "there is a certificate"},
		{"proxy by name", "[gateway]\ntrusted_proxies = \"lb1\"\n", 2, "gateway.trusted_proxies", "neither an address nor a network"},
		{"all the world a proxy", "[gateway]\ntrusted_proxies = \"0.0.0.0/0\"\n", 2, "gateway.trusted_proxies", "neither an address nor a network"},
		{"gateway's origin", "[gateway]\nallowed_origins = \"*\"\n", 2, "gateway.allowed_origins", "is not an origin"},
		{"a store of another kind", "[gateway]\nstore = \"disk\"\n", 2, "gateway.store", "disk"},
		{"no Redis", "[gateway]\nstore = \"redis\"\n[redis]\naddresses = \"\"\n", 4, "redis.addresses", "there is none"},
		{"a Redis for nothing", "[redis]\naddresses = \"x:1\"\n", 2, "redis.addresses", "nothing is to be kept"},
		{"several Redis", "[gateway]\nstore = \"redis\"\n[redis]\naddresses = \"x:1, y:1\"\n", 4, "redis.addresses", "more than one"},
		{"Redis nowhere", "[redis]\naddresses = \"x\"\n", 2, "redis.addresses", "no address"},
		{"Centrifugo without Redis", "[gateway]\npush = \"centrifugo\"\n", 2, "gateway.push", "gateway.store is memory"},
		{"no API", handedOver + "[centrifugo]\napi_url = \"\"\n", 7, "centrifugo.api_url", "there is none"},
		{"no secret", handedOver + "[centrifugo]\napi_url = \"http://x:1/api\"\nws_url = \"ws://x:2/ws\"\napi_key_file = \"/x\"\nsecret_file = \"\"\n", 10, "centrifugo.secret_file", "there is none"},
		{"no address for Centrifugo", handedOver + "internal_listen = \"\"\n" + someCentrifugo, 6, "gateway.internal_listen", "no address"},
		{"a public address for Centrifugo", handedOver + "internal_listen = \"9.9.9.9:1\"\n" + someCentrifugo, 6, "gateway.internal_listen", "without TLS"},
		{"one address for all", handedOver + "internal_listen = \"127.0.0.1:1\"\nlisten = \"127.0.0.1:1\"\n" + someCentrifugo, 6, "gateway.internal_listen", "gateway.listen"},
		{"a page that is encrypted alone", handedOver + "internal_listen = \"127.0.0.1:2\"\nlisten = \"127.0.0.1:1\"\nurl = \"https://x\"\ntrusted_proxies = \"127.0.0.1\"\n" + someCentrifugo, 12, "centrifugo.ws_url", "browsers"},
		{"a Centrifugo for nothing", someCentrifugo, 2, "centrifugo.api_url", "no connections"},
		{"nobody asks there", "[gateway]\ninternal_listen = \"127.0.0.1:1\"\n", 2, "gateway.internal_listen", "no Centrifugo"},
		{"an API without a path", "[centrifugo]\napi_url = \"http://x:1\"\n", 2, "centrifugo.api_url", "PATH"},
		{"a page for connections", "[centrifugo]\nws_url = \"http://x:1/ws\"\n", 2, "centrifugo.ws_url", "ws://HOST"},
		{"a policy in an address", "[centrifugo]\nws_url = \"wss://x;y/ws\"\n", 2, "centrifugo.ws_url", "no address"},
		{"a prefix with a brace", "[redis]\nprefix = \"{x}\"\n", 2, "redis.prefix", "letters"},
		{"jobs from no database", "[postgres]\ndsn_file = \"\"\nintake = true\n", 2, "postgres.dsn_file", "no database"},
		{"a database for nothing", "[postgres]\ndsn_file = \"/x\"\n", 2, "postgres.dsn_file", "nothing is to be done"},
		{"database's file", "[postgres]\ndsn_file = \"x\"\n", 2, "postgres.dsn_file", "not an absolute path"},
		{"no clients", "[gateway]\nmax_clients = 0\n", 2, "gateway.max_clients", "1"},
		{"bearer", "[api]\nbearer = \"some\"\n", 2, "api.bearer", "want one of: off, read, all"},
		{"open listener", "[status]\nlisten = \"0.0.0.0:80\"\n", 2, "status.listen", "neither a loopback nor a mesh address"},
		{"host name endpoint", "[mesh]\nadvertise = [\"a.example:1\"]\n", 2, "mesh.advertise", "is not an address"},
		{"endpoint type", "[mesh]\nadvertise = [1]\n", 2, "mesh.advertise", "a list with an integer"},
		{"many endpoints", "[mesh]\nadvertise = [\"1.1.1.1:1\",\"1.1.1.1:2\",\"1.1.1.1:3\",\"1.1.1.1:4\",\"1.1.1.1:5\"]\n", 2, "mesh.advertise", "at most 4"},
		{"load target", "[load.targets]\n\"x\" = 5\n", 1, "load.targets", "HOST:PORT"},
		{"load metadata", "[load.targets]\n\"169.254.169.254:80\" = 5\n", 1, "load.targets", "nothing is ever sent there"},
		{"load table", "[load.targets]\n\"x:80\" = { rate = 5 }\n", 1, "load.targets", "unknown key"},
		{"load proof", "[load.targets]\n\"x:80\" = { proof = 1 }\n", 1, "load.targets", "want true or false"},
		{"load ramp", "[load.targets]\n\"x:80\" = { ramp = -1 }\n", 1, "load.targets", "a ramp of -1"},
		{"load rate", "[load.targets]\n\"x:80\" = \"a\"\n", 1, "load.targets", "want an integer"},
		{"load owner", "load.owners = [\"ann\"]\n", 1, "load.owners", "neither a user"},
		{"program name", "[exec.programs]\nA = [\"/bin/a\"]\n", 1, "exec.programs", "a program's name"},
		{"program path", "[exec.programs]\na = [\"a\"]\n", 1, "exec.programs", "not an absolute path"},
		{"program list", "[exec.programs]\na = \"/bin/a\"\n", 1, "exec.programs", "want a list of strings"},
		{"program empty", "[exec.programs]\na = []\n", 1, "exec.programs", "no path"},
		{"peer name", "[mesh.peers]\nN = [\"1.1.1.1:1\"]\n", 1, "mesh.peers", "node id"},
		{"peer list", "[mesh.peers]\nn2 = \"1.1.1.1:1\"\n", 1, "mesh.peers", "want a list of strings"},
		{"peer empty", "[mesh.peers]\nn2 = []\n", 1, "mesh.peers", "no address"},
		{"bool", "[node]\nwitness = 1\n", 2, "node.witness", "want true or false, got an integer"},
		{"syntax", "[node]\nzone = \n", 2, "", ""},
		{"small mtu", "[mesh]\nmtu = 1279\n", 2, "mesh.mtu", "want 1280 to 8920"},
		{"interface", "[mesh]\ninterface = \"a/b\"\n", 2, "mesh.interface", "is not a device name"},
		{"long interface", "[mesh]\ninterface = \"abcdefghijklmnop\"\n", 2, "mesh.interface", "1 to 15"},
		{"names file", "[mesh]\nnames_file = \"hosts\"\n", 2, "mesh.names_file", "not an absolute path"},
		{"many targets", "[onion]\ntarget = \"a,b,c,d,e,f,g,h,i\"\n", 2, "onion.target", "9 targets, at most 8"},
		{"target twice", "[onion]\ntarget = \"a, b, a\"\n", 2, "onion.target", `target "a" is listed twice`},
		{"empty target", "[onion]\ntarget = \"a,b,\"\n", 2, "onion.target", "target 3 of 3 is empty"},
		{"long targets", "[onion]\ntarget = \"" + strings.Repeat("x", 300) + "," + strings.Repeat("y", 300) + "\"\n", 2, "onion.target", "600 bytes together"},
		{"path of checks", "[onion]\ncheck_path = \"up\"\n", 2, "onion.check_path", `"up" is no path`},
		{"status of checks", "[onion]\ncheck_status = \"500-200\"\n", 2, "onion.check_status", "like 200-399"},
		{"targets without tor", "[onion]\ntarget = \"a,b\"\n", 2, "onion.target", "needs tor"},
		{"page without address", "[status]\nui = true\n", 2, "status.ui", "no address for the page"},
		{"operator without tor", "[onion]\noperators = { alice = \"" + operatorKey(1) + "\" }\n", 2, "onion.operators", "needs tor"},
		{"key of an operator", "[onion.operators]\nalice = \"x25519:AAAA\"\n", 1, "onion.operators", "alice: bad client key: does not begin with descriptor:x25519:"},
		{"short key", "[onion.operators]\nalice = \"descriptor:x25519:AAAA\"\n", 1, "onion.operators", "alice: bad client key: not base32 of 32 bytes"},
		{"weak key", "[onion.operators]\nalice = \"descriptor:x25519:" + strings.Repeat("A", 52) + "\"\n", 1, "onion.operators", "small order"},
		{"secret key", "[onion.operators]\nalice = \"" + strings.Repeat("a", 56) + ":" + operatorKey(1) + "\"\n", 1, "onion.operators", "does not begin with"},
		{"list of keys", "[onion.operators]\nalice = [\"" + operatorKey(1) + "\"]\n", 1, "onion.operators", "alice: want a string, got a list"},
		{"operators as a list", "[onion]\noperators = [\"" + operatorKey(1) + "\"]\n", 2, "onion.operators", "want a table of name = key"},
		{"name of an operator", "[onion.operators]\nAlice = \"" + operatorKey(1) + "\"\n", 1, "onion.operators", "no name of an operator"},
		{"same key twice", "[onion.operators]\nalice = \"" + operatorKey(1) + "\"\nbob = \"" + operatorKey(1) + "\"\n", 1, "onion.operators", "alice and bob have the same key"},
		{"too many operators", "[onion.operators]\n" + manyOperators(33), 1, "onion.operators", "33 operators, at most 32"},
		{"beside a retired key", "[coord]\nlegaci = []\n", 2, "coord.legaci", "unknown key"},
		{"twice", "[node]\nzone = \"a\"\nzone = \"b\"\n", 3, "", "already"},
	} {
		_, err := load(t, tc.text)
		var list Errors
		if !errors.As(err, &list) || len(list) != 1 {
			t.Errorf("%s: %v, want one error", tc.name, err)
			continue
		}
		e := list[0]
		if e.Line != tc.line || (tc.key != "" && e.Key != tc.key) || !strings.Contains(e.Msg, tc.msg) || e.Hint == "" ||
			!strings.HasSuffix(e.File, "skein.toml") {
			t.Errorf("%s: %+v (%v), want line %d key %q %q", tc.name, *e, e, tc.line, tc.key, tc.msg)
		}
	}
}

// TestSyntaxInOneLine: what is no TOML is told in one line, with where it is and the text there.
func TestSyntaxInOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"state_dir = \"/x\"\n[node\nname = \"n1\"\n":       `skein.toml:2:6: expected '.' or ']' to end table name, but got '\n' instead, in "[node"`,
		"[node]\n  name = \"n1\npriority = 3\n":            `skein.toml:2:13: node.name: strings cannot contain newlines, in "name = \"n1"`,
		"[node]\r\nname = \"a\"\r\nname = \"b\"\r\n":       `skein.toml:3:1: node.name: Key 'node.name' has already been defined, in "name = \"b\""`,
		"\ufeff[node]\nname = n1":                          `skein.toml:2:8: node.name: expected value but found "n" instead, in "name = n1"`,
		"# \u00e4\n\u00e4 = 1\n":                           `skein.toml:2:1: `,
		"name = \"\x1b[2J\"\n":                             `in "name = \"\x1b[2J\""`,
		"name = \"" + strings.Repeat("y", 5000) + "\nx=\n": `in "name = \"y`,
		"[node]\nname =":                                   "skein.toml:2:6: node.name: unexpected EOF",
	} {
		_, err := load(t, text)
		var list Errors
		if !errors.As(err, &list) || len(list) != 1 {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := list[0].Error(); !strings.Contains(got, want) || strings.ContainsAny(got, "\n\r\x1b") || len(list[0].Msg) > 400 {
			t.Errorf("%.60q:\n%s\nlacks\n%s", text, got, want)
		}
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	_, err := load(t, "[status]\nx = 1\n[node]\npriority = -1\n")
	var list Errors
	if !errors.As(err, &list) || len(list) != 2 || list[0].Line != 2 || list[1].Line != 4 {
		t.Fatalf("%v", err)
	}
	var one *Error
	if !errors.As(err, &one) || !strings.Contains(err.Error(), "skein.toml:2: status.x: unknown key\n") {
		t.Errorf("%v", err)
	}
}

func TestHints(t *testing.T) {
	for text, want := range map[string]string{
		"[node]\npriorty = 3\n":  "did you mean node.priority?",
		"slots = 3\n":            "did you mean worker.slots?",
		"[x]\nqqqqqqqqqqq = 3\n": "config show",
	} {
		_, err := load(t, text)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(e.Hint, want) {
			t.Errorf("%q: %+v, want hint %q", text, e, want)
		}
	}
}

func TestEnvAndFlagFaults(t *testing.T) {
	_, err := Load(Options{Hostname: host, Env: []string{"SKEIN_MESH_MTU=x", "SKEIN_NODE_WITNESS=maybe"}, Flags: map[string]string{"no.key": "1", "mesh.mtu": "9"}})
	for _, want := range []string{
		`environment SKEIN_NODE_WITNESS: node.witness: want true or false, got "maybe"`,
		`environment SKEIN_MESH_MTU: mesh.mtu: want an integer, got "x"`,
		"flags: no.key: unknown key", "flags: mesh.mtu: 9 is out of range",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}

// TestUnknownEnvironment refuses misspelt variables of sections, and leaves
// alone what is not of the configuration.
func TestUnknownEnvironment(t *testing.T) {
	_, err := Load(Options{Hostname: host, Env: []string{"SKEIN_MESH_LISTENN=1", "SKEIN_JOBS=", "SKEIN_SEED=7", "SKEIN_PROVE=1", "SKEIN_LOGS=1", "MESH_X=1"}})
	var list Errors
	if !errors.As(err, &list) || len(list) != 2 {
		t.Fatalf("%v", err)
	}
	if list[0].Key != "SKEIN_JOBS" || list[1].Key != "SKEIN_MESH_LISTENN" || list[1].Hint != "did you mean SKEIN_MESH_LISTEN?" {
		t.Errorf("%+v %+v", *list[0], *list[1])
	}
}

// TestDiff lists what differs and whether a reload is enough.
func TestDiff(t *testing.T) {
	was, err := load(t, "[log]\nlevel = \"info\"\n[mesh.peers]\nn2 = [\"192.0.2.2:1\"]\n")
	if err != nil {
		t.Fatal(err)
	}
	is, err := load(t, "[mesh]\nmtu = 1400\nlisten = \"0.0.0.0:4000\"\n[coord]\nlegacy = [\"n4\"]\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []Change{
		{"mesh.listen", `"0.0.0.0:51820"`, `"0.0.0.0:4000"`, false},
		{"mesh.mtu", "0", "1400", true},
		{"mesh.peers", `{ n2 = ["192.0.2.2:1"] }`, "{}", true},
		{"join.listen", `"0.0.0.0:51820"`, `"0.0.0.0:4000"`, false},
	}
	if got := Diff(was, is); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if got := Diff(was, was); got != nil {
		t.Errorf("with itself: %+v", got)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "none.toml")
	if _, err := Load(Options{Path: missing, Hostname: host}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if _, err := Load(Options{Path: missing, Optional: true, Hostname: host}); err != nil {
		t.Errorf("optional: %v", err)
	}
	if _, err := Load(Options{Path: dir, Optional: true, Hostname: host}); err == nil {
		t.Error("a directory was read")
	}
	if _, err := load(t, strings.Repeat("#\n", maxFile)); err == nil {
		t.Error("a huge file was read")
	}
	bad := func() (string, error) { return "my_host", nil }
	if _, err := Load(Options{Hostname: bad}); err == nil || !strings.Contains(err.Error(), "node.name") {
		t.Errorf("unusable host name: %v", err)
	}
}

func TestSecret(t *testing.T) {
	s := NewSecret("hunter2")
	j, err := json.Marshal(map[string]any{"s": s})
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{string(j), fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %s %q %x", s, s, s, s, s, s), fmt.Sprint(struct{ S Secret }{s})} {
		if strings.Contains(out, "hunter2") || strings.Contains(out, fmt.Sprintf("%x", "hunter2")) {
			t.Errorf("shown: %s", out)
		}
	}
	if s.Reveal() != "hunter2" {
		t.Error("lost")
	}
}

func FuzzParse(f *testing.F) {
	var example bytes.Buffer
	if err := WriteExample(&example); err != nil {
		f.Fatal(err)
	}
	f.Add(example.Bytes())
	f.Add([]byte("[mesh.peers]\nn2 = [\"192.0.2.2:1\"]\n"))
	f.Add([]byte("[[node]]\na.b.\"c d\" = 1979-05-27\n"))
	f.Add([]byte("mesh = { mtu = 1300, peers = { n1 = [] } }\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parse(Options{Path: "f", Hostname: host}, text)
		if err != nil {
			var list Errors
			if !errors.As(err, &list) || len(list) == 0 || err.Error() == "" {
				t.Fatalf("not a list of faults: %v", err)
			}
			return
		}
		for _, e := range c.Show() {
			if e.Value == "" {
				t.Fatalf("%s has no text", e.Key)
			}
		}
	})
}
