package archtest

// Module is the prefix of the packages that the rules are about.
const Module = "github.com/skein-project/skein"

// MaxLines bounds a Go file, tests included.
const MaxLines = 800

// vocabulary lists the shared nouns, which everybody may import; each of them
// may import those before it.
var vocabulary = []string{"cluster", "cluster/jsonbytes", "cluster/job", "cluster/flow", "cluster/event"}

// pure lists the packages that decide: values in, values out. Any adapter may
// import them; they import only the vocabulary and what pureDeps says.
var pure = []string{
	"access",
	"gateway/auth",
	"gateway/channel",
	"gateway/desk",
	"gateway/guard",
	"lease",
	"coord/clockwatch",
	"coord/endpoint",
	"coord/member",
	"coord/path",
	"coord/swim",
	"coord/wire",
	"discover/source",
	"eventlog/record",
	"eventlog/snapshot",
	"eventlog/stamps",
	"eventlog/state",
	"eventlog/state/canon",
	"eventlog/state/flows",
	"eventlog/state/history",
	"eventlog/state/jobs",
	"eventlog/state/loads",
	"eventlog/state/registry",
	"eventlog/state/schedules",
	"load",
	"load/bundle",
	"load/convert",
	"load/gang",
	"load/guard",
	"load/grpc",
	"load/lines",
	"load/pace",
	"load/report",
	"load/rule",
	"load/stat",
	"mesh/reach",
	"mesh/topo",
	"onion/policy",
	"overload",
	"present",
	"present/pseudonym",
	"present/series",
	"present/trace",
	"publisher/descriptor",
	"realtime/delta",
	"realtime/links",
	"scheduler/after",
	"scheduler/flow",
	"scheduler/flow/condition",
	"scheduler/flow/source",
	"scheduler/flow/template",
	"scheduler/left",
	"scheduler/lives",
	"scheduler/plan",
	"scheduler/plan/eligible",
	"scheduler/plan/ends",
	"scheduler/plan/fair",
	"scheduler/plan/limits",
	"scheduler/plan/order",
	"scheduler/plan/pace",
	"scheduler/plan/reserve",
	"scheduler/plan/results",
	"scheduler/plan/step",
	"scheduler/plan/trust",
	"scheduler/plan/vital",
	"scheduler/schedule",
	"scheduler/seats",
	"scheduler/stops",
	"scheduler/stream",
	"scheduler/waits",
	"scheduler/weight",
	"scheduler/zone",
}

