package config

import (
	"crypto/ecdh"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/discover/source"
	"github.com/skein-project/skein/load/guard"
)

// Defaults that other places name too.
const (
	DefaultPath     = "/etc/skein/skein.toml"
	DefaultStateDir = "/var/lib/skein"
	DefaultSocket   = "/run/skein/skein.sock"

	DefaultInterface = "skein0"
)

// Backends of the mesh.
const (
	BackendAuto     = "auto"
	BackendKernel   = "kernel"
	BackendTUN      = "tun"
	BackendNetstack = "netstack"
)

// maxSocketPath is what fits in a unix socket's address.
const maxSocketPath = 100

// Default returns the configuration without file, environment or flags.
func Default() Config {
	return Config{
		Fixed: Fixed{
			StateDir: DefaultStateDir,
			Mesh:     Mesh{Backend: BackendAuto, Interface: DefaultInterface, Listen: netip.MustParseAddrPort("0.0.0.0:51820")},
			Lease:    Lease{Profile: cluster.ProfileLAN, Mode: cluster.ModeAuto},
			Log:      Log{Format: "auto"},
			EventLog: EventLog{SegmentBytes: 64 << 20, LowWater: 256 << 20, Reserve: 64 << 20, SnapshotEvents: 200_000, RetainBytes: 8 << 30},
			Worker:   Worker{MemoryBytes: 4 << 30, Queue: 64},
			Exec:     Exec{Programs: map[string][]string{}, ScratchBytes: 1 << 30, Processes: 256, Grace: 500 * time.Millisecond},
			Status:   Status{Socket: DefaultSocket, Group: "skein-admin"},
			Tor:      Tor{Torrc: []string{}},
			Onion: Onion{
				Mode: "http", Port: 80, SingleHost: true, CheckPath: "/", CheckStatus: Statuses{100, 499},
				Operators: map[string]*ecdh.PublicKey{}, Connections: 512, PerCircuit: 32, BodyBytes: 64 << 20, BodyRate: 500, Answer: time.Minute, Idle: 5 * time.Minute,
			},
			API:     API{Listen: []netip.AddrPort{}, Bearer: "read", Origins: []string{}, Names: []string{}},
			Gateway: Gateway{Proxies: []netip.Prefix{}, Origins: []string{}, MaxClients: 20_000, Store: StoreMemory, Push: PushEmbedded},
			Redis:   Redis{Addresses: []string{}, Prefix: "sk", ResultBytes: 1 << 30},
			Jobs:    Jobs{ArtefactBytes: 4 << 30, LogBytes: 256 << 20, LogDays: 7, OutputBytes: 8 << 30, OutputCopies: 2, WorkerResults: 100, OwnerJobs: 20, OwnerChunks: 100_000, Open: 10_000, OwnerOpen: 5000, LogStarts: "auto"},
		},
		Live: Live{
			Priority: 100, Eligible: true, Tolerance: 5 * time.Second, LogLevel: "info", OnionWeight: 100, OverloadEnabled: true, OverloadDelayMS: 50,
			ProbeMTU: true, LoadTests: LoadTests{Owners: []string{}, Targets: map[string]guard.Limits{}}, AcceptNames: []string{}, Advertise: []netip.AddrPort{}, Peers: map[cluster.NodeID][]netip.AddrPort{},
		},
		origin: map[string]Origin{},
	}
}

// KeyNodeName is the one key whose change never takes effect on a member.
const KeyNodeName = "node.name"

// keys returns the table of keys, in the order of the example file.
func keys() []key {
	return slices.Concat(hostKeys(), meshKeys(), serviceKeys(), acceptKeys(), overloadKeys(), loadKeys(), statusKeys(), execKeys(), torKeys(), onionKeys(), apiKeys(), gatewayKeys(), redisKeys(), centrifugoKeys(), postgresKeys())
}

func hostKeys() []key {
	return []key{
		stringKey("state_dir", func(c *Fixed) *string { return &c.StateDir }, absolute,
			"Identity, event log, votes and artefacts. One daemon per directory."),
		valueKey(KeyNodeName, func(c *Fixed) *cluster.NodeID { return &c.Node.Name }, optional(cluster.ParseHostPattern), word,
			"Name of this host in the cluster, permanent: a-z, 0-9 and '-', at most 32.",
			"Empty: the first label of the host name. \"spot-*\" gives each host that joins a name of",
			"its own."),
		stringKey("node.zone", func(c *Live) *string { return &c.Zone }, label,
			"Datacenter label of this host."),
		intKey("node.priority", func(c *Live) *uint32 { return &c.Priority }, 0, math.MaxUint32,
			"Who holds the lease if several hosts could, and who publishes if none is visible:",
			"the lower number wins."),
		boolKey("node.witness", func(c *Fixed) *bool { return &c.Node.Witness },
			"A witness votes. It never holds the lease and never publishes."),
		boolKey("node.ephemeral", func(c *Fixed) *bool { return &c.Node.Ephemeral },
			"Leave the cluster for good when the daemon is told to stop, once its chunks have ended or",
			"15 s are over. So does a host that joined by `skein token create --ephemeral`."),
	}
}

