package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/crew"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/scheduler/stream"
)

// InMemory is a crew of this process.
func InMemory(c *crew.Crew) desk.Crew { return memory{c} }

type memory struct{ *crew.Crew }

// Why implements desk.Crew.
func (m memory) Why() error { return nil }

// Attach implements desk.Crew.
func (m memory) Attach(a desk.Attach) (desk.Seat, desk.State, error) {
	s, st, err := m.Crew.Attach(a)
	if err != nil {
		return nil, st, err
	}
	return s, st, nil
}

// Seat implements desk.Crew.
func (m memory) Seat(worker cluster.NodeID, session uint64) (desk.Seat, error) {
	s, err := m.Crew.Seat(worker, session)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Options configures a Service. All must be set but what says otherwise.
type Options struct {
	Crew desk.Crew
	// Owner is whose a worker is, or why it gets nothing.
	Owner func(worker cluster.NodeID) (string, error)
	// Push tells a worker something, if it listens.
	Push func(worker cluster.NodeID, p api.WorkPush)
	// Anywhere says that workers are told things alike by every gateway, whichever way they
	// ask: somebody else keeps their connections.
	Anywhere bool
	// End ends one connection of a worker.
	End  func(worker cluster.NodeID, conn string, why api.Disconnect)
	Wall func() time.Time
	// Pushed is told how long it took until a worker's connection had what waited for the
	// worker; nil: nobody.
	Pushed func(took time.Duration)
}

// Service answers what workers ask. Its methods may be called from any goroutine.
type Service struct {
	o       Options
	pushing sync.WaitGroup // deliver's
	closed  chan struct{}

	conns conns

	mu    sync.Mutex
	ended bool // Close was called: nothing joins pushing
}

// New returns a Service.
func New(o Options) *Service {
	return &Service{o: o, closed: make(chan struct{}), conns: newConns()}
}

// Close ends the pushes. Whoever attaches after it is refused.
func (s *Service) Close() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	close(s.closed)
	s.pushing.Wait()
}

// Caller is an outside worker that asks, over the connection Conn; empty: by HTTP.
type Caller struct {
	Worker cluster.NodeID
	Conn   string

	owner string // Call's
}

// methods is what a worker can ask, by HTTP and over its connection alike.
var methods = map[string]func(s *Service, by Caller, text []byte) (any, error){
	api.RPCAttach:   (*Service).attach,
	api.RPCBeat:     (*Service).beat,
	api.RPCComplete: (*Service).complete,
	api.RPCAssigned: (*Service).assigned,
	api.RPCBye:      (*Service).bye,
}

// Methods lists what a worker can ask.
func Methods() []string { return slices.Sorted(maps.Keys(methods)) }

// Call does what a worker asks. Errors are *api.Problem, but those of this host.
func (s *Service) Call(by Caller, method string, text []byte) (any, error) {
	do := methods[method]
	if do == nil {
		return nil, api.Errorf(api.CodeNotFound, "no method %.32q", method)
	}
	var err error
	if by.owner, err = s.o.Owner(by.Worker); err != nil {
		return nil, err
	}
	out, err := do(s, by, text)
	switch {
	case err == nil:
		return out, nil
	case errors.Is(err, desk.ErrInvalid):
		err = api.Errorf(api.CodeInvalidRequest, "%v", err)
	case errors.Is(err, desk.ErrUnknown), errors.Is(err, desk.ErrSession):
		err = api.Errorf(api.CodeConflict, "this session is over: %v", err).WithHint("attach again")
	case errors.Is(err, desk.ErrBusy):
		err = api.Errorf(api.CodeNotReady, "%v", err)
	}
	return nil, err
}