// pureDeps lists what pure packages import beyond the vocabulary: other pure
// packages, and for those that show what the API says its types.
var pureDeps = map[string][]string{
	"coord/endpoint":           {"coord/wire"},
	"coord/swim":               {"coord/wire"},
	"eventlog/state":           {"eventlog/state/canon", "eventlog/state/flows", "eventlog/state/jobs", "eventlog/state/loads", "eventlog/state/registry", "eventlog/state/schedules"},
	"eventlog/state/flows":     {"eventlog/state/canon"},
	"eventlog/state/jobs":      {"eventlog/state/canon"},
	"eventlog/state/loads":     {"eventlog/state/canon"},
	"eventlog/state/registry":  {"eventlog/state/canon"},
	"eventlog/state/schedules": {"eventlog/state/canon"},
	"gateway/auth":             {"access"},
	"gateway/channel":          {"api", "internal/bucket"},
	"gateway/desk":             {"scheduler/stream"},
	"gateway/guard":            {"access", "internal/bucket"},
	"load":                     {"load/lines", "internal/spelling"},
	"load/bundle":              {"load", "load/rule"},
	"load/convert":             {"load"},
	"load/gang":                {"load", "load/stat"},
	"load/pace":                {"load"},
	"load/report":              {"load", "load/rule", "load/stat", "present"},
	"load/rule":                {"load", "load/stat"},
	"load/stat":                {"load"},
	"mesh/reach":               {"mesh/topo", "internal/bucket"},
	"scheduler/after":          {"scheduler/plan/step"},
	"scheduler/flow":           {"eventlog/state/flows", "scheduler/flow/condition", "scheduler/flow/source", "scheduler/flow/template"},
	"scheduler/left":           {"scheduler/stream"},
	"scheduler/lives":          {"scheduler/stream"},
	"scheduler/plan":           {"scheduler/plan/eligible", "scheduler/plan/ends", "scheduler/plan/fair", "scheduler/plan/limits", "scheduler/plan/order", "scheduler/plan/pace", "scheduler/plan/reserve", "scheduler/plan/results", "scheduler/plan/step", "scheduler/plan/trust", "scheduler/plan/vital", "internal/bucket"},
	"scheduler/plan/eligible":  {"scheduler/plan/order"},
	"scheduler/plan/limits":    {"scheduler/plan/fair", "scheduler/plan/trust", "internal/bucket"},
	"scheduler/plan/step":      {"scheduler/plan/reserve"},
	"scheduler/plan/trust":     {"scheduler/plan/results"},
	"scheduler/plan/fair":      {"scheduler/plan/order", "internal/bucket"},
	"scheduler/seats":          {"scheduler/plan/step", "scheduler/plan/trust", "scheduler/stream"},
	"scheduler/stream":         {"overload"},
	"scheduler/stops":          {"scheduler/plan/step", "scheduler/stream"},
	"scheduler/waits":          {"scheduler/plan", "scheduler/plan/eligible"},
	"onion/policy":             {"lease", "publisher/descriptor"},
	"present":                  {"api"},
	"present/series":           {"api"},
	"present/trace":            {"api"},
}

