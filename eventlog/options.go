package eventlog

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/stamps"
	"github.com/skein-project/skein/eventlog/wire"
)

// Options configure a Log. Fields without a stated default are required.
type Options struct {
	// Dir holds the log; it is created if it is not there. One process may
	// have it open.
	Dir string
	// Cluster is the cluster id, at most record.MaxCluster bytes.
	Cluster string
	// Self and Incarnation name the own chain. If the disk holds a higher
	// incarnation of this host, that one goes on. Incarnation 0 means 1.
	Self        cluster.NodeID
	Incarnation uint64
	// Key signs the own heads.
	Key ed25519.PrivateKey
	// KeyOf returns the identity key of a member, nil if it knows none. It
	// must not block. nil: only the own key is known.
	KeyOf func(cluster.NodeID) ed25519.PublicKey

	// MayAct says whether this host holds the lease in a term now. It is
	// asked for each draft with a term, and must not block. nil: never.
	MayAct func(cluster.Term) bool
	// Promised returns the term that this host, as a voter, has promised
	// last. A push that carries authority of a lower term is stored and its
	// acknowledgement refused. While it is replicate.Abstaining no term is promised and
	// none acknowledged. nil: 0.
	Promised func() cluster.Term

	// Said is what a peer said of its log a moment ago, the Digest of it: who
	// has the same is not asked. nil: whoever is due is asked.
	Said func(cluster.NodeID) (digest [16]byte, ok bool)
	// Dial opens a stream of Proto to another host. nil: no replication.
	Dial func(ctx context.Context, to cluster.NodeID) (net.Conn, error)
	// Follow does so for what this host reads of others for itself, which can wait: it may
	// refuse a host that did not answer lately. nil: Dial does.
	Follow func(ctx context.Context, to cluster.NodeID) (net.Conn, error)
	// RTT is the round trip to a host, by which it is waited for longer; 0: not known. nil: of
	// none it is.
	RTT func(cluster.NodeID) time.Duration
	// Peers lists the hosts to pull from. nil: none.
	Peers func() []cluster.NodeID
	// Near lists those of them that are in the zone of this host, if not all are. nil: none.
	Near func() []cluster.NodeID

	// OnPoison is called from the writer when an I/O error ends writing, each
	// time. It must not block.
	OnPoison func(error)
	// OnEquivocation is called when a source is proven to have signed two
	// histories; found says that it was this host that found out. It must not
	// block.
	OnEquivocation func(f wire.Fork, found bool)

	// OnAhead is called when a chain of another host is found to run ahead of
	// Wall by more than stamps.Limit, so that its events are refused. It must not
	// block.
	OnAhead func(stamps.Chain)

	// OnDisk is called when the state of the disk changes. It must not block.
	OnDisk func(disk.Report)

	// Wall is the wall clock. Default time.Now.
	Wall func() time.Time
	// Stamp is the wall clock by which own events are stamped, where that
	// needs more care; the writer alone calls it. Default Wall.
	Stamp func() time.Time
	// Float returns random numbers in [0,1) for jitter and choice. Default
	// rand.Float64.
	Float func() float64
	// FS default disk.OSFS().
	FS disk.FS

	// Free returns how many bytes the file system of dir has left, and a
	// negative number where that means nothing. Default: statfs.
	Free func(dir string) (int64, error)

	// LowWater and Reserve are bytes that the file system should have left: at
	// LowWater Disk warns; the last Reserve is kept for what ends work and
	// passes the lease on. A quarter of Reserve is a file, so that other
	// programs cannot take it. 0: neither is looked at.
	LowWater, Reserve int64
	// MaxBytes is how large the segments may become before the disk counts as
	// full. 0: not limited.
	MaxBytes int64
	// SourceBytes is how much the log takes from one other host. 0: three
	// quarters of what there is room for.
	SourceBytes int64
	// SourceRate is how many bytes a second the log takes from one other host
	// in the long run, default 64 MiB; a start of 8 times that is free.
	SourceRate int64

	// SegmentSize is the size at which a segment is sealed, default 64 MiB.
	SegmentSize int64
	// Prealloc is the largest step of preallocation, default 4 MiB. Small
	// segments grow in smaller steps.
	Prealloc int64
	// IntakeBytes bounds what waits for the writer, default 16 MiB. An
	// eighth of it is kept for essential drafts, see event.Kind; of the rest
	// neither this host nor the others can take all.
	IntakeBytes int64
	// ReopenAfter is how long after an I/O error the log is opened again for
	// the first time, default 1 s; the pause doubles with each error that
	// follows soon, up to 30 s. Negative: Run ends with the error.
	ReopenAfter time.Duration
	// PullEvery is the period of pulling from a random peer, default 1 s,
	// for a voter 5 times that. Negative: never.
	PullEvery time.Duration
	// SnapshotEvents and SnapshotBytes are how much may be logged since the
	// last snapshot before the holder takes one, default 200 000 and 256 MiB.
	// Negative events: only TakeSnapshot takes them; negative bytes: their
	// number does not matter.
	SnapshotEvents, SnapshotBytes int64
	// SnapshotCheck is how often to look whether a snapshot is due, one can be
	// made, or segments can be dropped, default 5 s.
	SnapshotCheck time.Duration
	// RetainBytes is the size of the log up to which nothing is dropped, default
	// 8 GiB, and RetainAge how old an event must be at least. Only events are
	// ever dropped whose fold is in a snapshot. Negative bytes: never.
	RetainBytes int64
	RetainAge   time.Duration
	// IndexDir is where the index of events lies. Empty: there is none, and
	// whoever looks for events about something reads the whole log.
	IndexDir string
	// Paused says that the host has too much to do: what can wait does. nil: never.
	Paused func() bool
	// IndexEvery is the least time from one look at what there is to index to the
	// next, default 5 s.
	IndexEvery time.Duration
	// ArchiveDir is where segments go before they are dropped. Empty: nowhere.
	ArchiveDir string
	// IOTimeout bounds each wait for another host, default 5 s.
	IOTimeout time.Duration

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // may be nil
}

