package archtest

// Module is the prefix of the packages that the rules are about.
const Module = "github.com/skein-project/skein"

// MaxLines bounds a Go file, tests included.
const MaxLines = 800

// pure lists the packages that decide: values in, values out. Any adapter may
// import them; they import only cluster.
var pure = []string{
	"lease",
	"coord/member",
	"coord/path",
	"coord/swim",
	"coord/wire",
	"eventlog/record",
	"eventlog/snapshot",
	"eventlog/state",
	"mesh/topo",
	"publisher/descriptor",
	"scheduler/plan",
	"scheduler/stream",
}

// adapters lists the packages that do I/O. They import cluster, any pure
// package, the leaf helpers and what stands here; never each other.
var adapters = map[string][]string{
	"config":          nil,
	"coord":           nil,
	"coord/join":      nil,
	"eventlog":        nil,
	"mesh":            nil,
	"proxy":           nil,
	"publisher":       nil,
	"scheduler":       nil,
	"systemd":         nil,
	"tor":             nil,
	"internal/tornet": nil,
	"worker":          nil,
	"api":             nil,
	"status":          {"api"},
}

// leaves are helpers below every adapter; they import nothing of ours.
var leaves = []string{"internal/durable"}

// top lists the packages that know everyone, and what they may import beyond
// what adapters may.
var top = map[string][]string{
	"daemon":    {"*"},
	"cmd/skein": {"daemon", "api", "config"},
}

// testOnly lists packages that only tests may import, and what they may
// import beyond cluster and the pure packages.
var testOnly = map[string][]string{
	"internal/archtest":          nil,
	"internal/logaudit":          nil,
	"internal/nstest":            {"internal/require"},
	"internal/onionnet":          {"proxy", "publisher", "tor", "internal/tornet"},
	"internal/require":           nil,
	"internal/sim":               nil,
	"internal/simnet":            nil,
	"internal/tornet/tornettest": {"internal/require", "internal/tornet"},
	"internal/vmtest":            {"internal/require"},
	"test/onion":                 {"api", "config", "coord/join", "daemon", "proxy", "publisher", "tor", "internal/onionnet", "internal/require", "internal/tornet", "internal/tornet/tornettest"},
	"test/netns":                 {"api", "config", "coord/join", "daemon", "mesh", "internal/logaudit"},
}

// free lists packages outside the rules: example jobs and tools, programs of
// their own that no package imports.
var free = []string{"examples", "internal/sim/mutate", "internal/tornet/play"}
