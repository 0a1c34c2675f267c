package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// part is one run of go, with what stands in the way of running it in one go
// with others: how it is built, its environment, its directory.
type part struct {
	name string
	dir  string // below the root
	env  []string
	args []string
}

// mostAgain bounds the tests of a part that are run once more; of a part that is
// broken more fail.
const mostAgain = 3

// lane is parts that run one after the other, beside those of other lanes.
type lane struct {
	nice  int  // of its processes; below 0 only where this one may (root)
	first bool // the others, but for those that compute, begin when all of these have ended
	parts []part
}

// Niceness of lanes. Those that compute give way to those that wait, whose
// daemons keep times. A guest is one emulated processor with daemons of its own
// in it, which stand still when it does; several take all that there is, so they
// go first, and clusters wait for them.
const (
	computes = 10
	guests   = -10
)

// beside is how many tests of one binary may run at once where they wait for
// clusters; clusterslot bounds how many of these live.
const beside = "8"

// Packages that simulate on one thread at a time, for which the race detector
// takes ten to thirty times as long, that only read and compile source, or that the
// linter's rule `pure` holds free of goroutines though they import a parser of others:
// they run without it, and so do those in which threads.go finds a single thread.
var withoutRace = []string{
	"./lease", "./internal/sim/...", "./eventlog/state", "./publisher/descriptor", "./examples/...", "./internal/archtest",
	"./access", "./gateway/auth", "./gateway/channel", "./load", "./load/pace", "./load/report", "./load/rule", "./load/stat", "./onion/policy",
	"./present/...", "./scheduler/flow", "./scheduler/schedule",
}

// Cases of coord of many simulated minutes (`large` there): they run without the
// race detector, the others with it.
const largeOfCoord = "^Test(Backends|BothSidesOfACutPublish|FloodsStarveNobody|LostRecordIsAnnouncedAgain|RevocationReachesAll|" +
	"LossIsNoBlackHole|FiveHundredMembers|ShareBounds|LargeCluster|SizePassesDirect|OwnRecordReachesAll|Zones|" +
	"RoamingIsGossiped|Fallback|HeartbeatsFit)$"

// withRace has the race detector look at all but the arithmetic of signatures, which
// works on numbers of its own and half of which is assembly that it never sees: it
// took half of the time of tests whose hosts sign what they say. The Makefile builds
// the daemons in the same way.
var withRace = []string{"-race", "-gcflags=crypto/internal/fips140/edwards25519/...=-race=false"}

// slow are cases in packages with threads for which the race detector takes five to
// twenty times as long as for the others: random models and simulations, files cut and
// damaged in many places, minutes of fake time in which devices encrypt, commands each
// of which is a process. They run without it; with it run the other cases, which go
// through the same code, and `make prove-race` runs these with it too.
var slow = []struct{ pkg, cases string }{
	{"./mesh", "^TestFakeTime$/^(Cut|Crossing|DeadPeer|Loss|Rotate|RotateBadly)$"},
	{"./eventlog", "^Test(CrashAtEveryByte|BitFlips|RecoveryOfAMillion|DamageIsMendedAsTheErrorSays|DeletedChainsComeBack|" +
		"PowerLoss|PowerLossOfSnapshots|PowerLossWhileFetching|ClusterSimulation|IndexFindsWhatIsThere|Rewind|RewindFromSnapshot)$"},
	{"./scheduler", "^Test(Model|Outsiders|HostileVisitors|FlowHolderDiesAtEveryEvent|HolderDiesInAFlow|Attacks|Overlap|ScheduleInAZone|ZonesFarApart|FlowsOfAnOwner|HolderDiesAtATime)$"},
	{"./coord/swim", "^Test(IdleTraffic|Loss|Partition)$"},
	{"./coord/distance", "^TestError$"},
	{"./pressure/gate", "^TestGoodput$"},
	{"./realtime", "^TestIdleIsQuiet$"},
	{"./web", "^TestPlainHostile$"},
	{"./tui", "^TestManyRowsOfATopic$"},
	{"./store/redis", "^TestMutants$"},
	{"./worker/executor", "^Test(GuestSeesOnlyItsChunk|FilesOfGuests)$"}, // its runner compiles a module of Go
	{"./load/hook", "^TestCall$"},                                        // so does this, and the next
	{"./load/engine", "^TestHooks$"},
	{"./backend/loads", "^Test(HundredHosts|PublishedIsCounted)$"},
	{"./offline", "^TestDamageIsToldOnce$"},
	{"./cmd/skein", "^Test(Scripts|CompletionOfSilent)$"},           // the latter has a bound of a time
	{"./status", "^Test(EveryRoleOnEveryRoute|UnknownParameters)$"}, // each route as everybody
	{"./cmd/skein/hosts", "^Test(TakeLog|WriteBundle)$"},
	// Not slow: the client of Centrifugo in them (centrifuge-go 0.12.1) races with itself
	// where a gateway cuts it off while it sends.
	{"./gateway", "^Test(Flood|TooOften)$"},
}

// slowCases are the packages of slow, and what go test is told of their cases. No other
// package that runs with the race detector has a case of such a name.
func slowCases() (pkgs []string, pattern string) {
	cases := make([]string, len(slow))
	for i, s := range slow {
		pkgs, cases[i] = append(pkgs, s.pkg), s.cases
	}
	return pkgs, strings.Join(cases, "|")
}

