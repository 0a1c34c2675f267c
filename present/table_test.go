package present

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *time.Time { return new(noon.Add(-d)) }

var header = api.Header{Node: "n2", ObservedAt: noon}

// examples has bodies as large clusters have them, by the name of their table.
func examples() map[string]Table {
	onion := strings.Repeat("a", 56) + ".onion"
	return map[string]Table{
		"members": Members(api.Members{Header: header, Members: []api.Member{
			{Node: "frankfurt-17", Addr: "10.86.0.17", State: cluster.Alive, Role: cluster.RoleHolder, Term: 1024, Voter: true, SeenSeconds: new(0.4), RTTSeconds: new(0.0123), Path: "direct", Version: "v0.12.0-14-gabcdef0"},
			{Node: "paris-2", Self: true, Addr: "10.86.0.18", State: cluster.Alive, Role: cluster.RoleStandby, Term: 1024, Path: "self", Version: "v0.12.0-14-gabcdef0", Endpoints: []string{"192.0.2.1:51820", "[2001:db8::1]:51820"}},
			{Node: "rome", Addr: "10.86.0.19", State: cluster.Suspect, Role: cluster.RoleStandby, Term: 1023, SeenSeconds: new(7.2), RTTSeconds: new(0.001), Path: "onion", Version: "v0.12.0"},
			{Node: "lima", Addr: "10.86.0.18", State: cluster.Dead, Stopped: true, Role: cluster.RoleStandby, Term: 1023, SeenSeconds: new(40.0), Path: "direct", Version: "v0.12.0"},
			{Node: "oslo", Addr: "10.86.0.20", State: cluster.Left, Removed: true, GoneAt: ago(time.Hour), Reason: "stolen"},
		}}),
		"mesh": Peers(api.Mesh{MeshSummary: api.MeshSummary{Interface: "skein0"}, Header: header, Peers: []api.MeshPeer{
			{Node: "frankfurt-17", Addr: "10.86.0.17", State: api.PeerUp, Path: "direct", Endpoint: "198.51.100.200:51820", HandshakeSeconds: new(41.0), ReceivedBytes: 123456, SentBytes: 98, RTTSeconds: new(0.0011), MTU: new(1380), KeepaliveSeconds: 25},
			{Node: "rome", Addr: "10.86.0.19", State: api.PeerConnecting},
		}}),
		"lease": Lease(api.Lease{Header: header, LeaseSummary: api.LeaseSummary{
			Holder: "frankfurt-17", Term: 1024, Mode: cluster.ModeQuorum, Voters: 5, Profile: "classic", RenewedSeconds: new(1.2), ExpiresSeconds: new(3.8), TenureSeconds: new(7300.0), Publisher: "frankfurt-17", PublishWhy: api.PublishLease,
		}, Ready: new(true), Config: api.LeaseConfig{Epoch: 5, Voters: []cluster.NodeID{"frankfurt-17", "paris-2", "rome", "oslo", "n5"}}}),
		"terms": Terms(api.LeaseHistory{Header: header, Terms: []api.TermRecord{
			{Term: 42, Holder: "frankfurt-17", StartedAt: noon.Add(-time.Hour), GapSeconds: new(3.4), Previous: "rome", Grants: []cluster.NodeID{"frankfurt-17", "paris-2", "rome"}},
			{Term: 41, Holder: "rome", StartedAt: noon.Add(-5 * time.Hour), EndedAt: ago(time.Hour), ToldAt: ago(59 * time.Minute), LastEvidenceAt: ago(time.Hour + 3400*time.Millisecond), GapSeconds: new(0.0), Cause: "no majority", Successor: "frankfurt-17", Grants: []cluster.NodeID{"paris-2", "rome"}},
		}}),
		"voters": Voters(api.Voters{Header: header, Voters: []api.Voter{
			{Node: "frankfurt-17", Zone: "frankfurt", State: cluster.Alive, Priority: 10, Voter: true, Target: true, Epoch: new(uint64(5))},
			{Node: "rome", State: cluster.Alive, Witness: true, Voter: true, Target: true, Abstaining: "vote record missing"},
		}}),
		"snapshots": Snapshots(api.LogSnapshots{Header: header, Snapshots: []api.LogSnapshot{{Events: 120000, LastAt: noon.Add(-time.Hour), SizeBytes: 1 << 20, Term: 41, Signers: []cluster.NodeID{"frankfurt-17", "paris-2", "rome"}}}}),
		"sources":   Sources([]api.LogSource{{Source: event.SourceID{Node: "frankfurt-17", Inc: 1767225600}, Seq: 404}}),
		"jobs": Jobs(api.Jobs{Header: header, Jobs: []api.Job{
			{ID: "jrunaaaaaaaaaaaaaaaaaaaaaaa", Name: "options-eu", State: job.Running, SubmittedAt: noon.Add(-3 * time.Minute), Owner: "user:annemarie", Iterations: api.IterationCounts{Total: 1e9, Accepted: 999999999}, Chunks: api.ChunkCounts{Total: 1000, Accepted: 999}, RatePerSecond: new(1.5e8), ETASeconds: new(0.01)},
			{ID: "jbadaaaaaaaaaaaaaaaaaaaaaaa", State: job.Failed, SubmittedAt: noon.Add(-50 * time.Hour), Owner: "uid:1000@frankfurt-17", Attempts: api.AttemptCounts{Failed: 12}},
		}}),
		"metrics": Metrics(api.Job{Aggregates: map[string]api.Summary{"pi": {N: 100000, Mean: 3.14159265, SE: new(0.0016), Std: new(1.64), Min: 0, Max: 4, CI95Low: new(3.1384), CI95High: new(3.1448), P50: new(4.0), P90: new(4.0), P99: new(4.0)}}}),
		"results": Results(api.Job{Aggregates: map[string]api.Summary{"pi": {N: 100000, Mean: 3.14159265, SE: new(0.0016)}}}),
		"failures": Failures(api.Job{Header: header, Failures: []api.Failure{
			{Chunk: 17, Attempt: 3, Worker: "frankfurt-17", At: noon.Add(-time.Minute), Final: true, Reason: "exit 3:\nthe program says that it cannot go on without a file that is not there"},
		}}),
		"transitions": Transitions(api.JobHistory{Header: header, Transitions: []api.Transition{
			{At: noon.Add(-time.Minute), Term: 1024, To: "pending", Actor: "user:annemarie"},
			{At: noon.Add(-time.Second), Term: 1024, Chunk: new(17), Attempt: 2, Worker: "frankfurt-17", From: "assigned", To: "pending", Reason: "its worker is gone"},
		}}),
		"workers": Workers(api.Workers{Header: header, Workers: []api.Worker{
			{Node: "frankfurt-17", Live: cluster.Alive, Connected: true, Ready: true, Progress: "normal", Verdict: "route", Slots: 8, Owner: "user:ann", Accept: "group", AcceptNames: []string{"render", "risk"}, Assigned: 16, Window: 16, BacklogIterations: 12500000, DrainSeconds: 7.5, RatePerSecond: new(1.6e6), Trusted: true},
			{Node: "rome", Live: cluster.Suspect, Progress: "idle", Verdict: "investigate", Slots: 4, Accept: "public", Draining: true, ExcludedSeconds: new(30.0)},
		}}),
		"explained": Explained(api.JobExplanation{Header: header, Workers: []api.ExplainedWorker{
			{Node: "frankfurt-17", Eligible: true, Reason: "busy", Text: "has no room", Assigned: 16, Accepted: 1200},
			{Node: "oslo", Eligible: true},
			{Node: "rome", Reason: "not_accepted", Text: "its host does not run the jobs of user:annemarie"},
		}}),
		"zones": Zones(api.Zones{Zones: []api.Zone{
			{Zone: "frankfurt-east", Health: "healthy", ForSeconds: 86400 * 3, Hosts: 30, Alive: 30, Slots: 240, Free: 17, Voters: 2, RTTSeconds: new(0.0004), RTTFrom: "measured"},
			{Zone: "rome", Health: "degraded", Why: "of 4 workers: 1 stuck, 1 not ready, 1 overloaded", ForSeconds: 12.5, Hosts: 4, Alive: 4, Drained: 1, Slots: 8, Queued: 12, Voters: 1, RTTSeconds: new(0.051), RTTFrom: "reported"},
		}}),
		"load tests": LoadRuns(api.LoadRuns{Header: header, Runs: []api.LoadRun{
			{ID: "lshopaaaaaaaaaaaaaaaaaaaaaa", Name: "shop", Owner: "user:annemarie", State: event.LoadStarted, SubmittedAt: noon.Add(-3 * time.Minute), Hosts: []api.LoadHost{{Host: "frankfurt-17"}, {Host: "rome", Lost: "dead"}}},
			{ID: "loldaaaaaaaaaaaaaaaaaaaaaaa", Name: "https://api.example.org/", Owner: "uid:1000", State: event.LoadEnded, Verdict: "failed", Why: "p(95)<500 of /cart: 812", SubmittedAt: noon.Add(-50 * time.Hour), Hosts: []api.LoadHost{{Host: "paris-2"}}},
		}}),
		"overload": OverloadLanes(api.Overload{Lanes: []api.OverloadLane{
			{Lane: "control", Places: 16, Running: 1}, {Lane: "telemetry", From: "high", Refuses: true, Places: 500, Running: 499, Waiting: 1000, RefusedByLevel: 1 << 40, RefusedByPlaces: 7},
		}}),
		"overload signals": OverloadSignals(api.Overload{Signals: []api.OverloadSignal{
			{Signal: "work delay", Value: new(12.5), From: 0.05, Unit: "seconds", Score: 8}, {Signal: "memory", From: 0.1, Unit: "share"}, {Signal: "local health", Value: new(3.0), From: 2, Unit: "points", Score: 3},
		}}),
		"tokens": Tokens(api.Tokens{Header: header, Tokens: []api.Token{
			{ID: "i1aaaaaaaa", ExpiresAt: noon.Add(time.Hour), Uses: 3, Spent: []cluster.NodeID{"rome"}},
			{ID: "i2aaaaaaaa", ExpiresAt: noon.Add(-time.Hour), Uses: 1},
			{ID: "i3aaaaaaaa", ExpiresAt: noon.Add(time.Hour), Uses: 1, Spent: []cluster.NodeID{"oslo"}},
			{ID: "i4aaaaaaaa", ExpiresAt: noon.Add(time.Hour), Uses: 1, Revoked: true},
		}}),
		"users": Users(api.Users{Header: header, Users: []api.User{
			{Name: "ann", Role: "submitter", Keys: []string{"k"}, KeyIDs: []string{"k1aaaaaaaaaa"}, UIDs: []uint64{1000, 1001}, At: noon.Add(-72 * time.Hour), Actor: "uid:0@frankfurt-17"},
			{Name: "bob", Role: "viewer", Disabled: true, Actor: "uid:0@frankfurt-17"},
		}}),
		"whoami":       Whoami(api.Whoami{Header: header, Name: "user:annemarie", Role: "submitter", Proof: "token", KeyID: "k1aaaaaaaaaa", Rights: api.Rights{Look: "all", Read: "own", Use: "own", Operate: "none"}, EndsAt: ago(-time.Minute)}),
		"groups":       Groups(api.Groups{Header: header, Groups: []api.Group{{Name: "render", Members: []string{"uid:1000", "node:n4"}, At: noon.Add(-72 * time.Hour), Actor: "uid:0@frankfurt-17"}}}),
		"reservations": Reservations(api.Reservations{Header: header, Reservations: []api.Reservation{{Name: "nightly", Owner: "user:ann", Zone: "eu", Slots: 8, Until: noon.Add(6 * time.Hour), At: noon.Add(-72 * time.Hour), Actor: "uid:0@frankfurt-17"}}}),
		"config":       Config([]api.ConfigEntry{{Key: "eventlog.retain_bytes", Value: "1073741824", Origin: "/etc/skein/skein.toml", Reload: "now"}}),
		"findings":     Findings([]api.Finding{{Group: "host", Check: "clock", Verdict: api.VerdictWarn, Detail: "it is 0.7 s ahead of the others", Hint: "run an NTP client", Doc: "docs/operations.md#clock"}}),
		"addresses": Addresses(api.Onion{Header: header, Addresses: []api.OnionAddress{
			{Address: onion, Key: true, Publisher: "frankfurt-17", PublishedAt: ago(12 * time.Minute), Points: map[cluster.NodeID]int{"rome": 3, "frankfurt-17": 3}, Keepers: []cluster.NodeID{"frankfurt-17", "rome"}},
		}}),
		"hosts": Hosts(api.Members{Header: header, Members: []api.Member{
			{Node: "frankfurt-17", Addr: "10.86.0.17", State: cluster.Alive, Role: cluster.RoleHolder, Term: 1024, SeenSeconds: new(0.4), RTTSeconds: new(0.0123), Path: "direct"},
			{Node: "paris-2", Self: true, State: cluster.Alive, Role: cluster.RoleStandby, Term: 1024, Path: "self"},
		}}, []api.Worker{{Node: "frankfurt-17", Assigned: 2, Slots: 8, RatePerSecond: new(1.49e8)}}),
		"links": Links(api.Links{Header: header, Links: []api.Link{
			{From: "frankfurt-17", To: "rome", State: cluster.Alive, Path: "direct", HandshakeSeconds: new(41.0), RTTSeconds: new(0.0123), ReceiveBytesPerSecond: new(12345.6), TransmitBytesPerSecond: new(0.0), ReportedAt: ago(2 * time.Second)},
			{From: "rome", To: "frankfurt-17", State: "unknown", RTTSeconds: new(0.0123)},
			{From: "rome", To: "paris-2", State: cluster.Dead, Stopped: true},
		}}),
		"onionhosts": OnionHosts(api.Onion{Header: header, Hosts: []api.OnionHost{
			{Node: "frankfurt-17", Health: cluster.Alive, Weight: 1, Points: 3, Healthy: true, Serving: true, Keys: 1},
			{Node: "rome", Health: cluster.Suspect, Weight: 1, LeftOut: "its points answer nobody"},
		}}),
		"directories": Directories(api.OnionVerified{Dirs: []api.OnionDirView{
			{Dir: strings.Repeat("AB", 20), Revision: "17", Points: 6},
			{Dir: strings.Repeat("CD", 20), Points: -1, Reason: "no answer within 15 s"},
		}}),
	}
}

