package audit

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/eventlog/wire"
)

// MenderOptions configure a Mender. All fields but Repairs are required.
type MenderOptions struct {
	Dir     string // of the log
	Store   *store.Store
	Repairs []Repairing // what is to be fetched
	// Receive takes in a run as if a peer had sent it.
	Receive func(ctx context.Context, run []byte) (*wire.Run, error)
	// Lacks says that no snapshot holds what was dropped.
	Lacks func() bool
	// Voters and Peers are the hosts that may have what is missing; Peers can be
	// reached.
	Voters func() cluster.VoterConfig
	Peers  func() []cluster.NodeID
	Logger zerolog.Logger
}

// Mender fetches again what a Repair found missing.
type Mender struct {
	o MenderOptions

	mu      sync.Mutex
	list    []Repairing             // what is still to be fetched
	dropped map[cluster.NodeID]bool // hosts that no longer have all of it
	since   time.Time               // when the first of them said so
}

// NewMender returns a Mender of an open log.
func NewMender(o MenderOptions) *Mender {
	return &Mender{o: o, list: o.Repairs, dropped: map[cluster.NodeID]bool{}}
}

// Repairing returns the chains of which something is still to be fetched after
// a Repair.
func (m *Mender) Repairing() []Repairing {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.list)
}

// Missing says whether events or the state that this host had are not here yet.
func (m *Mender) Missing(r Repairing) bool {
	if r.State {
		return m.o.Lacks()
	}
	return m.o.Store.Head(r.Source).Seq < r.Known
}

// droppedPatience is how long a voter that cannot be reached is waited for, as
// the only one that may still have what is missing.
const droppedPatience = 30 * time.Second

// Dropped notes that peer no longer has all that is missing here. It reports
// whether that is true of everybody, so that a snapshot must stand for it.
func (m *Mender) Dropped(peer cluster.NodeID) bool {
	peers, cfg := m.o.Peers(), m.o.Voters()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.list) == 0 {
		return true
	}
	if len(m.dropped) == 0 {
		m.since = time.Now()
	}
	m.dropped[peer] = true
	has := func(n cluster.NodeID) bool { return n != m.o.Store.Source().Node && !m.dropped[n] }
	if slices.ContainsFunc(peers, has) {
		return false
	}
	return !slices.ContainsFunc(cfg.Voters, has) || time.Since(m.since) > droppedPatience
}

// Mend fetches with fetch what a Repair found missing, and takes what fits behind
// from the files that it set aside. fetch is nil where these are all there is.
// It returns what is still missing. The own chain, if it was damaged, is complete
// when its new incarnation has begun too.
func (m *Mender) Mend(ctx context.Context, fetch func(context.Context) error) ([]Repairing, error) {
	m.salvage(ctx)
	var err error
	if fetch != nil {
		err = fetch(ctx)
		m.salvage(ctx)
	}
	st := m.o.Store
	left := slices.DeleteFunc(m.Repairing(), func(r Repairing) bool {
		return !m.Missing(r) && (!r.Own || st.Source() != r.Source && st.Head(st.Source()).Seq > 0)
	})
	if len(left) < len(m.Repairing()) {
		if err := SaveRepairs(m.o.Dir, left); err != nil {
			return m.Repairing(), err
		}
		m.mu.Lock()
		m.list = left
		m.mu.Unlock()
	}
	return left, err
}

// salvage offers the readable groups of the files set aside to the log, like
// those of a peer: the source's signature decides.
func (m *Mender) salvage(ctx context.Context) {
	for _, r := range m.Repairing() {
		if r.Aside == "" || r.TakenBack {
			continue
		}
		names, err := os.ReadDir(r.Aside)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				m.o.Logger.Warn().Err(err).Str("source", r.Source.String()).Msg("files set aside cannot be read")
			}
			continue
		}
		for _, e := range names {
			b, err := os.ReadFile(filepath.Join(r.Aside, e.Name()))
			if err != nil {
				continue // it is tried again in the next round
			}
			for run := range wire.Groups(b) {
				if ru, err := wire.DecodeRun(run); err == nil && ru.Head.Source == r.Source && ru.Head.Seq > m.o.Store.Head(r.Source).Seq {
					_, _ = m.o.Receive(ctx, run) // what does not fit is not taken
				}
			}
		}
	}
}