func meshKeys() []key {
	return []key{
		valueKey("mesh.backend", func(c *Fixed) *string { return &c.Mesh.Backend },
			oneOf(BackendAuto, BackendKernel, BackendTUN, BackendNetstack), word,
			"How the WireGuard mesh is made. auto: by the kernel, or through a TUN device",
			"if the kernel has no WireGuard; both need CAP_NET_ADMIN. netstack runs",
			"inside the daemon without privileges; other programs cannot use that mesh."),
		stringKey("mesh.interface", func(c *Fixed) *string { return &c.Mesh.Interface }, interfaceName,
			"Name of the kernel or TUN device."),
		valueKey("mesh.listen", func(c *Fixed) *netip.AddrPort { return &c.Mesh.Listen }, parseListen, netip.AddrPort.String,
			"UDP address of the mesh."),
		spec[Live]{
			name: "mesh.advertise", kind: "a list of strings",
			doc: []string{
				"Where other hosts reach mesh.listen, \"ip:port\" each, at most 4.",
				"Empty: the addresses of this machine's interfaces.",
			},
			parse: func(s string) (any, error) { return splitList(s), nil },
			set: func(c *Live, v any) (err error) {
				list, err := parseEndpoints(v, maxEndpoints)
				if err == nil {
					c.Advertise = list
				}
				return err
			},
			show: func(c *Live) string { return showEndpoints(c.Advertise) },
		}.key(),
		mtuKey("mesh.mtu", func(c *Live) *int { return &c.MTU },
			"Largest packet inside the mesh, in bytes, 1280 to 8920. 0: as large as the paths to",
			"the peers allow."),
		boolKey("mesh.probe_mtu", func(c *Live) *bool { return &c.ProbeMTU },
			"Detect paths that drop full-size packets, and make packets smaller then."),
		stringKey("mesh.names_file", func(c *Live) *string { return &c.NamesFile }, optionalPath,
			"Keep the members' names and addresses in this file, in the form of",
			"/etc/hosts, like \"/run/skein/hosts\". Empty: no file."),
		spec[Live]{
			name: "mesh.peers", kind: "a table of node = [addresses]",
			doc: []string{
				"Static endpoints, for hosts that cannot be found otherwise:",
				"n1 = [\"192.0.2.1:51820\"]",
			},
			parse: parsePeers, set: setPeers, show: showPeers,
		}.key(),
		valueKey("join.listen", func(c *Fixed) *netip.AddrPort { return &c.Join.Listen }, optional(parseListen), showAddr,
			"TCP address where invited hosts join. Empty: the same as mesh.listen."),
		spec[Fixed]{
			name: "join.discover", kind: "a list of strings",
			doc: []string{
				"Where endpoints of hosts are looked for, at most 8: \"dns:NAME[:PORT]\" its addresses,",
				"\"srv:_skein._udp.NAME\" the targets of a service, \"file:PATH\" lines ADDRESS[:PORT]. They",
				"are tried by a host that joins, beside those of its token, and for a peer that answers",
				"nowhere else. Whoever answers there must have the key.",
			},
			parse: func(s string) (any, error) { return splitList(s), nil },
			set:   func(c *Fixed, v any) (err error) { c.Join.Discover, err = source.List(v); return err },
			show:  func(c *Fixed) string { return source.Show(c.Join.Discover) },
		}.key(),
	}
}

