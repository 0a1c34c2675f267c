package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/scheduler/stream"
)

// Times and bounds of a holder's stream.
const (
	helloTime   = 10 * time.Second
	writeTime   = 10 * time.Second
	statusEvery = 2 * time.Second
	block       = time.Second // for which the pump waits for entries
	entries     = 512         // of one read
	maxFrames   = 1024        // that wait for the holder; then the pump waits
	maxCalls    = 256         // that wait for Redis; then the reader waits
	callsAtOnce = 64          // of one question to Redis
	writeAtOnce = 32 << 10    // bytes of waiting frames that one write takes
	trimEvery   = time.Second
	maxTexts    = 64
)

// holding is one stream of the holder in this process.
type holding struct {
	*Store
	term   string
	holder string
	out    chan stream.Frame
	calls  chan call         // what the holder said, in its order
	last   string            // the entry of in that was read last
	n      uint64            // its number
	told   map[string]uint64 // the number at which the holder was told all of a worker; the pump's
	floors stream.Floors     // the reader's
	texts  map[job.ID]string // specs as the scripts take them; the reader's
}

// call is one of the holder's scripts to run, and what follows from its answer.
type call struct {
	script *script // nil: none
	args   []string
	then   func(answer) error // nil: nothing
}

// errBehind says that entries were dropped before they were read.
var errBehind = errors.New("the holder reads too slowly, or Redis was set back: it is told all anew")

// Dialer returns what opens the stream to the outside workers of a host: those of this host are
// here, unless s is nil, those of others are asked for by dial.
func (s *Store) Dialer(self cluster.NodeID, dial func(context.Context, cluster.NodeID) (net.Conn, error)) func(context.Context, cluster.NodeID) (net.Conn, error) {
	return func(ctx context.Context, to cluster.NodeID) (net.Conn, error) {
		if s != nil && to == self {
			return s.Dial(ctx)
		}
		return dial(ctx, to)
	}
}

// Dial opens the stream of the holder to the outside workers, in this process; it lasts until
// it is closed.
func (s *Store) Dial(ctx context.Context) (net.Conn, error) {
	if _, err := s.client(); err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	go s.Serve(context.WithoutCancel(ctx), theirs) // it ends with its pipe
	return ours, nil
}

// Serve speaks with the holder of this process over conn until the stream ends, then closes
// conn.
func (s *Store) Serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(helloTime))
	in := stream.NewCrewDecoder(conn)
	f, err := in.Read()
	if err != nil || f.Hello == nil {
		return
	}
	h := &holding{
		Store: s, term: fmt.Sprint(uint64(f.Hello.Term)), holder: string(f.Hello.Holder),
		out: make(chan stream.Frame, maxFrames), calls: make(chan call, maxCalls), told: map[string]uint64{}, floors: stream.Floors{},
		texts: map[job.ID]string{},
	}
	if err := h.raise(); err != nil {
		s.log.Warn().Err(err).Uint64("term", uint64(f.Hello.Term)).Msg("outside workers in Redis do not serve this holder")
		_ = stream.Write(conn, stream.Frame{Refused: &stream.Refused{MaxTerm: f.Hello.Term, Reason: job.ReasonOf(err)}}) // it may have gone
		return
	}
	_ = conn.SetDeadline(time.Time{})
	var own sync.WaitGroup
	own.Go(func() { cancel(h.write(ctx, conn)) })
	own.Go(func() { cancel(h.pump(ctx)) })
	obeyed := make(chan struct{})
	own.Go(func() {
		defer close(obeyed)
		if err := h.obey(ctx); err != nil {
			cancel(err)
		}
	})
	for {
		f, err := in.Read()
		if err == nil {
			err = h.frame(ctx, f)
		}
		if err != nil {
			close(h.calls)
			<-obeyed // what the holder said before it went
			cancel(err)
			break
		}
	}
	own.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		s.log.Warn().Err(err).Msg("stream of the holder to outside workers in Redis ended")
	}
}