// adapters lists the packages that do I/O. They import the vocabulary, any pure
// package, the leaf helpers and what stands here; never each other.
var adapters = map[string][]string{
	"config":              nil,
	"coord":               {"coord/clocks", "coord/distance", "coord/election", "coord/gossip", "coord/health", "coord/notify", "coord/ownlog", "coord/pathmtu", "coord/share", "coord/transport"},
	"discover":            nil,
	"coord/clocks":        nil,
	"coord/distance":      nil,
	"coord/election":      nil,
	"coord/gossip":        {"coord/transport"},
	"coord/health":        nil,
	"coord/notify":        nil,
	"coord/ownlog":        nil,
	"coord/pathmtu":       nil,
	"coord/share":         {"coord/transport"},
	"coord/store":         {"coord/election"},
	"coord/transport":     nil,
	"coord/join":          {"coord/join/door", "coord/join/refusals", "coord/join/starts", "coord/join/token"},
	"coord/join/refusals": nil,
	"coord/join/starts":   nil,
	"coord/join/door":     {"coord/join/token"},
	"coord/join/token":    nil,
	"daemon/stages":       nil,
	"docs":                nil, // pages, and the topics in them
	"docs/topics":         {"docs", "config"},
	"eventlog":            {"eventlog/audit", "eventlog/disk", "eventlog/index", "eventlog/replicate", "eventlog/segment", "eventlog/snapshots", "eventlog/store", "eventlog/wire"},
	"eventlog/audit":      {"eventlog/disk", "eventlog/segment", "eventlog/snapshots", "eventlog/store", "eventlog/wire"},
	"eventlog/disk":       nil,
	"eventlog/index":      {"eventlog/disk", "eventlog/segment", "eventlog/store"},
	// What travels between logs: bytes in, values out, as the pure packages.
	"eventlog/wire":      nil,
	"eventlog/segment":   {"eventlog/disk"},
	"eventlog/store":     {"eventlog/disk", "eventlog/segment", "eventlog/wire"},
	"eventlog/replicate": {"eventlog/store", "eventlog/wire"},
	"eventlog/snapshots": {"eventlog/disk", "eventlog/segment", "eventlog/store", "eventlog/wire"},
	"forward":            {"api"},
	"load/clock":         nil,
	"load/cookies":       nil,
	"load/engine":        {"load/clock", "load/cookies", "load/h1", "load/h2", "load/h3", "load/hold", "load/hook", "load/reach", "load/tally", "load/ws"},
	"load/h1":            nil,
	"load/h2":            {"load/h1"},
	"load/h3":            {"load/h1"},
	"load/hold":          nil,
	"load/hook":          nil,
	"load/live":          {"api"},
	"load/push":          {"internal/wait"},
	"load/reach":         {"load/h1"},
	"load/tally":         nil,
	"load/ws":            nil,
	"load/room":          nil,
	"load/slice":         {"load/engine", "load/room"},
	"gateway":            {"api", "gateway/centrifugo", "gateway/guard/here", "gateway/push", "gateway/registry", "gateway/relay", "gateway/rpc", "realtime", "status/door"},
	"gateway/centrifugo": {"api"},
	"gateway/crew":       nil,
	"gateway/guard/here": nil,
	"gateway/push":       {"api"},
	"gateway/registry":   nil,
	"gateway/relay":      {"api", "realtime"},
	"gateway/rpc":        {"api", "gateway/crew"},
	"internal/logger":    {"systemd"},
	"store/postgres":     {"api"},
	"store/redis":        nil,
	"outside":            {"access", "api", "scheduler/stream", "worker", "worker/artefact", "worker/executor"},
	"mesh":               {"mesh/device", "mesh/hostnet", "mesh/netstack"},
	"mesh/hostsfile":     nil,
	"onion":              {"proxy", "publisher", "tor"},
	"pressure":           nil,
	"pressure/gate":      nil,
	"proxy":              nil,
	"publisher":          nil,
	"realtime":           {"api", "load/live"},
	"scheduler":          {"scheduler/link", "scheduler/meters", "scheduler/runs", "scheduler/settle", "scheduler/trials"},
	"scheduler/link":     nil,
	"scheduler/meters":   nil,
	"scheduler/runs":     nil,
	"scheduler/settle":   nil,
	"scheduler/trials":   nil,
	"systemd":            nil,
	"tor":                nil,
	"web":                {"api", "docs/topics"},
	"internal/tornet":    nil,
	"internal/cut":       nil,
	"worker":             {"worker/executor", "worker/outbox", "worker/runner", "worker/words"},
	"api":                nil,
	"client":             {"api"},
	"status/door":        {"api"},
	"status/loads":       {"api", "status/door", "status/openapi", "status/stream"},
	"status/joblogs":     {"api", "status/door", "status/openapi", "status/query", "status/stream"},
	"status/joboutputs":  {"api", "status/door"},
	"status/debug":       {"api", "status/door", "status/openapi"},
	"status/query":       {"api", "status/openapi"},
	"status/lanes":       nil,
	"status/once":        {"api"},
	"status/openapi":     {"api"},
	"status/outside":     {"api", "status/door", "status/openapi"},
	"status/reserves":    {"api", "status/door"},
	"status/past":        {"api", "status/door", "status/openapi", "status/query"},
	"status/proof":       {"api", "status/door"},
	"status/stream":      {"api", "status/door"},
	"status/workflows":   {"api", "status/door"},
	"status":             {"api", "status/debug", "status/door", "status/joblogs", "status/joboutputs", "status/lanes", "status/loads", "status/once", "status/openapi", "status/outside", "status/past", "status/proof", "status/query", "status/reserves", "status/stream", "status/workflows", "realtime"},
	"mesh/device":        nil,
	"mesh/hostnet":       {"mesh/device"},
	"mesh/netstack":      {"mesh/device"},
	"worker/artefact":    nil,
	"worker/executor":    {"worker/artefact", "worker/runner", "worker/words"},
	"worker/outbox":      nil,
	"worker/guestfs":     nil,
	"worker/runner":      {"worker/guestfs", "worker/words"},
	"worker/words":       nil,

	// Servers of others, for tests and demos.
	"internal/servertest": nil,
	"internal/balance":    nil,
}

