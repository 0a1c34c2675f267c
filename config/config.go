package config

import (
	"net/netip"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/discover/source"
)

// Config is the whole configuration, checked. Load makes it. A daemon keeps it
// in a Current and hands Fixed to its parts, so that nobody reads what a reload
// changes from where a reload does not reach.
type Config struct {
	Fixed
	Live Live

	origin map[string]Origin // by key; absent: default
}

// Fixed holds the keys whose change needs a restart.
type Fixed struct {
	StateDir   string
	Node       Node
	Mesh       Mesh
	Join       Join
	Lease      Lease
	Log        Log
	EventLog   EventLog
	Worker     Worker
	Exec       Exec
	Status     Status
	Jobs       Jobs
	Tor        Tor
	Onion      Onion
	API        API
	Gateway    Gateway
	Redis      Redis
	Centrifugo Centrifugo
	Postgres   Postgres
}

// Live holds the keys that a reload changes.
type Live struct {
	// Zone and Priority are of [node].
	Zone     string
	Priority uint32
	// Advertise is where others reach mesh.listen; empty: the addresses of this
	// machine's interfaces.
	Advertise []netip.AddrPort
	MTU       int // of the mesh; 0: as large as the underlay allows
	// ProbeMTU looks for paths that drop full-size packets.
	ProbeMTU bool
	// NamesFile gets the members' names and addresses; empty: none.
	NamesFile string
	// Peers are static endpoints of the mesh.
	Peers map[cluster.NodeID][]netip.AddrPort
	// Eligible lets this host hold the lease.
	Eligible bool
	// Tolerance bounds how far off the time of a message may be.
	Tolerance time.Duration
	LogLevel  string // trace, debug, info, warn, error
	// GroupsFile says who belongs to the groups of permissions; empty: none.
	GroupsFile string
	// GroupsURL is where groups are fetched from, GroupsCredential the file of the
	// token for that; empty: none.
	GroupsURL, GroupsCredential string
	// Accept is whose jobs this host runs, AcceptNames who or what groups that are.
	Accept      job.Accept
	AcceptNames []string
	// OnionWeight is this host's share of the introduction points.
	OnionWeight uint32
	// OverloadEnabled lets overload have consequences, which begins where work waits for
	// OverloadDelayMS.
	OverloadEnabled bool
	OverloadDelayMS int64
	LoadTests       LoadTests
}

// Node is [node]: what this host is.
type Node struct {
	Name      cluster.NodeID // or a pattern of names, see cluster.MatchHostName
	Witness   bool
	Ephemeral bool
}

// Mesh is [mesh].
type Mesh struct {
	Backend string // auto, kernel, tun, netstack
	// Interface is the name of a kernel or TUN device.
	Interface string
	Listen    netip.AddrPort
}

// Join is [join]: the listener that admits new hosts.
type Join struct {
	Listen   netip.AddrPort  // never zero after Load
	Discover []source.Source // where endpoints of hosts are looked for
}

// Lease is [lease].
type Lease struct {
	Profile cluster.Profile
	Mode    cluster.Mode
	// MaxVoters is how many voters the holder chooses; 0: as many as fit.
	MaxVoters int
}

// Log is [log].
type Log struct {
	Format string // auto, json, console
}

// EventLog is [eventlog].
type EventLog struct {
	SegmentBytes int64
	// LowWater and Reserve are bytes that the disk should have left.
	LowWater, Reserve int64
	// MaxBytes bounds the whole log, SourceBytes what it takes from one other
	// host; 0: as large as the disk allows.
	MaxBytes, SourceBytes int64

	SnapshotEvents int64  // 0: never by itself
	RetainBytes    int64  // 0: everything
	RetainDays     int    // at least
	ArchiveDir     string // empty: dropped segments are deleted
}

// Worker is [worker].
type Worker struct {
	Slots       int // never zero after Load
	MemoryBytes uint64
	Queue       int
}

// Status is [status]: the local socket.
type Status struct {
	Socket string
	Listen netip.AddrPort // zero: no TCP listener
	// UI serves the page there as well.
	UI bool
	// Group is the group whose members may change things.
	Group string
}

// Names are those under which the listener is asked for.
func (s Status) Names() []string {
	at := s.Listen.Addr().WithZone("").String()
	if s.Listen.Addr().IsLoopback() {
		return []string{at, "localhost"}
	}
	return []string{at}
}

// Jobs is [jobs].
type Jobs struct {
	// ArtefactBytes bounds what uploads may take on disk.
	ArtefactBytes int64
	// LogBytes and LogDays bound what attempts wrote to standard error and that is kept
	// on this host, OutputBytes the copies of what jobs left, OutputCopies how many hosts
	// have each.
	LogBytes     int64
	LogDays      int
	OutputBytes  int64
	OutputCopies int
	// WorkerResults bounds the results per second that one worker is given
	// work for; 0: nothing does, as with the others.
	WorkerResults int
	// OwnerJobs and OwnerChunks bound what one owner submits per second.
	OwnerJobs, OwnerChunks int
	// Open bounds the open jobs, OwnerOpen those of one owner.
	Open, OwnerOpen int
	// LogStarts says which starts of chunks are logged: auto, always or never.
	LogStarts string
}

// Origin says where a value came from.
type Origin string

// Origins, weakest first.
const (
	FromDefault Origin = "default"
	FromFile    Origin = "file"
	FromEnv     Origin = "env"
	FromFlag    Origin = "flag"
)