// Cases of ./internal/demo whose daemons are built with the race detector: they go
// through lease, log, scheduler, gateway, users and remote operations while much
// happens at once. It takes two to three times of a processor what a daemon as shipped
// takes; `make prove-daemons` has all cases with it.
const racedClusters = "^Test(Gateways|SubmitAnywhere|LeaseOperations|DrainAndRollingRestart|WatchGoesOnElsewhere|UsersOverTheMesh|UserFromOutsideTLS|" +
	"Reload|RestoredBackup|Remove|KilledWorkerKeepsResults)$"

// Packages whose tests take or wait longest with the race detector: they begin first, so
// that at the end short ones are left, for both processors.
var longest = []string{
	"./eventlog", "./load/engine", "./gateway", "./mesh", "./observability", "./store/redis", "./status", "./coord/join",
	"./internal/nstest", "./worker/executor", "./outside", "./realtime", "./scheduler", "./store/postgres", "./load/h1", "./eventlog/replicate",
}

// Cases of ./internal/demo that take longest, most of it waiting: they begin beside the
// first of the others, not behind them, some of which must be alone among these.
const longClusters = "^Test(ScaleOut|ScaleOutAsAnybody|Centrifugo|LoadOnHosts|Zones|OutsideWorkers|RedisStore)$"

// Packages that start clusters of real daemons, tor networks and guests.
var clusters = []string{"./internal/demo", "./test/netns", "./test/onion", "./test/deb", "./internal/vmtest"}

// lanes lists everything that `make test` runs. root has the program as
// shipped in bin, with race below it; list is `go list`; single are all packages with one thread.
func lanes(root string, list func(patterns ...string) ([]string, error), single []string) ([]lane, error) {
	all, err := list("./...")
	if err != nil {
		return nil, err
	}
	plain, err := list(withoutRace...)
	if err != nil {
		return nil, err
	}
	apart, err := list(slices.Concat(clusters, []string{"./coord"})...)
	if err != nil {
		return nil, err
	}
	single = slices.DeleteFunc(slices.Clone(single), func(p string) bool { return slices.Contains(apart, p) || slices.Contains(plain, p) })
	plain = slices.Concat(plain, single)
	others := slices.DeleteFunc(all, func(p string) bool { return slices.Contains(apart, p) || slices.Contains(plain, p) })
	first, err := list(longest...)
	if err != nil {
		return nil, err
	}
	others = slices.Concat(
		slices.DeleteFunc(first, func(p string) bool { return !slices.Contains(others, p) }),
		slices.DeleteFunc(others, func(p string) bool { return slices.Contains(first, p) }),
	)
	// The linter vets everything. Without what debuggers read, a link takes three fifths
	// of the time; stacks of panics and races name files and lines all the same.
	built := []string{"-ldflags=-s -w", "-vet=off"}
	test := func(args ...string) []string {
		return slices.Concat([]string{"test", "-json", "-count=1", "-timeout=60m"}, built, args)
	}
	testRaced := func(args ...string) []string { return test(slices.Concat(withRace, args)...) }
	slowPkgs, slowNames := slowCases()
	shipped := []string{"SKEIN_BIN=" + filepath.Join(root, "bin")}
	race := []string{"SKEIN_BIN=" + filepath.Join(root, "bin", "race")}
	return []lane{
		// How many of these clusters live at once, clusterslot says.
		{parts: []part{{name: "daemons, race", env: race, args: testRaced("-parallel="+beside, "-run="+racedClusters, "./internal/demo")}}},
		{parts: []part{{name: "daemons", env: shipped, args: test("-parallel="+beside, "-skip="+racedClusters+"|"+longClusters, "./internal/demo")}}},
		{parts: []part{{name: "daemons, long", env: shipped, args: test("-parallel="+beside, "-run="+longClusters, "./internal/demo")}}},
		// It compiles nfpm, builds packages and then emulates a guest.
		{parts: []part{{name: "package", args: test("./test/deb")}}},
		{parts: []part{{name: "browser", dir: "web/browser", env: shipped, args: test("./...")}}},
		// What it imports is the most that there is to compile.
		{nice: computes, parts: []part{{name: "bench", dir: "bench", args: test("-short", "./...")}}},
		{parts: []part{{name: "namespaces", env: shipped, args: test("-parallel="+beside, "./test/netns")}}},
		{nice: guests, first: true, parts: []part{{name: "guests", env: shipped, args: test("./internal/vmtest")}}},
		// Its network of tors takes a third of a processor for as long as it stands.
		{first: true, parts: []part{{name: "onion", env: shipped, args: test("-parallel="+beside, "./test/onion")}}},
		{nice: computes, parts: []part{
			{name: "race", env: race, args: testRaced(append([]string{"-skip=" + slowNames}, others...)...)},
		}},
		{nice: computes, parts: []part{{name: "coord, race", args: testRaced("-skip="+largeOfCoord, "./coord")}}},
		{nice: computes, parts: []part{
			{name: "slow with race", env: shipped, args: test(append([]string{"-run=" + slowNames}, slowPkgs...)...)},
			{name: "coord, large", args: test("-run="+largeOfCoord, "./coord")},
			{name: "without race", env: shipped, args: test(plain...)},
		}},
	}, nil
}

// named keeps the parts that match.
func named(all []lane, match func(string) bool) ([]lane, error) {
	var out []lane
	for _, l := range all {
		l.parts = slices.DeleteFunc(slices.Clone(l.parts), func(p part) bool { return !match(p.name) })
		if len(l.parts) > 0 {
			out = append(out, l)
		}
	}
	if out == nil {
		return nil, fmt.Errorf("no part has such a name")
	}
	return out, nil
}