func serviceKeys() []key {
	return []key{
		valueKey("lease.profile", func(c *Fixed) *cluster.Profile { return &c.Lease.Profile },
			oneOf(cluster.ProfileClassic, cluster.ProfileLAN, cluster.ProfileFast), word,
			"Timing, the same on all hosts: classic (30 s lease), lan (5 s), fast (1.8 s)."),
		valueKey("lease.mode", func(c *Fixed) *cluster.Mode { return &c.Lease.Mode },
			oneOf(cluster.ModeAuto, cluster.ModeAvailable, cluster.ModeQuorum), word,
			"How the voters decide, the same on all hosts. auto: two carry on alone, three or more",
			"need a majority. quorum: always a majority; of two voters that is both, so let a third",
			"host be a witness. available: each side of a partition carries on and schedules by",
			"itself, and what was done twice counts once when they meet."),
		intKey("lease.max_voters", func(c *Fixed) *int { return &c.Lease.MaxVoters }, 0, cluster.MaxVoters,
			"How many voters the holder chooses if there are more hosts than that. 0: up to 7 hosts,",
			"all vote; of more, 5."),
		boolKey("lease.eligible", func(c *Live) *bool { return &c.Eligible },
			"Whether this host may hold the lease, and publish where none is visible."),
		floatKey("clock.tolerance_seconds",
			func(c *Live) float64 { return c.Tolerance.Seconds() },
			func(c *Live, f float64) { c.Tolerance = time.Duration(f * float64(time.Second)) }, 0.1, 60,
			"Messages whose time is further off than this are refused."),
		valueKey("log.level", func(c *Live) *string { return &c.LogLevel },
			oneOf("trace", "debug", "info", "warn", "error"), word,
			"trace, debug, info, warn or error."),
		valueKey("log.format", func(c *Fixed) *string { return &c.Log.Format }, oneOf("auto", "json", "console"), word,
			"json, console, or auto: console on a terminal, json otherwise."),
		intKey("eventlog.segment_bytes", func(c *Fixed) *int64 { return &c.EventLog.SegmentBytes }, 1<<16, 1<<30,
			"A segment of the event log is closed at this size."),
		intKey("eventlog.low_water_bytes", func(c *Fixed) *int64 { return &c.EventLog.LowWater }, 0, 1<<50,
			"With less than this left on the disk the host is degraded. 0: never."),
		intKey("eventlog.reserve_bytes", func(c *Fixed) *int64 { return &c.EventLog.Reserve }, 0, 1<<40,
			"The last bytes of the disk are for ending work and handing the lease over: new jobs are",
			"refused and no more work is assigned. A quarter of it is a file. 0: none."),
		intKey("eventlog.max_bytes", func(c *Fixed) *int64 { return &c.EventLog.MaxBytes }, 0, 1<<50,
			"A log of this size counts as a full disk. 0: no limit."),
		intKey("eventlog.source_bytes", func(c *Fixed) *int64 { return &c.EventLog.SourceBytes }, 0, 1<<50,
			"What this host keeps of the chains of one other host, the same on all hosts. 0:",
			"three quarters of what there is room for."),
		intKey("eventlog.snapshot_events", func(c *Fixed) *int64 { return &c.EventLog.SnapshotEvents }, 0, 1<<40,
			"After so many events the holder takes a snapshot, which a majority of the voters signs:",
			"hosts open their logs from it, and may drop what it holds. 0: only `skein log snapshot` takes one."),
		intKey("eventlog.retain_bytes", func(c *Fixed) *int64 { return &c.EventLog.RetainBytes }, 0, 1<<50,
			"Up to this size the log keeps everything; beyond it the oldest segments are dropped that lie",
			"below the last snapshot but one. They can then no longer be read, exported or replayed on this",
			"host; their effect on the state stays. 0: nothing is ever dropped."),
		intKey("eventlog.retain_days", func(c *Fixed) *int { return &c.EventLog.RetainDays }, 0, 36500,
			"No event younger than this is dropped, however large the log."),
		stringKey("eventlog.archive_dir", func(c *Fixed) *string { return &c.EventLog.ArchiveDir }, optionalPath,
			"Segments are copied here before they are dropped. Empty: they are gone."),
		intKey("worker.slots", func(c *Fixed) *int { return &c.Worker.Slots }, 0, 4096,
			"Chunks that run at the same time. 0: one per processor."),
		intKey("worker.memory_bytes", func(c *Fixed) *uint64 { return &c.Worker.MemoryBytes }, 1<<20, 1<<44,
			"The most memory that a chunk may ask for here. Jobs that ask for more run elsewhere."),
		intKey("worker.queue", func(c *Fixed) *int { return &c.Worker.Queue }, 1, 65536,
			"Chunks that may wait on this host for a slot."),
	}
}

