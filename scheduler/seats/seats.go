package seats

import (
	"cmp"
	"hash/fnv"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/plan/trust"
	"github.com/skein-project/skein/scheduler/stream"
)

// When outside workers are believed to be what.
const (
	SuspectAfter = 30 * time.Second
	DeadAfter    = 120 * time.Second
	ForgetAfter  = 10 * time.Minute
	// lookEvery is how often the time is held against all of them.
	lookEvery = time.Second
)

// How often a worker is asked what it has.
const (
	strangerEvery = 30 * time.Second
	trustedEvery  = 10 * time.Second
)

const (
	// maxBarred bounds how many that may not come back are remembered.
	maxBarred = 1 << 14
	// visitors begin the owners of those that nobody enrolled.
	visitors = "visitor:"
)

// Enrolled is what the log says of an outside worker.
type Enrolled struct {
	Owner   string
	Zone    string // "": outside
	Trusted bool   // it gets what a host gets, and is believed as one
	Revoked bool   // or its owner may do nothing
}

// Seats are the outside workers of one term. They belong to one caller at a time.
type Seats struct {
	known func(cluster.NodeID) (Enrolled, bool)

	of     map[cluster.NodeID]*seat
	hosts  map[cluster.NodeID]cluster.Health // that carry some
	barred map[cluster.NodeID]bool           // they may not come back
	line   []cluster.NodeID                  // those of barred, in order
	looked time.Duration
	nonce  uint64 // of the latest query
}

// seat is one outside worker.
type seat struct {
	at      cluster.NodeID // the host that carries it, or did last
	via     cluster.NodeID // the gateway at which it is, as that host says
	session uint64         // 0: the log names it, and it did not join yet
	live    bool           // the host says that it is there
	trusted bool
	health  cluster.Health // as the plan knows it
	heard   time.Duration
	wrong   int // results that others contradicted

	asked time.Duration
	query uint64 // that it has not answered; 0: none
}

// New takes what the log says of a worker; nil: it knows none.
func New(known func(cluster.NodeID) (Enrolled, bool)) *Seats {
	if known == nil {
		known = func(cluster.NodeID) (Enrolled, bool) { return Enrolled{}, false }
	}
	return &Seats{
		known: known, of: make(map[cluster.NodeID]*seat), hosts: make(map[cluster.NodeID]cluster.Health), barred: make(map[cluster.NodeID]bool),
	}
}

// Drop is a worker that a host is to detach.
type Drop struct {
	From, Worker cluster.NodeID
	Session      uint64
	Reason       stream.DropReason
}

// Len is how many there are.
func (s *Seats) Len() int { return len(s.of) }

// All yields them, in no order.
func (s *Seats) All() iter.Seq[cluster.NodeID] { return maps.Keys(s.of) }

// Restore takes in that by the log a worker has something.
func (s *Seats) Restore(worker cluster.NodeID, now time.Duration) {
	if s.of[worker] == nil {
		s.of[worker] = &seat{health: cluster.Alive, heard: now}
	}
}

// Join takes in what a host says of a worker that is attached to it.
func (s *Seats) Join(host, worker cluster.NodeID, j stream.Join, now time.Duration, tell func(step.Event)) (drops []Drop) {
	is, enrolled := s.known(worker)
	if !enrolled {
		is = Enrolled{Owner: j.Owner}
	}
	switch {
	case s.barred[worker]:
		return []Drop{{host, worker, j.Session, stream.DropDistrusted}}
	case is.Revoked, !enrolled && !strings.HasPrefix(j.Owner, visitors):
		return []Drop{{host, worker, j.Session, stream.DropRevoked}}
	}
	st := s.of[worker]
	switch {
	case st == nil:
		st = &seat{health: cluster.Alive}
		s.of[worker] = st
	case j.Session < st.session, j.Session == st.session && host != st.at:
		return []Drop{{host, worker, st.session, stream.DropStale}}
	case st.live && host != st.at:
		drops = []Drop{{st.at, worker, st.session, stream.DropReplaced}}
	}
	st.at, st.session, st.live, st.trusted = host, j.Session, true, is.Trusted
	st.via = cmp.Or(j.Gateway, host)
	st.heard, st.asked, st.query = now, now-phase(worker, st.queryEvery()), 0
	if is.Zone == "" {
		is.Zone = cluster.OutsideZone
	}
	tell(step.HostKnown{Worker: worker, Zone: is.Zone})
	s.judge(worker, st, now, tell)
	e := step.WorkerConnected{
		Worker: worker, Slots: j.Slots, Credits: j.Room, Memory: j.MemoryBytes, Assigned: j.Assigned, Draining: j.Draining,
		Owner: is.Owner, Accept: job.Acceptance{Accept: job.AcceptPublic}, Stranger: !is.Trusted,
	}
	if slices.Contains(j.Executors, job.ExecutorWASM) { // nothing else goes outside
		e.Executors = []string{job.ExecutorWASM}
	}
	tell(e)
	return drops
}