func (s *Service) attach(by Caller, text []byte) (any, error) {
	var req api.WorkAttach
	if err := Decode(text, &req); err != nil {
		return nil, err
	}
	if err := TooOld(req.Client); err != nil {
		return nil, err
	}
	defer s.conns.begin(by.Conn)()
	seat, st, err := s.o.Crew.Attach(desk.Attach{
		Worker: by.Worker, Owner: by.owner, Slots: req.Slots, Room: req.Room, MemoryBytes: req.MemoryBytes, Executors: req.Executors,
		Draining: req.Draining, Running: req.Running, Kept: req.Kept, After: req.After, Apart: s.apart(by),
	})
	if err != nil {
		return nil, err
	}
	if !s.deliver(by.Conn, session{by.Worker, st.Session}, seat) {
		_ = seat.Lose() // a later one may have ended it
		return nil, desk.ErrBusy
	}
	return stateOf(st), nil
}

// deliver has the pushes of a session reach its worker, until the session is over, unless its
// crew does that; false: the service has ended.
func (s *Service) deliver(conn string, of session, at desk.Seat) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.conns.put(conn, of, at) // it ends with the connection
	seat, here := at.(*crew.Seat)
	if !here {
		return true
	}
	s.pushing.Go(func() {
		defer s.conns.over(of)
		for over := false; !over; {
			select {
			case <-seat.Ready():
			case <-seat.Over():
				over = true
			case <-s.closed:
				return
			}
			waited, began := seat.Waited(), s.o.Wall()
			pushes := seat.Take()
			for _, p := range pushes {
				s.Tell(p)
			}
			if len(pushes) > 0 && s.o.Pushed != nil {
				s.o.Pushed(waited + s.o.Wall().Sub(began))
			}
		}
	})
	return true
}

// Tell tells a worker something, if it listens here. Where that is the end of its session,
// after which it shall not come again, its connection ends as well.
func (s *Service) Tell(p desk.Push) {
	s.o.Push(p.Worker, pushOf(p, s.o.Wall()))
	why := final(p)
	if why == nil {
		return
	}
	if conn, ok := s.conns.of(session{p.Worker, p.Session}); ok {
		s.o.End(p.Worker, conn, *why)
	}
}

// Gone takes in that a connection has ended: what was begun over it is lost.
func (s *Service) Gone(conn string) {
	if seat := s.conns.gone(conn); seat != nil {
		_ = seat.Lose() // it may be over
	}
}

// Connected is how many sessions were begun over connections that there are still.
func (s *Service) Connected() int { return s.conns.len() }

func (s *Service) beat(by Caller, text []byte) (any, error) {
	var req api.WorkBeat
	seat, err := s.seat(by, text, &req, &req.WorkSession)
	if err != nil {
		return nil, err
	}
	b := desk.Beat{Kept: req.Kept, Ready: req.Ready, Draining: req.Draining, Have: make([]desk.Progress, len(req.Have))}
	for i, h := range req.Have {
		b.Have[i] = desk.Progress{Attempt: h.Attempt, Done: h.Done}
	}
	seq, err := seat.Beat(b)
	return api.WorkSeq{Seq: seq}, err
}

// apart reports whether a worker that asks here may listen elsewhere.
func (s *Service) apart(by Caller) bool { return by.Conn == "" && !s.o.Anywhere }

// seat reads a request of a session.
func (s *Service) seat(by Caller, text []byte, req any, of *api.WorkSession) (desk.Seat, error) {
	if err := Decode(text, req); err != nil {
		return nil, err
	}
	seat, err := s.o.Crew.Seat(by.Worker, of.Session)
	if roaming, ok := seat.(desk.Roaming); ok && s.apart(by) {
		seat = roaming.Apart()
	}
	return seat, err
}

func (s *Service) complete(by Caller, text []byte) (any, error) {
	var req api.WorkResults
	seat, err := s.seat(by, text, &req, &req.WorkSession)
	if err != nil {
		return nil, err
	}
	results := make([]stream.Result, min(len(req.Results), desk.MaxResults+1))
	invalid := make([]bool, len(results))
	for i := range results {
		results[i], invalid[i] = resultOf(req.Results[i])
	}
	said, err := seat.Complete(results)
	if err != nil {
		return nil, err
	}
	out := api.WorkVerdicts{Verdicts: make([]string, len(said))}
	for i, v := range said {
		out.Verdicts[i] = string(v)
		if invalid[i] && v == desk.Taken {
			out.Verdicts[i] = api.VerdictInvalid
		}
	}
	return out, nil
}

