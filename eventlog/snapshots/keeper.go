package snapshots

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/snapshot"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/eventlog/wire"
	"github.com/skein-project/skein/internal/wait"
)

var (
	// ErrNotHolder says that only the holder takes snapshots.
	ErrNotHolder = errors.New("not the holder of the lease")
	// ErrSnapshot is wrapped when a snapshot could not be taken or is not
	// believed.
	ErrSnapshot = errors.New("snapshot not usable")

	errClosed = errors.New("log closed")
	errLease  = errors.New("lease lost")
	errBusy   = errors.New("the log's files are being read")
)

// Log is the log that the snapshots are of.
type Log interface {
	Append(ctx context.Context, drafts []event.Draft) ([]event.Event, error)
	// View calls f with the fold of all durable events.
	View(f func(*state.State))
	// Exclusive runs f in the place of the writer, with nothing staged or in
	// flight. refused is its answer; failed says that it is unknown what is on
	// the disk, and ends writing.
	Exclusive(ctx context.Context, f func(*store.Writer) (refused, failed error)) error
	// GoOn makes st, which goes on from base and lacks only the last events, the
	// fold of the log. Only f of Exclusive may call it.
	GoOn(st *state.State, base *event.SnapshotTaken) error
}

// Network reaches the other hosts.
type Network interface {
	Dial(ctx context.Context, to cluster.NodeID) (Conn, error)
	// Level fetches all that from holds.
	Level(ctx context.Context, from cluster.NodeID) error
	// OwnElsewhere begins a new incarnation of the own chain if heads say that
	// others hold more of it than this disk.
	OwnElsewhere(ctx context.Context, heads []event.Head) (renewed bool, err error)
	// Voters is who votes now, as far as is known.
	Voters() cluster.VoterConfig
	// Blame counts what a peer sent and this host refused.
	Blame(reason string)
}

// Conn is a stream to another host.
type Conn interface {
	Ask(kind wire.Type, question []byte) (wire.Message, error)
	Close()
}