// Part takes in that a worker is not attached to a host any more.
func (s *Seats) Part(host, worker cluster.NodeID, p stream.Part, tell func(step.Event)) {
	st := s.of[worker]
	switch {
	case st == nil || !st.live || st.at != host || p.Session < st.session:
	case p.Gone:
		s.leave(worker, st, tell)
	default:
		lose(worker, st, tell)
	}
}

func lose(worker cluster.NodeID, st *seat, tell func(step.Event)) {
	if st.live {
		st.live = false
		tell(step.WorkerDisconnected{Worker: worker})
	}
}

// leave forgets a worker.
func (s *Seats) leave(worker cluster.NodeID, st *seat, tell func(step.Event)) {
	delete(s.of, worker)
	tell(step.WorkerDisconnected{Worker: worker}) // first: who has left is forgotten
	tell(step.HealthChanged{Worker: worker, Health: cluster.Left})
}

// Hear takes in that a host says something of a worker, and reports that it counts: what
// one says that does not carry it is void.
func (s *Seats) Hear(host, worker cluster.NodeID, now time.Duration, tell func(step.Event)) bool {
	st := s.of[worker]
	if st == nil || !st.live || st.at != host {
		return false
	}
	st.heard = now
	s.judge(worker, st, now, tell)
	return true
}

// Lost takes in that the stream to a host ended.
func (s *Seats) Lost(host cluster.NodeID, tell func(step.Event)) {
	for _, n := range s.at(host) {
		lose(n, s.of[n], tell)
	}
}