// TestTables: what each table shows on a terminal of 80 columns, of 60, in a wide
// one and for programs, as testdata has it.
// TestLeaving: columns leave in the order in which they were named, and no others.
func TestLeaving(t *testing.T) {
	table := NewTable("A", "B", "C", "D").Leaving("C", "A")
	table.Add("aaaa", "bbbb", "cccc", "dddd")
	for width, want := range map[int]string{0: "A B C D", 22: "A B C D", 21: "A B D", 15: "B D", 3: "B D"} {
		if got := strings.Join(table.Fit(width).Names(FormTable), " "); got != want {
			t.Errorf("in %d columns %s, want %s", width, got, want)
		}
	}
}

func TestTables(t *testing.T) {
	tables := examples()
	for file, write := range map[string]func(Table) string{
		"80":    func(t Table) string { return t.Write(FormTable, 80, nil) },
		"60":    func(t Table) string { return t.Write(FormTable, 60, nil) },
		"wide":  func(t Table) string { return t.Write(FormWide, 80, nil) },
		"plain": func(t Table) string { return t.Write(FormPlain, 80, nil) },
	} {
		var got strings.Builder
		for _, name := range slices.Sorted(func(yield func(string) bool) {
			for name := range tables {
				if !yield(name) {
					return
				}
			}
		}) {
			fmt.Fprintf(&got, "%s\n%s\n", name, write(tables[name]))
		}
		golden(t, "testdata/tables-"+file+".txt", got.String())
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("SKEIN_UPDATE") == "1" {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (SKEIN_UPDATE=1 writes it anew):\n%s", file, got)
	}
}

// TestNarrow: no line is wider than the terminal, whatever its width; what leaves
// leaves by rank, and what may not leave stays.
func TestNarrow(t *testing.T) {
	for name, table := range examples() {
		for _, width := range []int{200, 120, 80, 60, 40, 20, 1} {
			for line := range strings.Lines(table.Write(FormTable, width, nil)) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
					t.Errorf("%s: %d columns of %d: %s", name, n, width, line)
				}
			}
			left := table.Fit(width)
			lowest := 1 << 30 // rank of those that left
			for _, c := range table.Columns {
				gone := !slices.Contains(left.Names(FormTable), c.Name) && !c.Wide
				if gone && c.Rank == 0 {
					t.Errorf("%s: %s left at %d", name, c.Name, width)
				}
				if gone {
					lowest = min(lowest, c.Rank)
				}
			}
			for _, c := range left.Columns {
				if !c.Wide && c.Rank > lowest {
					t.Errorf("%s: %s of rank %d stays at %d, one of rank %d left", name, c.Name, c.Rank, width, lowest)
				}
			}
		}
		if len(table.Rows) == 0 || len(table.Columns) != len(table.Rows[0]) {
			t.Errorf("%s has no rows, or other cells than columns", name)
		}
	}
}

// TestTableOfOthers: what others named cannot move the cursor, and a column is as
// wide as what is shown.
func TestTableOfOthers(t *testing.T) {
	table := NewTable("NAME", "STATE")
	table.Add("\x1b[2J\u202eevil\n", "alive")
	table.Add(strings.Repeat("é", 20), "ok")
	text := table.Write(FormTable, 0, func(word string) string {
		if ToneOf(word) == Good {
			return "<" + word + ">"
		}
		return word
	})
	want := "NAME                  STATE\n" +
		"\uFFFD[2J\uFFFDevil\uFFFD            <alive>\n" +
		"éééééééééééééééééééé  <ok>\n"
	if text != want {
		t.Errorf("%q\nwant %q", text, want)
	}
}
