package audit

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/eventlog/wire"
)

// Mender fetches again what a Repair found missing.
type Mender struct {
	dir     string
	store   *store.Store
	receive func(ctx context.Context, run []byte) (*wire.Run, error)
	log     zerolog.Logger

	mu   sync.Mutex
	list []Repairing // what is still to be fetched
}

// NewMender returns a Mender of the log in dir. receive takes in a run as if a
// peer had sent it.
func NewMender(dir string, st *store.Store, list []Repairing, receive func(context.Context, []byte) (*wire.Run, error), log zerolog.Logger) *Mender {
	return &Mender{dir: dir, store: st, list: list, receive: receive, log: log}
}

// Repairing returns the chains of which something is still to be fetched after
// a Repair.
func (m *Mender) Repairing() []Repairing {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.list)
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
	left := slices.DeleteFunc(m.Repairing(), func(r Repairing) bool {
		return m.store.Head(r.Source).Seq >= r.Known && (!r.Own || m.store.Source() != r.Source && m.store.Head(m.store.Source()).Seq > 0)
	})
	if len(left) < len(m.Repairing()) {
		if err := SaveRepairs(m.dir, left); err != nil {
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
		names, err := os.ReadDir(r.Aside)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				m.log.Warn().Err(err).Str("source", r.Source.String()).Msg("files set aside cannot be read")
			}
			continue
		}
		for _, e := range names {
			b, err := os.ReadFile(filepath.Join(r.Aside, e.Name()))
			if err != nil {
				continue // it is tried again in the next round
			}
			for run := range wire.Groups(b) {
				if ru, err := wire.DecodeRun(run); err == nil && ru.Head.Source == r.Source && ru.Head.Seq > m.store.Head(r.Source).Seq {
					_, _ = m.receive(ctx, run) // what does not fit is not taken
				}
			}
		}
	}
}
