package outside

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/scheduler/stream"
)

// Times and bounds of a session.
const (
	beatEvery  = 10 * time.Second
	meetTime   = 10 * time.Second // of the worker
	retryAfter = time.Second      // what the gateway has no room for now
	maxText    = 40 << 10         // of results at once, the first apart
	maxAsked   = 256              // results whose fate is asked for
)

// holderName is what the worker calls the gateway, as whose holder the session speaks.
const holderName = cluster.NodeID("gateway")

// resultOf is a result as the gateway takes it. A number that was read back is the same to
// the bit.
func resultOf(r stream.Result) (api.WorkResult, error) {
	out := api.WorkResult{Attempt: r.Attempt, Seconds: r.Seconds, Error: r.Error, Class: r.Class}
	if r.Result != nil {
		text, err := json.Marshal(r.Result)
		if err != nil {
			return out, fmt.Errorf("result of %s: %w", r.Attempt, err)
		}
		out.Output = string(text)
	}
	return out, nil
}

// errAgain says that a new session is to begin at once.
var errAgain = errors.New("something was missed")

// FinalError is one that starting again would not help.
type FinalError struct{ Err error }

// Error implements error.
func (e *FinalError) Error() string { return e.Err.Error() }

// Unwrap returns what it is about.
func (e *FinalError) Unwrap() error { return e.Err }

func stop(err error) error { return &FinalError{err} }

// session is the time that a worker is attached at a gateway.
type session struct {
	c    *computer
	line *line
	conn net.Conn // to the worker
	in   <-chan stream.Frame
	term cluster.Term // of this stream with the worker

	enc    stream.Encoder
	buf    []byte
	number uint64 // the gateway's
	heard  uint64 // number of the latest push
	due    uint64 // number of the latest push at the latest beat
	order  uint64 // number of the latest order to the worker
	asked  uint64 // nonce of the latest query
	status stream.Status
	outgoing
	// missing is of a line that tells nothing unasked: what the worker has, and the gateway did
	// not name at the latest beat.
	missing map[job.Attempt]bool
}

// outgoing is results on their way.
type outgoing struct {
	unsent []stream.Result
	after  *time.Timer     // when unsent is tried again
	taken  []stream.Result // by a line that does not tell when they are settled
}