// Options configure a Keeper. All fields but ArchiveDir and Registerer are
// required.
type Options struct {
	Dir      string // of the log
	Cluster  string
	Self     cluster.NodeID
	Key      ed25519.PrivateKey
	MayAct   func(cluster.Term) bool
	Promised func() cluster.Term
	Wall     func() time.Time
	Float    func() float64
	FS       disk.FS
	Store    *store.Store
	Room     *disk.Room
	Log      Log
	Network  Network
	// Repairing says that this host had events which it now lacks: what others
	// retain of them is to come back.
	Repairing func() bool
	// Paused says that the host has too much to do: no snapshot is taken that nobody asked
	// for, and nothing dropped while there is room. nil: never.
	Paused func() bool

	// Events and Bytes are how much may be logged since the last snapshot before
	// the holder takes one. Negative events: only Take takes them; negative
	// bytes: their number does not matter.
	Events, Bytes int64
	Check         time.Duration // how often to look whether there is something to do
	RetainBytes   int64         // up to this size of the log nothing is dropped; negative: nothing ever is
	RetainAge     time.Duration // younger events are not dropped
	ArchiveDir    string        // where segments go before they are dropped; empty: nowhere
	IOTimeout     time.Duration

	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

// Keeper takes, makes, fetches and serves snapshots, and drops what they make
// superfluous. Its goroutine does one thing at a time, so that at most one state
// is folded beside the log's own.
type Keeper struct {
	o       Options
	m       *metrics
	log     zerolog.Logger
	files   Files
	catalog *catalog
	ledger  *ledger
	folder  *folder
	signing *signing
	fetcher *fetcher
	compact *compactor

	wishes wishes

	unfinished []string // files of an interrupted process

	// The goroutine's.
	gaps      int       // how often in a row events of a noted snapshot were missing
	notBefore time.Time // no snapshot is taken for size before
}

// New returns a Keeper that knows nothing until Open.
func New(o Options) (*Keeper, error) {
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	log := o.Logger.With().Str("component", "eventlog").Logger()
	k := &Keeper{o: o, m: m, log: log, files: Files{FS: o.FS, Dir: o.Dir, Cluster: o.Cluster}}
	k.catalog = &catalog{cluster: o.Cluster, m: m, log: log, wake: make(chan struct{}, 1), refused: map[cluster.Hash]string{}}
	k.ledger = &ledger{files: k.files, manifest: &snapshot.Manifest{Cluster: o.Cluster}}
	k.folder = &folder{st: o.Store, files: k.files, catalog: k.catalog, log: log}
	k.signing = &signing{o: &k.o, catalog: k.catalog, folder: k.folder, m: m}
	k.fetcher = &fetcher{o: &k.o, k: k}
	k.compact = &compactor{o: &k.o, m: m, log: log, catalog: k.catalog, ledger: k.ledger}
	return k, nil
}

// Run looks after snapshots until ctx ends: at once when there is something
// to do, and now and then.
func (k *Keeper) Run(ctx context.Context) {
	tick := wait.NewTicker(k.o.Check)
	defer tick.Stop()
	defer func() { grant(k.wishes.take(), nil, errClosed) }()
	for {
		k.step(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			tick.Next()
		case <-k.catalog.wake:
		}
	}
}

// step does what there is to do.
func (k *Keeper) step(ctx context.Context) {
	for _, do := range []struct {
		name string
		f    func(context.Context) error
	}{
		{"sign", k.signing.judge},
		{"make", k.adopt},
		{"fetch", k.fetcher.fetch},
		{"take", k.take},
		{"compact", k.drop},
	} {
		if ctx.Err() != nil {
			return
		}
		err := do.f(ctx)
		if err != nil && ctx.Err() == nil {
			level := zerolog.DebugLevel
			if k.catalog.failed(do.name, err) {
				level = zerolog.WarnLevel
			}
			k.log.WithLevel(level).Err(err).Str("doing", do.name).Msg("snapshot")
		}
	}
}

// Note looks for snapshots among durable events. It does not block.
func (k *Keeper) Note(events []event.Event) { k.catalog.note(events) }

// Grew notes that the log got longer by n bytes.
func (k *Keeper) Grew(n int64) { k.catalog.grew(n) }

// Missed looks at why a fetch from peer ended early: if the peer has dropped
// what this log lacks, its snapshot is fetched.
func (k *Keeper) Missed(peer cluster.NodeID, err error) {
	if errors.Is(err, wire.ErrDropped) {
		k.fetcher.want(peer)
	}
}

// Lacks says that events were dropped here and no snapshot holds them: the state
// is not known, see Want.
func (k *Keeper) Lacks() bool {
	t, m := k.catalog.newest(), k.ledger.now()
	return len(m.Bases) > 0 && (t == nil || !k.ledger.within(t))
}

// Want fetches the newest snapshot of peer if this log Lacks one.
func (k *Keeper) Want(peer cluster.NodeID) {
	if k.Lacks() {
		k.fetcher.want(peer)
	}
}

// Hold keeps files of the log from being dropped until done is called.
func (k *Keeper) Hold() (done func()) {
	k.compact.files.RLock()
	return k.compact.files.RUnlock
}

// Refold folds into st, again, the snapshot base, which is on disk, and all
// events after it up to heads.
func (k *Keeper) Refold(st *state.State, base *event.SnapshotTaken, heads []event.Head) error {
	return k.folder.refold(st, base, heads)
}

// wishes are the callers that wait for a snapshot.
type wishes struct {
	mu   sync.Mutex
	list []*wish
}

type wish struct {
	actor string
	done  chan struct{} // closed when taken and err are set
	taken *event.SnapshotTaken
	err   error
}

func (w *wishes) add(o *wish) {
	w.mu.Lock()
	w.list = append(w.list, o)
	w.mu.Unlock()
}

func (w *wishes) drop(o *wish) {
	w.mu.Lock()
	w.list = slices.DeleteFunc(w.list, func(x *wish) bool { return x == o })
	w.mu.Unlock()
}

// take takes over who waits.
func (w *wishes) take() []*wish {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.list
	w.list = nil
	return list
}

func grant(list []*wish, t *event.SnapshotTaken, err error) {
	for _, w := range list {
		w.taken, w.err = t, err
		close(w.done)
	}
}

// Take takes a snapshot now and returns it when this log goes on from it. Only
// the holder can, see ErrNotHolder. The event says that actor asked. It may take
// as long as the voters need to fold the log.
func (k *Keeper) Take(ctx context.Context, actor string) (Info, error) {
	if _, err := k.holding(); err != nil {
		return Info{}, err
	}
	w := &wish{actor: actor, done: make(chan struct{})}
	k.wishes.add(w)
	k.catalog.poke()
	select {
	case <-w.done:
		if w.err != nil {
			return Info{}, w.err
		}
		return infoOf(w.taken), nil
	case <-ctx.Done():
		k.wishes.drop(w)
		return Info{}, fmt.Errorf("take a snapshot: %w", context.Cause(ctx))
	}
}

// Status is what a log tells of its snapshots.
type Status struct {
	Kept        []Info `json:"kept"` // the newest last
	Since       uint64 `json:"events_since"`
	Reclaimable int64  `json:"reclaimable_bytes"` // of segments below the older kept snapshot
	Dropped     uint64 `json:"events_dropped"`
	Archived    int    `json:"segments_archived"`
	// Refused are the latest events that have no effect since they would change
	// what a snapshot holds, and RefusedEvents how many there are.
	RefusedEvents uint64          `json:"refused_events"`
	Refused       []state.Refusal `json:"refused,omitempty"`
	// Trouble is what failed last, empty if nothing did since the last success.
	Trouble string `json:"trouble,omitempty"`
	// Mismatch says that this host and others fold the same events to
	// different states.
	Mismatch string `json:"mismatch,omitempty"`
}

// Info describes one snapshot.
type Info struct {
	ID      cluster.Hash     `json:"id"`
	Term    cluster.Term     `json:"term"`
	Events  uint64           `json:"events"` // that it stands for
	Clock   cluster.HLC      `json:"clock"`  // of the last of them
	Bytes   int64            `json:"bytes"`
	State   cluster.Hash     `json:"state_hash"`
	Signers []cluster.NodeID `json:"signers"`
}

func infoOf(t *event.SnapshotTaken) Info {
	info := Info{ID: t.ID, Term: t.Term, Events: snapshot.Events(t), Clock: t.Clock, Bytes: t.Size, State: t.State}
	for _, sig := range t.Signatures {
		info.Signers = append(info.Signers, sig.Node)
	}
	return info
}

// Status tells what snapshots there are and what could be dropped.
func (k *Keeper) Status() Status {
	total := uint64(0)
	for _, h := range k.o.Store.Heads() {
		total += h.Seq
	}
	st := Status{Kept: []Info{}, Since: total, Archived: k.ledger.archived(), Reclaimable: k.compact.reclaimable.Load()}
	for _, n := range k.o.Store.Oldest() {
		st.Dropped += n
	}
	k.o.Log.View(func(fold *state.State) { st.RefusedEvents, st.Refused = fold.Refused() })
	c := k.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.kept {
		st.Kept = append(st.Kept, infoOf(t))
		st.Since = total - min(total, snapshot.Events(t))
	}
	st.Trouble, st.Mismatch = c.trouble, c.mismatch
	return st
}

// paused reports whether work that nobody waits for has to wait.
func (k *Keeper) paused() bool { return k.o.Paused != nil && k.o.Paused() }

// drop drops what is superfluous, unless the host has too much to do and there is room.
func (k *Keeper) drop(ctx context.Context) error {
	if k.paused() && k.o.Room.Report().State == disk.OK {
		return nil
	}
	return k.compact.run(ctx)
}
