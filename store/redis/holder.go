package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

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
	greetAtOnce = 64
)

// holding is one stream of the holder in this process.
type holding struct {
	*Store
	term   string
	holder string
	out    chan stream.Frame
	last   string            // the entry of in that was read last
	n      uint64            // its number
	told   map[string]uint64 // the number at which the holder was told all of a worker; the pump's
	floors stream.Floors     // the reader's
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
		out: make(chan stream.Frame, maxFrames), told: map[string]uint64{}, floors: stream.Floors{},
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
	for {
		f, err := in.Read()
		if err == nil {
			err = h.frame(ctx, f)
		}
		if err != nil {
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

func (h *holding) say(ctx context.Context, frames ...stream.Frame) error {
	for _, f := range frames {
		select {
		case h.out <- f:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// write sends the welcome, and then what the pump finds.
func (h *holding) write(ctx context.Context, conn net.Conn) error {
	status := time.NewTicker(statusEvery)
	defer status.Stop()
	var enc stream.Encoder
	f := stream.Frame{Welcome: &stream.Welcome{Executors: []string{}, Assigned: []job.Attempt{}, Crew: true}}
	for {
		b, err := enc.Append(nil, f)
		if err != nil {
			return fmt.Errorf("frame for the holder: %w", err)
		}
		_ = conn.SetWriteDeadline(time.Now().Add(writeTime)) // ctx closes it at the latest
		if _, err := conn.Write(b); err != nil {
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

// pump tells the holder of all workers, and then what becomes of them.
func (h *holding) pump(ctx context.Context) error {
	client, err := h.client()
	if err != nil {
		return err
	}
	ids, err := client.Do(ctx, client.B().Zrange().Key(h.prefix+"live").Min("0").Max("-1").Build()).AsStrSlice()
	if err != nil {
		return err
	}
	for some := range slices.Chunk(ids, greetAtOnce) {
		asked := make([]rueidis.LuaExec, len(some))
		for i, id := range some {
			asked[i].Args = []string{h.prefix, h.term, h.holder, id}
		}
		for i, r := range h.scripts.tell.ExecMulti(ctx, client, asked...) {
			got, err := r.ToArray()
			if err == nil {
				err = h.skip(h.greet(ctx, some[i], answer(got)))
			}
			if err != nil {
				return err
			}
		}
	}
	for {
		got, err := client.Do(ctx, client.B().Xread().Count(entries).Block(block.Milliseconds()).Streams().Key(h.prefix+"in").Id(h.last).Build()).AsXRead()
		if rueidis.IsRedisNil(err) {
			if err := h.there(); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		for _, e := range got[h.prefix+"in"] {
			if err := h.skip(h.entry(ctx, e)); err != nil {
				return err
			}
		}
	}
}

// skip passes over what somebody else wrote about one worker: the others are served.
func (h *holding) skip(err error) error {
	if errors.Is(err, errAnswer) {
		h.log.Warn().Err(err).Msg("outside worker left out")
		return nil
	}
	return err
}

// there reports an error if this holder's fence is not the one in Redis any more: it was
// emptied, or set back.
func (h *holding) there() error {
	_, err := h.mine(h.scripts.tell, "")
	return err
}

// greet tells the holder what a worker has and has done.
func (h *holding) greet(ctx context.Context, id string, got answer) error {
	switch got.what() {
	case "GONE":
		return nil
	case "OK":
	default:
		return fmt.Errorf("fence: %s", got.what())
	}
	n, err := strconv.ParseUint(got.text(1), 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %w", errAnswer, err)
	}
	h.told[id] = n
	fields, refTexts, kept := got.list(2), got.list(3), got.list(4)
	w := map[string]string{}
	for i := 0; i+1 < len(fields); i += 2 {
		w[fields[i]] = fields[i+1]
	}
	j := stream.Join{Owner: w["owner"], Draining: w["draining"] == "1", Gateway: cluster.NodeID(w["gateway"])}
	var errs [5]error
	j.Session, errs[0] = strconv.ParseUint(w["session"], 10, 64)
	j.Slots, errs[1] = strconv.Atoi(w["slots"])
	j.Room, errs[2] = strconv.Atoi(w["room"])
	j.MemoryBytes, errs[3] = strconv.ParseUint(w["memory"], 10, 64)
	errs[4] = json.Unmarshal([]byte(w["executors"]), &j.Executors)
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("%w: worker %.40q: %w", errAnswer, id, err)
	}
	here := w["here"] == "1"
	if !here && len(kept) == 0 {
		return nil
	}
	if j.Assigned, err = refsOf(refTexts); err != nil {
		return err
	}
	slices.SortFunc(j.Assigned, compareRefs)
	if err := h.say(ctx, stream.Frame{Worker: cluster.NodeID(id), Join: &j}); err != nil {
		return err
	}
	for i := 1; i < len(kept); i += 2 {
		if err := h.result(ctx, id, kept[i]); err != nil {
			return err
		}
	}
	if here {
		return nil
	}
	return h.say(ctx, stream.Frame{Worker: cluster.NodeID(id), Part: &stream.Part{Session: j.Session, Gone: len(j.Assigned) == 0}})
}

func (h *holding) result(ctx context.Context, id, text string) error {
	r := &stream.Result{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return fmt.Errorf("%w: result of %.40q: %w", errAnswer, id, err)
	}
	return h.say(ctx, stream.Frame{Worker: cluster.NodeID(id), Result: r})
}

// entry tells the holder what an entry of in says, unless it was told already.
func (h *holding) entry(ctx context.Context, e rueidis.XRangeEntry) error {
	n, err := strconv.ParseUint(e.FieldValues["n"], 10, 64)
	if err != nil || n != h.n+1 {
		return errBehind
	}
	h.last, h.n = e.ID, n
	id, data := e.FieldValues["w"], e.FieldValues["d"]
	if n <= h.told[id] {
		return nil
	}
	if _, known := h.told[id]; !known || e.FieldValues["k"] == "join" {
		got, err := h.mine(h.scripts.tell, id)
		if err != nil {
			return err
		}
		return h.greet(ctx, id, got)
	}
	worker := cluster.NodeID(id)
	switch e.FieldValues["k"] {
	case "result":
		return h.result(ctx, id, data)
	case "part":
		delete(h.told, id) // else it would grow with all that ever came
		session, gone, _ := strings.Cut(data, " ")
		of, err := strconv.ParseUint(session, 10, 64)
		if err != nil {
			return fmt.Errorf("%w: %w", errAnswer, err)
		}
		return h.say(ctx, stream.Frame{Worker: worker, Part: &stream.Part{Session: of, Gone: gone == "1"}})
	case "status":
		st, err := statusOf(data)
		if err != nil {
			return err
		}
		return h.say(ctx, stream.Frame{Worker: worker, Status: st})
	}
	return fmt.Errorf("%w: entry %.20q", errAnswer, e.FieldValues["k"])
}

// statusOf reads "kept ready draining", and in the next line attempts and how far each is.
func statusOf(data string) (*stream.Status, error) {
	head, list, _ := strings.Cut(data, "\n")
	st := &stream.Status{Running: []job.Attempt{}}
	f := strings.Fields(head)
	if len(f) != 3 {
		return nil, fmt.Errorf("%w: status %.40q", errAnswer, head)
	}
	var err error
	if st.Kept, err = strconv.Atoi(f[0]); err != nil {
		return nil, fmt.Errorf("%w: %w", errAnswer, err)
	}
	st.Ready, st.Draining = f[1] == "1", f[2] == "1"
	if list == "" {
		return st, nil
	}
	for one := range strings.SplitSeq(list, ",") {
		at := strings.LastIndexByte(one, ' ')
		if at < 0 {
			return nil, fmt.Errorf("%w: progress %.40q", errAnswer, one)
		}
		ref, err := refOf(one[:at])
		done, errD := strconv.ParseUint(one[at+1:], 10, 64)
		if err := errors.Join(err, errD); err != nil {
			return nil, err
		}
		st.Running = append(st.Running, ref)
		st.Progress = append(st.Progress, stream.Progress{Attempt: ref, Done: done})
	}
	return st, nil
}

// frame does what the holder says.
func (h *holding) frame(ctx context.Context, f stream.Frame) error {
	id := string(f.Worker)
	var err error
	switch {
	case f.Ping != nil:
		term, _ := strconv.ParseUint(h.term, 10, 64)
		return h.say(ctx, stream.Frame{Pong: &stream.Ping{Term: cluster.Term(term), Nonce: f.Ping.Nonce}})
	case f.Assign != nil:
		return h.assign(ctx, id, f.Assign)
	case f.Cancel != nil:
		h.floors.Take(f.Cancel.Job, f.Cancel.Term, f.Cancel.Seq) // and obeyed, however late: a stop is always safe
		_, err = h.mine(h.scripts.cancel, append([]string{id, string(f.Cancel.Job)}, chunkTexts(f.Cancel.Chunks)...)...)
	case f.Accepted != nil:
		_, err = h.mine(h.scripts.settle, append([]string{id}, refTexts(f.Accepted.Refs)...)...)
	case f.Query != nil:
		return h.query(ctx, id, f.Query.Nonce)
	case f.Drop != nil:
		_, err = h.mine(h.scripts.drop, id, fmt.Sprint(f.Drop.Session), string(f.Drop.Reason))
	default:
		err = desk.ErrHolder
	}
	return err
}

func chunkTexts(list []job.Attempt) []string {
	out := make([]string, len(list))
	for i, c := range list {
		out[i] = fmt.Sprintf("%d %d", c.Chunk, c.Number)
	}
	return out
}

func (h *holding) assign(ctx context.Context, id string, a *stream.Assign) error {
	order := h.floors.Take(a.Job, a.Term, a.Seq)
	if order == stream.OrderStale {
		return nil
	}
	spec, err := json.Marshal(a.Spec)
	if err != nil {
		return err
	}
	got, err := h.mine(h.scripts.assign, append([]string{id, flag(order == stream.OrderAgain), string(a.Job), string(spec)}, chunkTexts(a.Chunks)...)...)
	if err != nil {
		return err
	}
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

func (h *holding) query(ctx context.Context, id string, nonce uint64) error {
	got, err := h.mine(h.scripts.tell, id)
	if err != nil || got.what() == "GONE" {
		return err
	}
	refs, err := refsOf(got.list(3))
	if err != nil {
		return err
	}
	var names []string
	for i, kept := 0, got.list(4); i < len(kept); i += 2 {
		names = append(names, kept[i])
	}
	kept, err := refsOf(names)
	if err != nil {
		return err
	}
	slices.SortFunc(refs, compareRefs)
	slices.SortFunc(kept, compareRefs)
	return h.say(ctx, stream.Frame{Worker: cluster.NodeID(id), Assigned: &stream.Assigned{Nonce: nonce, Refs: refs, Kept: kept}})
}
