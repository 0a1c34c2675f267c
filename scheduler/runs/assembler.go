package runs

import (
	"context"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/flow"
	decide "github.com/skein-project/skein/scheduler/flow"
)

const (
	maxDocs = 64
	// storeTime bounds how long one document takes to be stored.
	storeTime = 30 * time.Second
)

// Store puts a config document where the job that needs it finds it, also when this host
// is lost.
type Store func(ctx context.Context, doc []byte) (cluster.Hash, error)

// doc is a config document for a try.
type doc struct {
	run  flow.RunID
	name decide.Name
	text []byte
}

// Stored is what became of one, or of the search for the files of a try.
type Stored struct {
	run    flow.RunID
	name   decide.Name
	config cluster.Hash
	err    error

	looked bool // it was a search
	lost   []cluster.Hash
	values map[string][]byte // not nil: what a provider left
}

type assembler struct {
	store Store
	in    chan doc
	out   chan Stored
}

func newAssembler(store Store) *assembler {
	return &assembler{store: store, in: make(chan doc, maxDocs), out: make(chan Stored, maxDocs)}
}

// put hands a document over, if there is room.
func (a *assembler) put(d doc) bool {
	select {
	case a.in <- d:
		return true
	default:
		return false
	}
}

// run stores documents until ctx ends.
func (a *assembler) run(ctx context.Context) {
	for {
		var d doc
		select {
		case d = <-a.in:
		case <-ctx.Done():
			return
		}
		within, cancel := context.WithTimeout(ctx, storeTime)
		hash, err := a.store(within, d.text)
		cancel()
		select {
		case a.out <- Stored{run: d.run, name: d.name, config: hash, err: err}:
		case <-ctx.Done():
			return
		}
	}
}
