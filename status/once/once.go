package once

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/skein-project/skein/api"
)

// Bounds of a Keeper.
const (
	MaxKey  = 128              // bytes of a key
	kept    = 10 * time.Minute // since the answer
	most    = 1024             // of all
	mostOne = 64               // of one who asks
)

// Request is what is asked for.
type Request struct {
	Who  string // an actor
	What string // method and path
	Key  string // chosen by who
	Body []byte
}

type id struct{ who, what, key string }

// entry is an answer that is there once done is closed.
type entry struct {
	body   [sha256.Size]byte
	done   chan struct{}
	answer any
	err    error
	at     time.Time // of the answer
}

// Keeper keeps answers for a while.
type Keeper struct {
	mu   sync.Mutex
	list map[id]*entry
	of   map[string]int // entries of one
}

// New returns an empty Keeper.
func New() *Keeper { return &Keeper{list: map[id]*entry{}, of: map[string]int{}} }

// CheckKey says what is wrong with a key.
func CheckKey(key string) *api.Problem {
	if len(key) > MaxKey {
		return api.Errorf(api.CodeInvalidRequest, "Idempotency-Key has %d bytes, at most %d are allowed", len(key), MaxKey)
	}
	for _, c := range []byte(key) {
		if c < ' ' || c > '~' {
			return api.Errorf(api.CodeInvalidRequest, "Idempotency-Key has a byte that is no printable ASCII")
		}
	}
	return nil
}

// Do carries out a request, unless one like it is under way, for whose answer it waits,
// or was answered without an error lately. The same key with another body is refused
// with code conflict.
func (k *Keeper) Do(ctx context.Context, r Request, do func() (any, error)) (any, error) {
	e, mine, err := k.enter(r)
	if err != nil {
		return nil, err
	}
	if mine {
		e.err = errLost // if do panics
		defer k.leave(r, e)
		e.answer, e.err = do()
		return e.answer, e.err
	}
	select {
	case <-e.done:
		return e.answer, e.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var errLost = api.Errorf(api.CodeInternal, "the request that was under way did not end")

func (k *Keeper) enter(r Request) (e *entry, mine bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	for i, e := range k.list {
		if !e.at.IsZero() && now.Sub(e.at) > kept {
			k.drop(i)
		}
	}
	key, body := id{r.Who, r.What, r.Key}, sha256.Sum256(r.Body)
	if e := k.list[key]; e != nil {
		if e.body != body {
			return nil, false, api.Errorf(api.CodeConflict, "Idempotency-Key %q was used for another body", r.Key).WithHint("take a new key for each change")
		}
		return e, false, nil
	}
	if len(k.list) >= most || k.of[r.Who] >= mostOne {
		p := api.Errorf(api.CodeOverloaded, "%d answers are kept under keys, %d of them for %s", len(k.list), k.of[r.Who], r.Who).
			WithHint("wait, or ask without Idempotency-Key")
		p.RetryAfterSeconds = new(kept.Seconds())
		return nil, false, p
	}
	e = &entry{body: body, done: make(chan struct{})}
	k.list[key] = e
	k.of[r.Who]++
	return e, true, nil
}

// leave tells those that wait. What failed may be tried again.
func (k *Keeper) leave(r Request, e *entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e.at = time.Now()
	if e.err != nil {
		k.drop(id{r.Who, r.What, r.Key})
	}
	close(e.done)
}

func (k *Keeper) drop(i id) {
	delete(k.list, i)
	if k.of[i.who]--; k.of[i.who] == 0 {
		delete(k.of, i.who)
	}
}