// resultOf reads a result. An output that is none is a failure of the work: the guest
// wrote it.
func resultOf(r api.WorkResult) (out stream.Result, invalid bool) {
	out = stream.Result{Attempt: r.Attempt, Seconds: r.Seconds, Error: r.Error, Class: r.Class}
	if r.Error != "" {
		return out, false
	}
	result, err := job.DecodeResult([]byte(r.Output))
	if err == nil {
		err = result.Validate(result.Iterations) // the holder knows how many there must be
	}
	if err != nil {
		out.Error, out.Class = job.ReasonOf(err), job.FailedWork
		return out, true
	}
	out.Result = &result
	return out, false
}

func (s *Service) assigned(by Caller, text []byte) (any, error) {
	var req api.WorkSession
	seat, err := s.seat(by, text, &req, &req)
	if err != nil {
		return nil, err
	}
	st, err := seat.Assigned()
	return stateOf(st), err
}

func (s *Service) bye(by Caller, text []byte) (any, error) {
	var req api.WorkSession
	seat, err := s.seat(by, text, &req, &req)
	if err != nil {
		return nil, err
	}
	return struct{}{}, seat.Bye()
}

func stateOf(st desk.State) api.WorkState {
	out := api.WorkState{Session: st.Session, Seq: st.Seq, Term: st.Term, Chunks: make([]api.WorkChunks, len(st.Chunks)), Stop: st.Stop}
	for i, c := range st.Chunks {
		out.Chunks[i] = chunksOf(c)
	}
	if out.Stop == nil {
		out.Stop = []job.Attempt{}
	}
	return out
}

func chunksOf(g desk.Given) api.WorkChunks {
	s := g.Spec
	return api.WorkChunks{Refs: g.Refs, Spec: api.WorkSpec{
		Executor: s.Executor, Artefact: s.Artefact, Config: s.Config, FirstIteration: s.FirstIteration, Iterations: s.Iterations, Chunk: s.Chunk,
		Seed: s.Seed, MemoryBytes: s.MemoryBytes, TimeoutSeconds: s.TimeoutSeconds, HardTimeoutSeconds: s.HardTimeout().Seconds(),
	}}
}

func pushOf(p desk.Push, now time.Time) api.WorkPush {
	out := api.WorkPush{
		V: 1, Type: string(p.Kind), Session: p.Session, Seq: p.Seq, Term: p.Term, At: now.UTC(), Refs: p.Refs, Reason: string(p.Reason), After: p.After,
	}
	if p.Kind == desk.PushChunks {
		c := chunksOf(p.Chunks)
		out.Chunks = &c
	}
	return out
}

// maxValues is how many values a body may name; a worker that is full names a quarter.
const maxValues = 4096

// values is about how many values a text of JSON names: each but the first comes after a
// comma.
func values(text []byte) int {
	n, quoted := 1, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case c == ',' && !quoted:
			n++
		}
	}
	return n
}

// Decode reads one JSON value without unknown fields, and not of many small ones, which
// take far more memory than their text.
func Decode(text []byte, into any) error {
	if n := values(text); n > maxValues {
		return api.Errorf(api.CodeInvalidRequest, "body: %d values, at most %d are read", n, maxValues)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return api.Errorf(api.CodeInvalidRequest, "body: %.200s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return api.Errorf(api.CodeInvalidRequest, "body: more than one JSON value")
	}
	return nil
}

// TooOld refuses clients that would not understand this gateway.
func TooOld(client int) error {
	if client < api.GatewayClient {
		return api.Errorf(api.CodeInvalidRequest, "client %d is too old: this gateway serves client %d and newer", client, api.GatewayClient).
			WithHint("update skein on the computer that wants to work")
	}
	return nil
}