func (h *holding) raise() error {
	got, err := h.run(h.scripts.raise, h.term, h.holder)
	if err != nil {
		return err
	}
	switch got.what() {
	case "EMPTY":
		h.log.Warn().Msg("Redis is empty: outside workers attach anew, and are given their chunks again")
	case "OK":
	default:
		return fmt.Errorf("fence: %s %.20s", got.what(), got.text(1))
	}
	h.last = got.text(1)
	h.n, err = strconv.ParseUint(got.text(2), 10, 64)
	return err
}

// mine runs one of the holder's scripts.
func (h *holding) mine(x *script, args ...string) (answer, error) {
	got, err := h.run(x, append([]string{h.term, h.holder}, args...)...)
	if err != nil {
		return nil, err
	}
	switch got.what() {
	case "OK", "GONE":
		return got, nil
	}
	return nil, fmt.Errorf("%s: fence: %s %.20s", x.name, got.what(), got.text(1))
}

// mineAll runs some, and returns their answers.
func (h *holding) mineAll(calls []call) ([]answer, error) {
	for i := range calls {
		calls[i].args = append([]string{h.term, h.holder}, calls[i].args...)
	}
	all, err := h.runAll(calls)
	for i, got := range all {
		switch got.what() {
		case "OK", "GONE":
		default:
			return nil, fmt.Errorf("%s: fence: %s %.20s", calls[i].script.name, got.what(), got.text(1))
		}
	}
	return all, err
}