// leaves are helpers below every adapter; they import nothing of ours.
var leaves = []string{"internal/advice", "internal/breaker", "internal/bucket", "internal/budget", "internal/certfile", "internal/durable", "internal/loglimit", "internal/pipe", "internal/recent", "internal/spelling", "internal/sysclock", "internal/tool", "internal/wait"}

// rooms lists the parts of a host above the adapters. They import cluster, any
// pure package, the leaf helpers and what stands here.
var rooms = map[string][]string{
	"backend":            {"api", "backend/bundle", "backend/convert", "backend/gauges", "backend/groupsync", "backend/joblogs", "backend/joboutputs", "backend/loads", "backend/onions", "backend/outside", "backend/past", "backend/proof", "backend/published", "backend/rates", "backend/reserves", "backend/spread", "backend/stops", "backend/trial", "backend/waits", "backend/workerlist", "backend/workflows", "backend/zones", "config", "coord", "coord/join", "coord/join/door", "coord/join/token", "doctor", "eventlog/audit", "eventlog/disk", "eventlog/snapshots", "eventlog/store", "eventlog/wire", "forward", "forward/jobwatch", "forward/linkwatch", "forward/zonewatch", "load/slice", "membership/voters", "mesh", "scheduler", "status", "worker", "worker/artefact", "worker/runner", "worker/words"},
	"backend/kept":       {"config", "coord", "worker/artefact", "worker/words"},
	"backend/joblogs":    {"api", "forward", "worker/words"},
	"backend/joboutputs": {"api"},
	"backend/loads":      {"api", "config", "forward", "internal/wait", "load/live", "load/slice"},
	"backend/bundle":     {"api", "forward"},
	"backend/gauges":     {"coord"},
	"backend/groupsync":  {"config"},
	"backend/onions":     {"api", "coord", "forward", "onion", "tor"},
	"backend/outside":    {"api", "forward", "gateway/registry", "scheduler", "status/outside"},
	"backend/past":       {"api", "backend/convert", "eventlog/audit", "eventlog/store"},
	"backend/proof":      {"api", "eventlog/store"},
	"backend/published":  {"api", "eventlog/store"},
	"backend/rates":      {},
	"backend/reserves":   {"api", "forward"},
	"backend/spread":     {"api", "coord"},
	"backend/stops":      {"coord", "eventlog/store"},
	"backend/trial":      {"api", "worker/runner"},
	"backend/waits":      {"api", "backend/convert", "forward", "scheduler"},
	"backend/workerlist": {"api"},
	"backend/zones":      {"api", "coord", "forward", "internal/wait"},
	"backend/workflows":  {"api", "forward", "scheduler/runs"},
	"backend/convert":    {"api", "coord", "eventlog/audit", "eventlog/disk", "eventlog/segment", "eventlog/snapshots"},
	"doctor":             {"api", "config", "coord", "coord/join", "coord/join/starts", "coord/store", "eventlog/audit", "eventlog/segment", "eventlog/snapshots", "eventlog/wire", "gateway/centrifugo", "mesh", "mesh/device", "mesh/hostnet", "mesh/hostsfile", "onion", "proxy", "store/postgres", "store/redis", "tor"},
	"offline":            {"api", "backend/convert", "config", "coord", "coord/election", "coord/join", "coord/join/door", "coord/join/starts", "coord/join/token", "coord/store", "discover", "doctor", "eventlog/audit", "eventlog/segment", "eventlog/store", "membership/deviceplan", "mesh/device", "mesh/hostnet", "scheduler", "tor", "worker", "worker/artefact", "worker/executor", "worker/runner"},

	// The live terminal: nobody but its command imports it.
	"tui":          {"api"},
	"tui/loadview": {"api", "load/live"},

	// What a host does as a member and as the holder.
	"duty":                  {"coord"},
	"journal":               {"coord", "eventlog", "eventlog/audit"},
	"forward/jobwatch":      {"api", "forward"},
	"forward/linkwatch":     {"api", "coord", "forward", "mesh"},
	"forward/zonewatch":     {"api", "coord", "forward"},
	"membership":            {"api", "coord", "coord/join", "coord/join/door", "coord/join/starts", "coord/join/token", "forward"},
	"membership/deviceplan": {"discover", "mesh", "mesh/hostnet"},
	"membership/lastseen":   {"coord", "coord/store"},
	"relief":                {"api", "coord", "coord/transport", "pressure", "pressure/gate", "scheduler"},
	"membership/voters":     {"api", "backend/convert", "coord", "forward"},
}