// at lists the workers that a host carries.
func (s *Seats) at(host cluster.NodeID) (out []cluster.NodeID) {
	for n, st := range s.of {
		if st.live && st.at == host {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// Believe takes in what is believed of a host.
func (s *Seats) Believe(host cluster.NodeID, h cluster.Health, now time.Duration, tell func(step.Event)) {
	if h == cluster.Alive || h == cluster.Left {
		delete(s.hosts, host)
	} else {
		s.hosts[host] = h
	}
	for _, n := range s.at(host) {
		s.judge(n, s.of[n], now, tell)
	}
}

// Look holds the time against all workers, once in a while.
func (s *Seats) Look(now time.Duration, tell func(step.Event)) {
	if now-s.looked < lookEvery {
		return
	}
	s.looked = now
	var changed []cluster.NodeID
	for n, st := range s.of {
		if s.over(st, now) || s.health(st, now) != st.health {
			changed = append(changed, n)
		}
	}
	slices.Sort(changed)
	for _, n := range changed {
		if st := s.of[n]; s.over(st, now) {
			s.leave(n, st, tell)
		} else {
			s.judge(n, st, now, tell)
		}
	}
}

// over reports that a worker has left: it was silent for so long.
func (s *Seats) over(st *seat, now time.Duration) bool {
	limit := ForgetAfter
	if st.session == 0 {
		limit = DeadAfter
	}
	return now-st.heard >= limit
}

func (s *Seats) health(st *seat, now time.Duration) cluster.Health {
	switch silent := now - st.heard; {
	case silent >= DeadAfter:
		return cluster.Dead
	case silent >= SuspectAfter, s.hosts[st.at] != "":
		return cluster.Suspect
	}
	return cluster.Alive
}

func (s *Seats) judge(worker cluster.NodeID, st *seat, now time.Duration, tell func(step.Event)) {
	if h := s.health(st, now); h != st.health {
		st.health = h
		tell(step.HealthChanged{Worker: worker, Health: h})
	}
}

// Expel detaches a worker for what it did.
func (s *Seats) Expel(worker cluster.NodeID, why stream.DropReason, tell func(step.Event)) (drops []Drop) {
	st := s.of[worker]
	if st == nil {
		return nil
	}
	if st.live {
		drops = []Drop{{st.at, worker, st.session, why}}
	}
	if why == stream.DropRevoked {
		s.leave(worker, st, tell)
	} else {
		lose(worker, st, tell)
	}
	return drops
}

// Contradicted takes in that a result was wrong, and detaches a worker that is not
// believed any more: it may not come back in this term.
func (s *Seats) Contradicted(worker cluster.NodeID, tell func(step.Event)) []Drop {
	st := s.of[worker]
	if st == nil || st.trusted {
		return nil
	}
	if st.wrong++; st.wrong < trust.MaxWrong {
		return nil
	}
	if !s.barred[worker] {
		s.barred[worker] = true
		s.line = append(s.line, worker)
	}
	for len(s.line) > maxBarred {
		delete(s.barred, s.line[0])
		s.line = s.line[1:]
	}
	return s.Expel(worker, stream.DropDistrusted, tell)
}

// Review takes in that the log says something else of a worker.
func (s *Seats) Review(worker cluster.NodeID, tell func(step.Event)) []Drop {
	if is, ok := s.known(worker); ok && !is.Revoked {
		return s.Expel(worker, stream.DropStale, tell) // it joins again, as what it is now
	}
	return s.Expel(worker, stream.DropRevoked, tell)
}

// At says which host carries a worker.
func (s *Seats) At(worker cluster.NodeID) (host cluster.NodeID, ok bool) {
	if st := s.of[worker]; st != nil && st.live {
		return st.at, true
	}
	return "", false
}

// Via says at which gateway a worker is: the host that carries it, or one that shares a store
// with that.
func (s *Seats) Via(worker cluster.NodeID) cluster.NodeID {
	if st := s.of[worker]; st != nil && st.live {
		return st.via
	}
	return ""
}

// Awaited reports that the end of a job waits for a worker to stop: it is trusted, and
// may still run. Nobody waits for a stranger.
func (s *Seats) Awaited(worker cluster.NodeID) bool {
	st := s.of[worker]
	return st != nil && st.trusted && st.health != cluster.Dead
}

// Query is the question what a worker has.
type Query struct {
	Worker cluster.NodeID
	Nonce  uint64
}

// queryEvery is how often a worker is asked.
func (st *seat) queryEvery() time.Duration {
	if st.trusted {
		return trustedEvery
	}
	return strangerEvery
}

// phase is how much sooner a worker that joins is asked first: all may join at once, when a
// term begins, and are to be asked one after the other.
func phase(worker cluster.NodeID, every time.Duration) time.Duration {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(worker))                    // it cannot fail
	return time.Duration(sum.Sum64() % uint64(every/2)) //nolint:gosec // G115: below every
}

// Queries lists those whose turn it is.
func (s *Seats) Queries(now time.Duration) (out []Query) {
	for n, st := range s.of {
		if st.live && now-st.asked >= st.queryEvery() {
			out = append(out, Query{Worker: n})
		}
	}
	slices.SortFunc(out, func(a, b Query) int { return cmp.Compare(a.Worker, b.Worker) })
	for i := range out {
		s.nonce++
		out[i].Nonce = s.nonce
		st := s.of[out[i].Worker]
		st.asked, st.query = now, s.nonce
	}
	return out
}

// Answers takes the answer to the latest query and reports that it is one.
func (s *Seats) Answers(worker cluster.NodeID, nonce uint64) bool {
	st := s.of[worker]
	if st == nil || st.query == 0 || st.query != nonce {
		return false
	}
	st.query = 0
	return true
}