// obey runs what the holder asks for, as much at once as waits, until there is no more.
func (h *holding) obey(ctx context.Context) error {
	calls := make([]call, 0, callsAtOnce)
	for {
		calls = calls[:0]
		select {
		case c, ok := <-h.calls:
			if !ok {
				return nil
			}
			calls = append(calls, c)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	more:
		for len(calls) < callsAtOnce {
			select {
			case c, ok := <-h.calls:
				if !ok {
					break more
				}
				calls = append(calls, c)
			default:
				break more
			}
		}
		all, err := h.mineAll(slices.DeleteFunc(slices.Clone(calls), func(c call) bool { return c.script == nil }))
		if err != nil {
			return err
		}
		for _, c := range calls {
			var got answer
			if c.script != nil {
				got, all = all[0], all[1:]
			}
			if c.then == nil {
				continue
			}
			if err := c.then(got); err != nil {
				return err
			}
		}
	}
}

func (h *holding) ask(ctx context.Context, c call) error {
	select {
	case h.calls <- c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h *holding) say(ctx context.Context, f stream.Frame) error {
	select {
	case h.out <- f:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// write sends the welcome, and then what the pump finds, as much at once as waits.
func (h *holding) write(ctx context.Context, conn net.Conn) error {
	status := time.NewTicker(statusEvery)
	defer status.Stop()
	var enc stream.Encoder
	var buf []byte
	f := stream.Frame{Welcome: &stream.Welcome{Executors: []string{}, Assigned: []job.Attempt{}, Crew: true}}
	for {
		var err error
		buf, err = enc.Append(buf[:0], f)
	more:
		for err == nil && len(buf) < writeAtOnce {
			select {
			case f = <-h.out:
				buf, err = enc.Append(buf, f)
			default:
				break more
			}
		}
		if err != nil {
			return fmt.Errorf("frame for the holder: %w", err)
		}
		_ = conn.SetWriteDeadline(time.Now().Add(writeTime)) // ctx closes it at the latest
		if _, err := conn.Write(buf); err != nil {
			return err
		}
		select {
		case f = <-h.out:
		case <-status.C:
			f = stream.Frame{Status: &stream.Status{Running: []job.Attempt{}, Ready: true}}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// frame has done what the holder says.
func (h *holding) frame(ctx context.Context, f stream.Frame) error {
	id := string(f.Worker)
	switch {
	case f.Ping != nil:
		term, _ := strconv.ParseUint(h.term, 10, 64)
		pong := stream.Frame{Pong: &stream.Ping{Term: cluster.Term(term), Nonce: f.Ping.Nonce}}
		return h.ask(ctx, call{then: func(answer) error { return h.say(ctx, pong) }}) // after what was asked before
	case f.Assign != nil:
		return h.assign(ctx, id, f.Assign)
	case f.Cancel != nil:
		h.floors.Take(f.Cancel.Job, f.Cancel.Term, f.Cancel.Seq) // and obeyed, however late: a stop is always safe
		return h.ask(ctx, call{script: h.scripts.cancel, args: append([]string{id, string(f.Cancel.Job)}, chunkTexts(f.Cancel.Chunks)...)})
	case f.Accepted != nil:
		for some := range slices.Chunk(once(f.Accepted.Refs), desk.MaxRefs) {
			if err := h.ask(ctx, call{script: h.scripts.settle, args: append([]string{id}, refTexts(some)...)}); err != nil {
				return err
			}
		}
		return nil
	case f.Query != nil:
		nonce := f.Query.Nonce
		return h.ask(ctx, call{script: h.scripts.holds, args: []string{id}, then: func(got answer) error { return h.holds(ctx, id, nonce, got) }})
	case f.Drop != nil:
		return h.ask(ctx, call{script: h.scripts.drop, args: []string{id, fmt.Sprint(f.Drop.Session), string(f.Drop.Reason)}})
	}
	return desk.ErrHolder
}

func chunkTexts(list []job.Attempt) []string {
	out := make([]string, len(list))
	for i, c := range list {
		out[i] = strconv.Itoa(c.Chunk) + " " + strconv.Itoa(c.Number)
	}
	return out
}

// once is a list without what it names again.
func once(list []job.Attempt) []job.Attempt {
	if len(list) < 2 {
		return list
	}
	named := make(map[job.Attempt]bool, len(list))
	return slices.DeleteFunc(slices.Clone(list), func(a job.Attempt) bool {
		again := named[a]
		named[a] = true
		return again
	})
}

func (h *holding) assign(ctx context.Context, id string, a *stream.Assign) error {
	order := h.floors.Take(a.Job, a.Term, a.Seq)
	if order == stream.OrderStale {
		return nil
	}
	spec, err := h.textOf(a)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(once(a.Chunks), desk.MaxRefs) {
		args := append([]string{id, flag(order == stream.OrderAgain), string(a.Job), spec}, chunkTexts(some)...)
		if err := h.ask(ctx, call{script: h.scripts.assign, args: args, then: func(got answer) error { return h.handBack(ctx, id, got) }}); err != nil {
			return err
		}
	}
	return nil
}

// textOf is the spec of a job, which is the same for each of its chunks.
func (h *holding) textOf(a *stream.Assign) (string, error) {
	if text, ok := h.texts[a.Job]; ok {
		return text, nil
	}
	text, err := json.Marshal(a.Spec)
	if err != nil {
		return "", err
	}
	if len(h.texts) >= maxTexts {
		clear(h.texts)
	}
	h.texts[a.Job] = string(text)
	return string(text), nil
}

// handBack says for which chunks there was no room.
func (h *holding) handBack(ctx context.Context, id string, got answer) error {
	full, err := refsOf(got.list(1))
	if err != nil {
		return err
	}
	for _, ref := range full {
		if err := h.say(ctx, stream.Frame{Worker: cluster.NodeID(id), Result: &stream.Result{Attempt: ref, Error: "the worker has no room", Class: job.HandedBack}}); err != nil {
			return err
		}
	}
	return nil
}

// holds answers what a worker has, and has done; of one that is gone nothing is said.
func (h *holding) holds(ctx context.Context, id string, nonce uint64, got answer) error {
	if got.what() == "GONE" {
		return nil
	}
	refs, errR := refsOf(got.list(1))
	kept, errK := refsOf(got.list(2))
	if err := errors.Join(errR, errK); err != nil {
		return err
	}
	slices.SortFunc(refs, compareRefs)
	slices.SortFunc(kept, compareRefs)
	return h.say(ctx, stream.Frame{Worker: cluster.NodeID(id), Assigned: &stream.Assigned{Nonce: nonce, Refs: refs, Kept: kept}})
}