// top lists the packages that know everyone, and what they may import beyond
// what adapters may.
var top = map[string][]string{
	"daemon":               {"*"},
	"internal/demo":        {"api", "client", "internal/cut", "internal/tornet", "internal/wait"},
	"cmd/skein":            {"daemon", "doctor", "offline", "outside", "internal/demo", "internal/demo/scaleout", "api", "config", "cmd/skein/cli", "cmd/skein/gateway", "cmd/skein/hosts", "cmd/skein/jobs", "cmd/skein/loadtest", "cmd/skein/local", "cmd/skein/man", "cmd/skein/workers"},
	"cmd/skein/cli":        {"access", "api", "client", "config", "internal/spelling", "present"},
	"cmd/skein/gateway":    {"access", "api", "config", "gateway/centrifugo", "present", "cmd/skein/cli"},
	"cmd/skein/hosts":      {"access", "offline", "api", "config", "present", "present/pseudonym", "tui", "cmd/skein/cli", "cmd/skein/onion"},
	"cmd/skein/joblogs":    {"api", "present", "cmd/skein/cli"},
	"cmd/skein/joboutputs": {"api", "present", "cmd/skein/cli"},
	"cmd/skein/jobtrace":   {"api", "present", "present/trace", "cmd/skein/cli"},
	"cmd/skein/jobs":       {"offline", "api", "client", "config", "present", "cmd/skein/cli", "cmd/skein/joblogs", "cmd/skein/joboutputs", "cmd/skein/jobtrace", "cmd/skein/workers"},
	"cmd/skein/local":      {"daemon", "docs", "docs/topics", "offline", "outside", "internal/certfile", "internal/demo", "api", "client", "config", "present", "web", "cmd/skein/cli"},
	"cmd/skein/onion":      {"api", "present", "cmd/skein/cli"},
	"cmd/skein/workers":    {"api", "present", "cmd/skein/cli"},
	"cmd/skein/loadtest":   {"api", "config", "load", "load/bundle", "load/convert", "load/engine", "load/gang", "load/guard", "load/hook", "load/live", "load/pace", "load/push", "load/room", "load/slice", "load/report", "load/rule", "load/stat", "present", "tui/loadview", "cmd/skein/cli"},
	"cmd/skein/man":        {"config", "docs/topics", "cmd/skein/cli"},

	// Outside workers are what runs them; the hosts are processes, as of every demo.
	"internal/demo/scaleout": {"access", "api", "gateway/centrifugo", "internal/balance", "internal/demo", "internal/servertest", "internal/tool", "internal/wait", "outside", "worker/artefact", "worker/executor"},
}

// inTests lists what tests of a package may import beyond what they otherwise may.
var inTests = map[string][]string{
	"backend":            {"eventlog", "onion", "scheduler/runs"},
	"backend/zones":      {"coord/distance"},
	"coord":              {"coord/store"},
	"doctor":             {"publisher"},
	"eventlog/replicate": {"eventlog/disk"},
	"forward/linkwatch":  {"forward/zonewatch"},
	"gateway":            {"gateway/crew", "internal/servertest", "store/redis"},
	"gateway/centrifugo": {"internal/servertest"},
	"gateway/crew":       {"internal/crewtest"},
	"gateway/guard/here": {"internal/guardtest"},
	"internal/demo":      {"daemon", "gateway/centrifugo", "internal/balance", "internal/demo/scaleout", "offline", "config", "coord/join", "eventlog", "membership/deviceplan"},
	"offline":            {"eventlog"},
	"outside":            {"gateway", "gateway/crew", "gateway/registry", "gateway/rpc"},
	"scheduler":          {"gateway/crew"},
	"status":             {"client"},
	"store/postgres":     {"internal/servertest"},
	"store/redis":        {"internal/crewtest", "internal/guardtest", "internal/servertest"},
	"worker":             {"worker/artefact"},
}