// serve works until the line is lost, the session is over or the worker has ended, which is
// no error.
func (c *computer) serve(ctx context.Context, l *line) error {
	ours, theirs := net.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	frames, served := make(chan stream.Frame), make(chan struct{})
	go func() { defer close(served); c.worker.Serve(ctx, holderName, theirs) }()
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(frames)
		in := stream.NewDecoder(ours)
		for {
			f, err := in.Read()
			if err != nil {
				return
			}
			select {
			case frames <- f:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() { cancel(); _ = ours.Close(); <-read; <-served }()
	c.term = max(c.term+1, cluster.Term(time.Now().UnixMilli()))
	s := &session{c: c, line: l, conn: ours, in: frames, term: c.term, outgoing: outgoing{after: time.NewTimer(time.Hour)}}
	defer s.after.Stop()
	is, have, err := s.meet(ctx)
	if err == nil {
		err = s.attach(ctx, is, have)
	}
	if err == nil {
		err = s.loop(ctx)
	}
	return err
}

// say gives the worker an order.
func (s *session) say(f stream.Frame) error {
	b, err := s.enc.Append(s.buf[:0], f)
	if err != nil {
		return fmt.Errorf("from the gateway: %w", err)
	}
	s.buf = b
	_ = s.conn.SetWriteDeadline(time.Now().Add(meetTime)) // ctx closes it at the latest
	_, err = s.conn.Write(b)
	return err
}

// meet asks the worker what it is and has. Its results come meanwhile.
func (s *session) meet(ctx context.Context) (is stream.Welcome, have stream.Assigned, err error) {
	if err = s.say(stream.Frame{Hello: &stream.Hello{Term: s.term, Holder: holderName}}); err == nil {
		err = s.query()
	}
	late := time.NewTimer(meetTime)
	defer late.Stop()
	for err == nil {
		select {
		case f, ok := <-s.in:
			switch {
			case !ok:
				err = errors.New("the worker does not answer")
			case f.Welcome != nil:
				is = *f.Welcome
			case f.Result != nil:
				s.unsent = append(s.unsent, *f.Result)
			case f.Assigned != nil:
				return is, *f.Assigned, nil
			case f.Refused != nil:
				err = fmt.Errorf("the worker refuses: %s", f.Refused.Reason)
			}
		case <-late.C:
			err = errors.New("the worker does not answer")
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return is, have, err
}

func (s *session) query() error {
	s.asked++
	return s.say(stream.Frame{Query: &stream.Ping{Term: s.term, Nonce: s.asked}})
}

// attach begins the session at the gateway, and has the worker do what that says.
func (s *session) attach(ctx context.Context, w stream.Welcome, have stream.Assigned) error {
	kept := have.Kept[:min(len(have.Kept), max(0, desk.MaxRefs-len(have.Refs)))]
	var st api.WorkState
	if err := s.line.call(ctx, api.RPCAttach, api.WorkAttach{
		Slots: w.Slots, Room: w.Room, MemoryBytes: w.MemoryBytes, Executors: w.Executors, Draining: w.Draining,
		Running: have.Refs, Kept: kept, After: s.c.after, Client: api.GatewayClient,
	}, &st); err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	s.number, s.heard, s.due = st.Session, st.Seq, st.Seq
	s.c.say(fmt.Sprintf("working at %s", s.line.g.url))
	if s.c.o.Attached != nil {
		s.c.o.Attached(s.line.g.url)
	}
	s.c.began = time.Now()
	for _, c := range st.Chunks {
		c.Refs = slices.DeleteFunc(c.Refs, func(r job.Attempt) bool { return slices.Contains(have.Refs, r) })
		if err := s.assign(c); err != nil {
			return err
		}
	}
	return errors.Join(s.cancel(st.Stop), s.send(ctx))
}

func (s *session) assign(c api.WorkChunks) error {
	if len(c.Refs) == 0 {
		return nil
	}
	s.order++
	a := stream.Assign{Term: s.term, Seq: s.order, Job: c.Refs[0].Job, Spec: specOf(c.Spec)}
	for _, ref := range c.Refs {
		a.Chunks = append(a.Chunks, job.Attempt{Chunk: ref.Chunk, Number: ref.Number})
	}
	f := stream.Frame{Assign: &a}
	if err := f.Validate(); err != nil {
		return fmt.Errorf("from the gateway: %w", err)
	}
	return s.say(f)
}

// specOf is the job as an executor needs it. What is left out is the cluster's.
func specOf(w api.WorkSpec) job.Spec {
	s := job.Spec{
		Key: "outside", Executor: w.Executor, Artefact: w.Artefact, Config: w.Config, Iterations: w.Iterations, Chunk: w.Chunk, Seed: w.Seed,
		MemoryBytes: w.MemoryBytes, TimeoutSeconds: w.TimeoutSeconds, Attempts: 1,
	}
	s.FirstIteration, s.HardTimeoutSeconds = w.FirstIteration, w.HardTimeoutSeconds
	return s.WithDefaults()
}

func (s *session) cancel(refs []job.Attempt) error {
	by := map[job.ID][]job.Attempt{}
	for _, r := range refs {
		by[r.Job] = append(by[r.Job], job.Attempt{Chunk: r.Chunk, Number: r.Number})
	}
	for _, id := range slices.Sorted(maps.Keys(by)) {
		s.order++
		if err := s.say(stream.Frame{Cancel: &stream.Cancel{Term: s.term, Seq: s.order, Job: id, Chunks: by[id]}}); err != nil {
			return err
		}
	}
	return nil
}

// forget has the worker drop results.
func (s *session) forget(refs []job.Attempt) error {
	if len(refs) == 0 {
		return nil
	}
	return s.say(stream.Frame{Accepted: &stream.Accepted{Term: s.term, Refs: refs}})
}

func (s *session) loop(ctx context.Context) error {
	beat := time.NewTicker(cmp.Or(s.c.o.beat, beatEvery))
	defer beat.Stop()
	for {
		var err error
		select {
		case f, ok := <-s.in:
			if !ok {
				return s.bye(ctx)
			}
			err = s.fromWorker(ctx, f)
		case p := <-s.line.pushes:
			err = s.pushed(p)
		case <-beat.C:
			err = s.query() // its answer is the beat
		case <-s.after.C:
			err = s.send(ctx)
		case <-s.line.lost:
			return s.line.cause()
		case <-ctx.Done():
			return ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

// bye leaves what the worker has to others: it has ended.
func (s *session) bye(ctx context.Context) error {
	if !s.c.ending() {
		return errors.New("the worker ended the stream")
	}
	var out struct{}
	return cmp.Or(s.line.call(ctx, api.RPCBye, api.WorkSession{Session: s.number}, &out), errDone)
}

func (s *session) fromWorker(ctx context.Context, f stream.Frame) error {
	switch {
	case f.Result != nil:
		s.unsent = append(s.unsent, *f.Result)
		return s.send(ctx)
	case f.Status != nil:
		s.status = *f.Status
	case f.Assigned != nil:
		return s.beat(ctx, *f.Assigned)
	case f.Refused != nil && s.c.ending():
		return s.bye(ctx)
	case f.Refused != nil:
		return fmt.Errorf("the worker refuses: %s", f.Refused.Reason)
	}
	return nil
}

// errDone ends a session that is over as it should be.
var errDone = errors.New("done")

// beat says that the worker is there, and finds out whether a push is missing.
func (s *session) beat(ctx context.Context, have stream.Assigned) error {
	b := api.WorkBeat{WorkSession: api.WorkSession{Session: s.number}, Kept: len(have.Kept), Ready: s.status.Ready, Draining: s.status.Draining}
	done := map[job.Attempt]uint64{}
	for _, p := range s.status.Progress {
		done[p.Attempt] = p.Done
	}
	for _, ref := range have.Refs {
		b.Have = append(b.Have, api.WorkProgress{Attempt: ref, Done: done[ref]})
	}
	var out api.WorkSeq
	if err := s.line.call(ctx, api.RPCBeat, b, &out); err != nil {
		return s.judge(fmt.Errorf("beat: %w", err))
	}
	if !s.line.told() {
		return s.poll(ctx, out.Seq, have)
	}
	if s.heard < s.due { // a push that was sent before the last beat is not on its way any more
		return errAgain
	}
	s.due = out.Seq
	return nil
}

// poll finds out what was not told for want of a connection: what there is to do, and which
// results are settled, of which the gateway knows nothing any more.
func (s *session) poll(ctx context.Context, seq uint64, have stream.Assigned) error {
	s.unsent = append(s.unsent, s.taken...)
	s.taken = nil
	if err := s.send(ctx); err != nil {
		return err
	}
	if seq == s.heard && len(s.missing) == 0 {
		return nil
	}
	var st api.WorkState
	if err := s.line.call(ctx, api.RPCAssigned, api.WorkSession{Session: s.number}, &st); err != nil {
		return s.judge(fmt.Errorf("assigned: %w", err))
	}
	s.heard = st.Seq
	wanted := map[job.Attempt]bool{}
	for _, c := range st.Chunks {
		for _, r := range c.Refs {
			wanted[r] = true
		}
		c.Refs = slices.DeleteFunc(slices.Clone(c.Refs), func(r job.Attempt) bool {
			return slices.Contains(have.Refs, r) || slices.Contains(have.Kept, r)
		})
		if err := s.assign(c); err != nil {
			return err
		}
	}
	// What the worker told of itself the holder may have yet to confirm: only what is not
	// named twice in a row is to be ended.
	drop, missing := st.Stop, map[job.Attempt]bool{}
	for _, r := range have.Refs {
		switch {
		case wanted[r]:
		case s.missing[r]:
			drop = append(drop, r)
		default:
			missing[r] = true
		}
	}
	s.missing = missing
	return s.cancel(drop)
}

// judge makes what the gateway said about this session what is to be done about it.
func (s *session) judge(err error) error {
	if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.CodeConflict {
		return errAgain
	}
	return err
}

// send sends results that were not taken yet.
func (s *session) send(ctx context.Context) error {
	for len(s.unsent) > 0 {
		req := api.WorkResults{WorkSession: api.WorkSession{Session: s.number}}
		text := 0
		for _, r := range s.unsent[:min(len(s.unsent), desk.MaxResults)] {
			w, err := resultOf(r)
			if err != nil {
				return err
			}
			if text += len(w.Output) + len(w.Error); text > maxText && len(req.Results) > 0 {
				break
			}
			req.Results = append(req.Results, w)
		}
		var out api.WorkVerdicts
		err := s.line.call(ctx, api.RPCComplete, req, &out)
		if p, ok := errors.AsType[*api.Problem](err); ok && (p.Code == api.CodeNotReady || p.Code == api.CodeOverloaded) {
			s.after.Reset(retryAfter + rand.N(retryAfter))
			return nil
		}
		if err != nil {
			return s.judge(fmt.Errorf("complete: %w", err))
		}
		if len(out.Verdicts) != len(req.Results) {
			return fmt.Errorf("%d verdicts of %d results", len(out.Verdicts), len(req.Results))
		}
		var drop []job.Attempt
		for i, v := range out.Verdicts {
			switch {
			case v == string(desk.Unknown):
				drop = append(drop, req.Results[i].Attempt)
			case !s.line.told() && len(s.taken) < maxAsked: // the others are told of when it attaches anew
				s.taken = append(s.taken, s.unsent[i])
			}
		}
		s.unsent = s.unsent[len(req.Results):]
		if err := s.forget(drop); err != nil {
			return err
		}
	}
	s.unsent = nil
	return nil
}

// pushed does what the gateway tells unasked.
func (s *session) pushed(p api.WorkPush) error {
	if p.Session != s.number {
		return nil // of a session before this one
	}
	if p.Seq != s.heard+1 {
		return errAgain
	}
	s.heard = p.Seq
	switch desk.PushKind(p.Type) {
	case desk.PushChunks:
		if p.Chunks == nil {
			return errors.New("a push of no chunks")
		}
		return s.assign(*p.Chunks)
	case desk.PushStop:
		return s.cancel(p.Refs)
	case desk.PushSettled:
		s.c.settled = true
		return s.forget(p.Refs)
	case desk.PushGone:
		return s.over(p)
	}
	return nil // of a gateway that is newer
}

// over is what the end of a session means.
func (s *session) over(p api.WorkPush) error {
	switch stream.DropReason(p.Reason) {
	case stream.DropStale:
		s.c.after = max(s.c.after, p.After)
		return errAgain
	case stream.DropReplaced:
		return errReplaced
	case stream.DropRevoked:
		return errRevoked
	case stream.DropDistrusted:
		return stop(errors.New("results of this computer differ from those of others: it may be broken; it is given nothing more until a key of its own is enrolled anew"))
	}
	return fmt.Errorf("the cluster gives this worker nothing at present: %s", p.Reason)
}