func statusKeys() []key {
	return []key{
		stringKey("status.socket", func(c *Fixed) *string { return &c.Status.Socket }, socketPath,
			"The socket of the skein commands."),
		valueKey("status.listen", func(c *Fixed) *netip.AddrPort { return &c.Status.Listen }, optional(parseListen), showAddr,
			"Read-only HTTP with /metrics, on a loopback or mesh address. Empty: none."),
		boolKey("status.ui", func(c *Fixed) *bool { return &c.Status.UI },
			"Serve the page of the cluster there too, for whoever reaches it: it shows, and changes",
			"nothing. See docs/web.md."),
		stringKey("status.group", func(c *Fixed) *string { return &c.Status.Group }, groupName,
			"Members of this group may change things; whoever can open the socket may",
			"read. Empty: only root and the daemon's own user."),
		intKey("jobs.artefact_bytes", func(c *Fixed) *int64 { return &c.Jobs.ArtefactBytes }, 1<<20, 1<<44,
			"Disk space for uploaded modules and configs."),
		intKey("jobs.log_bytes", func(c *Fixed) *int64 { return &c.Jobs.LogBytes }, 1<<20, 1<<40,
			"Disk space for what attempts wrote to standard error on this host; the oldest goes",
			"when it is full."),
		intKey("jobs.log_days", func(c *Fixed) *int { return &c.Jobs.LogDays }, 1, 3650,
			"How long that is kept."),
		intKey("jobs.output_bytes", func(c *Fixed) *int64 { return &c.Jobs.OutputBytes }, 1<<20, 1<<44,
			"Disk space for what jobs left: the files that their chunks wrote, and what their first",
			"failures said."),
		intKey("jobs.output_copies", func(c *Fixed) *int { return &c.Jobs.OutputCopies }, 1, 16,
			"On how many hosts each of these is kept. It should be the same on all hosts."),
		intKey("jobs.worker_results", func(c *Fixed) *int { return &c.Jobs.WorkerResults }, 0, 1<<20,
			"Results per second for which one worker is given work, and ten times as",
			"many at once. Work in chunks of 10 to 60 s stays far below. 0: no limit.",
			"This and the next keys apply on the host that holds the lease."),
		intKey("jobs.owner_jobs", func(c *Fixed) *int { return &c.Jobs.OwnerJobs }, 0, 1<<20,
			"Jobs per second that one owner may submit, and fifty times as many at once.",
			"0: no limit."),
		intKey("jobs.owner_chunks", func(c *Fixed) *int { return &c.Jobs.OwnerChunks }, 0, 1<<30,
			"Chunks per second that one owner may submit, and twenty times as many at",
			"once. 0: no limit."),
		intKey("jobs.open", func(c *Fixed) *int { return &c.Jobs.Open }, 0, 1<<20,
			"Open jobs at a time; more are refused, with a time to try again. 0: no limit."),
		intKey("jobs.owner_open", func(c *Fixed) *int { return &c.Jobs.OwnerOpen }, 0, 1<<20,
			"Open jobs of one owner at a time. 0: no limit."),
		valueKey("jobs.log_starts", func(c *Fixed) *string { return &c.Jobs.LogStarts }, oneOf("auto", "always", "never"), word,
			"Which starts of chunks the holder logs (chunks_started): of those that run for a second",
			"or more (auto), of all that it hears of, or none."),
		stringKey("jobs.groups_file", func(c *Live) *string { return &c.GroupsFile }, optionalPath,
			"Groups that permissions of jobs may name: a TOML file of lines such as",
			"render = [\"uid:1000\", \"node:n4\"], up to 10 000 members each. It is read at the",
			"start and with the configuration. Groups that it does not name stay; [] ends a",
			"group. A group that would lose more than half of its members waits for",
			"`skein group set --force`. Keep it on one host: the last one read decides. Empty: none."),
		stringKey("jobs.groups_url", func(c *Live) *string { return &c.GroupsURL }, optionalHTTPS,
			"The same from an https address, asked every minute. Empty: none."),
		stringKey("jobs.groups_credential", func(c *Live) *string { return &c.GroupsCredential }, optionalPath,
			"A file with the token that jobs.groups_url is asked with (Authorization: Bearer).",
			"Empty: none."),
	}
}

// optional lets the empty text stand for the zero value.
func optional[T any](parse func(string) (T, error)) func(string) (T, error) {
	return func(s string) (T, error) {
		if s == "" {
			var zero T
			return zero, nil
		}
		return parse(s)
	}
}

func parseListen(s string) (netip.AddrPort, error) {
	a, err := netip.ParseAddrPort(s)
	if err != nil || a.Port() == 0 || a.Addr().IsMulticast() {
		return netip.AddrPort{}, fmt.Errorf("%q is not an address, want \"ip:port\" like \"0.0.0.0:51820\"", s)
	}
	return a, nil
}

