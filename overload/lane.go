package overload

// Lane says how urgent a request, a remote operation or a stream is. The zero value
// is none: tests fail on whatever has no lane.
type Lane uint8

// Lanes, the most urgent first. What stands later is shed first.
const (
	Unset Lane = iota
	// Vital things are never refused, nor limited: heartbeats, votes, the log's
	// replication, results. Their senders wait.
	Vital
	// Control is what ends an overload, or shows it: stops, drains, the lease, how the
	// host is. It is never shed, and has places of its own.
	Control
	// Assign is what gets work to workers.
	Assign
	// Submit makes work.
	Submit
	// Status reads one thing, or changes one that is no work.
	Status
	// List reads many, or follows something.
	List
	// Telemetry is about the past: charts, replays, statistics.
	Telemetry
	// Carried counts as what it carries, which is looked at when it is unpacked.
	Carried
)

var lanes = [...]string{"unset", "vital", "control", "assign", "submit", "status", "list", "telemetry", "carried"}

// String implements fmt.Stringer.
func (l Lane) String() string {
	if int(l) >= len(lanes) {
		return "unknown"
	}
	return lanes[l]
}

// Known says that l is one of the lanes.
func (l Lane) Known() bool { return l > Unset && l <= Carried }

// Limited lists the lanes of which only so many requests run at once.
func Limited() []Lane { return []Lane{Control, Assign, Submit, Status, List, Telemetry} }

// shedFrom says from which level on a lane is refused; others never are. A host whose
// processors are full of chunks is elevated, and people look at it then, so nothing is
// refused before high.
var shedFrom = map[Lane]Level{Telemetry: High, List: High, Status: Severe, Submit: Severe, Assign: Critical}

// ShedFrom is the level from which on requests of a lane are refused, Status where the host is
// strained as well; false: they never are.
func (l Lane) ShedFrom() (Level, bool) {
	from, ok := shedFrom[l]
	if l == Status {
		from = High
	}
	return from, ok
}

// Load is what is refused by: the level and, at high, whether the host is strained, which goes
// from it toward severe: then it tells nobody how single things are, and takes work still.
type Load struct {
	Level    Level
	Strained bool
}

// Sheds says that requests of a lane are refused.
func (l Load) Sheds(lane Lane) bool {
	return l.Level.Sheds(lane) || lane == Status && l.Strained && l.Level == High
}

// Sheds says that requests of a lane are refused at this level, strained or not.
func (l Level) Sheds(lane Lane) bool {
	from, ok := shedFrom[lane]
	return ok && l >= from
}