// testOnly lists packages that only tests may import, and what they may
// import beyond the vocabulary and the pure packages.
var testOnly = map[string][]string{
	"eventlog/wire/wiretest":        nil,
	"internal/archtest":             nil,
	"internal/clusterslot":          nil,
	"internal/crewtest":             nil,
	"internal/fakeflows":            {"api"},
	"internal/fakeonion":            {"api"},
	"internal/fakeoutside":          {"api"},
	"internal/faketarget":           nil,
	"internal/fastest":              nil,
	"internal/guardtest":            nil,
	"internal/idlehosts":            {"api"},
	"internal/logaudit":             nil,
	"internal/nstest":               {"internal/require"},
	"internal/onionnet":             {"proxy", "publisher", "tor", "internal/tornet"},
	"internal/require":              {"internal/tool"},
	"internal/sim":                  nil,
	"internal/servertest/redistest": {"internal/require", "internal/servertest"},
	"internal/simnet":               {"internal/pipe", "internal/wait"},
	"internal/statetest":            {"config", "coord/join", "eventlog"},
	"internal/tornet/tornettest":    {"internal/require", "internal/tornet"},
	"internal/vmtest":               {"internal/require"},
	"observability":                 {"internal/require", "internal/wasmtest"},
	"test/onion":                    {"api", "config", "coord/join", "daemon", "offline", "proxy", "publisher", "tor", "internal/clusterslot", "internal/onionnet", "internal/require", "internal/tornet", "internal/tornet/tornettest"},
	"test/deb":                      {"internal/require", "internal/vmtest"},
	"test/netns":                    {"api", "config", "coord/join", "coord/join/token", "daemon", "mesh", "internal/clusterslot", "internal/logaudit"},
	"internal/wasmtest":             nil,
}

// smaller lists packages that are to stay below the bound of lines: the wiring
// decides nothing.
var smaller = map[string]int{"daemon": 2000}

// free lists packages outside the rules: example jobs and tools, programs of
// their own that no package imports.
var free = []string{"examples", "internal/loadtarget", "internal/pictures", "internal/sim/mutate", "internal/testrun", "internal/tornet/play"}

// wire lists the packages, with those below, whose structs are records that
// other programs or hosts read: the bound of fields is not about them.
var wire = []string{"api", "cluster", "config", "coord/wire"}

// of names what an exception is for: a package, or one of its types.
type of struct{ pkg, name string }

// Reasons that several exceptions share.
const (
	report = "a report: made in one go, read by others, never changed"
	model  = "a simulated cluster, all of which its judge and its faults must reach"
)

// exceptions lists what exceeds a bound of size.go, and why it may.
var exceptions = map[of]string{
	{"api", "Client"}:                "one method for each route of the API",
	{"coord", "MemberView"}:          report,
	{"coord", "View"}:                report,
	{"coord/swim", "Core"}:           "the machine of one protocol in 1,600 lines; every step reads what the others write, and walls would pass all of it around",
	{"internal/sim", "World"}:        model,
	{"internal/sim", "node"}:         model,
	{"scheduler/plan", "WorkerView"}: report,
	{"api", ""}:                      "the wire of every route: types and their fields, with one method a route to ask",
	{"lease", ""}:                    "one protocol, explored as one machine: its voter, candidate and holder read the same state",
	{"lease", "State"}:               "one exhaustively explored machine: its state is compared and copied as a value, and the mutants name its fields",
	{"lease", "Status"}:              "a report: copied out of the state for operators, it holds none",
	{"lease", "Timing"}:              "configuration: the durations of one profile",
	{"lease", "machine"}:             "one step of that machine; the methods are its cases, in a file per role",
	{"lease", "tenure"}:              "part of that state: what a holder knows in one term",
}