func showAddr(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

func absolute(s string) error {
	switch {
	case !filepath.IsAbs(s):
		return fmt.Errorf("%q is not an absolute path", s)
	case strings.ContainsRune(s, 0):
		return errors.New("a path cannot contain a zero byte")
	}
	return nil
}

func optionalHTTPS(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return fmt.Errorf("%.80q is no address like \"https://host/groups.toml\"", s)
	}
	return nil
}

func optionalPath(s string) error {
	if s == "" {
		return nil
	}
	return absolute(s)
}

// maxInterface is what the kernel takes as a device's name.
const maxInterface = 15

func interfaceName(s string) error {
	if s == "" || len(s) > maxInterface || s == "." || s == ".." ||
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" {
		return fmt.Errorf("%q is not a device name, want 1 to %d letters, digits, '-', '_' or '.'", s, maxInterface)
	}
	return nil
}

func socketPath(s string) error {
	if len(s) > maxSocketPath {
		return fmt.Errorf("the path has %d bytes, at most %d fit in a socket's address", len(s), maxSocketPath)
	}
	return absolute(s)
}

func label(s string) error {
	if len(s) > 32 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" {
		return fmt.Errorf("%q is not a label, want at most 32 letters, digits, '-', '_' or '.'", s)
	}
	return nil
}

func groupName(s string) error {
	if len(s) > 32 || strings.ContainsAny(s, " :/,\t\n\x00") {
		return fmt.Errorf("%q is not a group name", s)
	}
	return nil
}

// Bounds of mesh.mtu: what IPv6 asks for, and what fits a jumbo frame.
const (
	minMTU = 1280
	maxMTU = 8920
)

// mtuKey is an integer key that also takes 0.
func mtuKey(name string, at func(*Live) *int, doc ...string) key {
	k := intKey(name, at, minMTU, maxMTU, doc...)
	inRange := k.set
	k.set = func(c *Config, v any) error {
		if n, ok := v.(int64); ok && n == 0 {
			*at(&c.Live) = 0
			return nil
		}
		return inRange(c, v)
	}
	return k
}

// settle fills what depends on the machine or on other keys, and checks what
// one key alone cannot.
func (c *Config) settle(hostname func() (string, error)) *Error {
	if c.Node.Name == "" {
		host, err := hostname()
		if err != nil {
			return &Error{Key: "node.name", Msg: "the host name is unknown: " + err.Error(), Hint: "set node.name"}
		}
		first, _, _ := strings.Cut(strings.ToLower(host), ".")
		name, err := cluster.ParseHostName(first)
		if err != nil {
			return &Error{Key: "node.name", Msg: "the host name cannot be used: " + err.Error(), Hint: "set node.name"}
		}
		c.Node.Name = name
	}
	if !c.Join.Listen.IsValid() {
		c.Join.Listen = c.Mesh.Listen
	}
	if c.Worker.Slots == 0 {
		c.Worker.Slots = runtime.NumCPU()
	}
	for _, settle := range []func() *Error{c.settleAccept, c.settleTor} {
		if e := settle(); e != nil {
			return e
		}
	}
	if e := c.settleOnion(); e != nil {
		return e
	}
	for _, check := range []func() *Error{c.checkAPI, c.checkGateway, c.checkRedis, c.checkCentrifugo, c.checkPostgres} {
		if e := check(); e != nil {
			return e
		}
	}
	if c.Exec.ScratchDir == "" {
		c.Exec.ScratchDir = filepath.Join(c.StateDir, "scratch")
	}
	if c.Status.UI && !c.Status.Listen.IsValid() {
		return &Error{Key: "status.ui", Msg: "there is no address for the page", Hint: "set status.listen, as to 127.0.0.1:7441; or use `skein ui`, which needs neither"}
	}
	if a := c.Status.Listen; a.IsValid() && !a.Addr().IsLoopback() && !meshAddr(a.Addr()) {
		return &Error{
			Key: "status.listen", Msg: a.String() + " is neither a loopback nor a mesh address",
			Hint: "the API has no passwords: use 127.0.0.1, or this host's address in the mesh",
		}
	}
	return nil
}

// meshAddr reports a private address that may be one of the mesh; the daemon
// knows the exact one.
func meshAddr(a netip.Addr) bool {
	shared := netip.MustParsePrefix("100.64.0.0/10")
	return a.IsPrivate() || shared.Contains(a)
}