func (o Options) withDefaults() Options {
	if o.Incarnation == 0 {
		o.Incarnation = 1
	}
	if o.KeyOf == nil {
		o.KeyOf = func(cluster.NodeID) ed25519.PublicKey { return nil }
	}
	if o.MayAct == nil {
		o.MayAct = func(cluster.Term) bool { return false }
	}
	if o.Promised == nil {
		o.Promised = func() cluster.Term { return 0 }
	}
	if o.Peers == nil {
		o.Peers = func() []cluster.NodeID { return nil }
	}
	if o.OnPoison == nil {
		o.OnPoison = func(error) {}
	}
	if o.OnEquivocation == nil {
		o.OnEquivocation = func(wire.Fork, bool) {}
	}
	if o.OnAhead == nil {
		o.OnAhead = func(stamps.Chain) {}
	}
	if o.OnDisk == nil {
		o.OnDisk = func(disk.Report) {}
	}
	if o.Free == nil {
		o.Free = disk.FreeBytes
	}
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.Stamp == nil {
		o.Stamp = o.Wall
	}
	if o.Float == nil {
		o.Float = rand.Float64
	}
	if o.FS == nil {
		o.FS = disk.OSFS()
	}
	o.SegmentSize = orDefault(o.SegmentSize, 64<<20)
	o.Prealloc = orDefault(o.Prealloc, 4<<20)
	o.IntakeBytes = orDefault(o.IntakeBytes, 16<<20)
	o.SourceRate = orDefault(o.SourceRate, 64<<20)
	o.ReopenAfter = orDefault(o.ReopenAfter, time.Second)
	o.PullEvery = orDefault(o.PullEvery, time.Second)
	o.SnapshotEvents = orDefault(o.SnapshotEvents, 200_000)
	o.SnapshotBytes = orDefault(o.SnapshotBytes, 256<<20)
	o.SnapshotCheck = orDefault(o.SnapshotCheck, 5*time.Second)
	o.IndexEvery = orDefault(o.IndexEvery, 5*time.Second)
	o.RetainBytes = orDefault(o.RetainBytes, 8<<30)
	o.IOTimeout = orDefault(o.IOTimeout, 5*time.Second)
	return o
}

func orDefault[T ~int64](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

func (o Options) validate() error {
	if _, err := cluster.ParseNodeID(string(o.Self)); err != nil {
		return fmt.Errorf("event log options: self: %w", err)
	}
	switch {
	case o.Dir == "":
		return fmt.Errorf("event log options: no directory")
	case o.Cluster == "" || len(o.Cluster) > record.MaxCluster:
		return fmt.Errorf("event log options: cluster id of %d bytes", len(o.Cluster))
	case len(o.Key) != ed25519.PrivateKeySize:
		return fmt.Errorf("event log options: identity key of %d bytes", len(o.Key))
	case o.SegmentSize < 4096 || o.SegmentSize > 1<<31:
		return fmt.Errorf("event log options: segment size %d", o.SegmentSize)
	case o.SnapshotCheck < 0 || o.RetainAge < 0:
		return fmt.Errorf("event log options: negative snapshot check or retention age")
	case o.Prealloc < 0 || o.IntakeBytes < 1024 || o.IOTimeout < 0:
		return fmt.Errorf("event log options: negative or too small limit")
	case o.LowWater < 0 || o.Reserve < 0 || o.MaxBytes < 0 || o.SourceBytes < 0 || o.SourceRate < 0:
		return fmt.Errorf("event log options: negative limit of the disk")
	}
	return nil
}
