package redis

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/scheduler/stream"
)

// attachTries is how often a session is tried for, each above the one that was known.
const attachTries = 4

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

func refText(r job.Attempt) string { return fmt.Sprintf("%s %d %d", r.Job, r.Chunk, r.Number) }

func refTexts(list []job.Attempt) []string {
	out := make([]string, len(list))
	for i, r := range list {
		out[i] = refText(r)
	}
	return out
}

func refOf(s string) (job.Attempt, error) {
	f := strings.Split(s, " ")
	if len(f) != 3 {
		return job.Attempt{}, fmt.Errorf("%w: %.64q is no attempt", errAnswer, s)
	}
	chunk, errC := strconv.Atoi(f[1])
	number, errN := strconv.Atoi(f[2])
	if errC != nil || errN != nil {
		return job.Attempt{}, fmt.Errorf("%w: %.64q is no attempt", errAnswer, s)
	}
	return job.Attempt{Job: job.ID(f[0]), Chunk: chunk, Number: number}, nil
}

func refsOf(list []string) ([]job.Attempt, error) {
	out := make([]job.Attempt, 0, len(list))
	for _, s := range list {
		r, err := refOf(s)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func refList(s string) ([]job.Attempt, error) {
	if s == "" {
		return []job.Attempt{}, nil
	}
	return refsOf(strings.Split(s, ","))
}

func compareRefs(a, b job.Attempt) int {
	return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Chunk, b.Chunk), cmp.Compare(a.Number, b.Number))
}

// refused is the error of what a script answered.
func refused(a answer) error {
	switch a.what() {
	case "OK":
		return nil
	case "UNKNOWN", "GONE":
		return desk.ErrUnknown
	case "REPLACED":
		return desk.ErrSession
	case "BUSY":
		return fmt.Errorf("%w: Redis holds as much as redis.result_bytes allows, or as many workers", desk.ErrBusy)
	}
	return fmt.Errorf("%w: %.40q", errAnswer, a.what())
}

// named checks attempts that a worker names: their text must be one that is read again.
func named(refs []job.Attempt) error {
	for _, r := range refs {
		if _, err := job.ParseID(string(r.Job)); err != nil {
			return fmt.Errorf("%w: %w", desk.ErrInvalid, err)
		}
	}
	return nil
}

// Attach implements desk.Crew.
func (s *Store) Attach(a desk.Attach) (desk.Seat, desk.State, error) {
	if err := a.Check(); err != nil {
		return nil, desk.State{}, fmt.Errorf("%w: %w", desk.ErrInvalid, err)
	}
	if err := named(slices.Concat(a.Running, a.Kept)); err != nil {
		return nil, desk.State{}, err
	}
	executors, err := json.Marshal(a.Executors)
	if err != nil {
		return nil, desk.State{}, err
	}
	session := uint64(s.o.Wall().UnixMilli())<<16 | s.count.Add(1)&0xffff //nolint:gosec // G115: a time after 1970
	for range attachTries {
		session = max(session, a.After+1)
		args := append([]string{
			string(a.Worker), fmt.Sprint(session), s.at(a.Apart), a.Owner, fmt.Sprint(a.Slots), fmt.Sprint(a.Room), fmt.Sprint(a.MemoryBytes),
			string(executors), flag(a.Draining), fmt.Sprint(a.After), fmt.Sprint(s.o.Workers),
		}, refTexts(slices.Concat(a.Running, a.Kept))...)
		got, err := s.run(s.scripts.attach, args...)
		if err != nil {
			return nil, desk.State{}, err
		}
		if got.what() == "REPLACED" {
			known, err := strconv.ParseUint(got.text(1), 10, 64)
			if err != nil {
				return nil, desk.State{}, fmt.Errorf("%w: session %.40q", errAnswer, got.text(1))
			}
			session = known + 1
			continue
		}
		if err := refused(got); err != nil {
			return nil, desk.State{}, err
		}
		st, err := stateOf(got, session)
		if err != nil {
			return nil, desk.State{}, err
		}
		if stop, err := refsOf(got.list(5)); err == nil && len(stop) > 0 {
			st.Stop = stop
		}
		return seat{s, a.Worker, session, a.Apart}, st, nil
	}
	return nil, desk.State{}, fmt.Errorf("%w: other sessions of this worker begin all the time", desk.ErrBusy)
}

// stateOf reads what attach and assigned answer.
func stateOf(a answer, session uint64) (desk.State, error) {
	st := desk.State{Session: session}
	var errS, errT error
	st.Seq, errS = strconv.ParseUint(a.text(1), 10, 64)
	term, errT := strconv.ParseUint(a.text(2), 10, 64)
	st.Term = cluster.Term(term)
	refs, err := refsOf(a.list(3))
	if err := errors.Join(errS, errT, err); err != nil {
		return st, fmt.Errorf("%w: %w", errAnswer, err)
	}
	specs, err := specsOf(a.list(4))
	if err != nil {
		return st, err
	}
	slices.SortFunc(refs, compareRefs)
	for _, r := range refs {
		if n := len(st.Chunks); n > 0 && st.Chunks[n-1].Refs[0].Job == r.Job {
			st.Chunks[n-1].Refs = append(st.Chunks[n-1].Refs, r)
		} else if spec := specs[r.Job]; spec != nil {
			st.Chunks = append(st.Chunks, desk.Given{Spec: spec, Refs: []job.Attempt{r}})
		}
	}
	return st, nil
}

func specsOf(list []string) (map[job.ID]*job.Spec, error) {
	out := map[job.ID]*job.Spec{}
	for i := 0; i+1 < len(list); i += 2 {
		spec := &job.Spec{}
		if err := json.Unmarshal([]byte(list[i+1]), spec); err != nil {
			return nil, fmt.Errorf("%w: spec of %.40q: %w", errAnswer, list[i], err)
		}
		out[job.ID(list[i])] = spec
	}
	return out, nil
}

// Seat implements desk.Crew.
func (s *Store) Seat(worker cluster.NodeID, session uint64) (desk.Seat, error) {
	return seat{s, worker, session, false}, nil
}

// at is this gateway, as scripts know it; apart: the worker may listen elsewhere.
func (s *Store) at(apart bool) string {
	if apart {
		return "?" + string(s.o.Self)
	}
	return string(s.o.Self)
}

// Names implements desk.Crew.
func (s *Store) Names(worker cluster.NodeID, h cluster.Hash) bool {
	got, err := s.run(s.scripts.names, string(worker))
	if err != nil {
		return false
	}
	specs, err := specsOf(got.list(1))
	if err != nil {
		return false
	}
	for _, spec := range specs {
		if spec.Artefact == h || spec.Config == h {
			return true
		}
	}
	return false
}

// Stats implements desk.Crew; it is some seconds old.
func (s *Store) Stats() desk.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// seat is a session of a worker.
type seat struct {
	s       *Store
	worker  cluster.NodeID
	session uint64
	apart   bool
}

// Apart implements desk.Roaming.
func (t seat) Apart() desk.Seat {
	t.apart = true
	return t
}

func (t seat) run(x *script, args ...string) (answer, error) {
	got, err := t.s.run(x, append([]string{string(t.worker), fmt.Sprint(t.session)}, args...)...)
	if err == nil {
		err = refused(got)
	}
	return got, err
}

// Beat implements desk.Seat.
func (t seat) Beat(b desk.Beat) (seq uint64, err error) {
	refs := make([]job.Attempt, len(b.Have))
	for i, h := range b.Have {
		refs[i] = h.Attempt
	}
	if err := desk.CheckRefs(refs); err != nil || b.Kept < 0 {
		return 0, fmt.Errorf("%w: %d kept: %w", desk.ErrInvalid, b.Kept, errors.Join(err))
	}
	if err := named(refs); err != nil {
		return 0, err
	}
	args := []string{t.s.at(t.apart), flag(b.Draining), fmt.Sprintf("%d %s %s", b.Kept, flag(b.Ready), flag(b.Draining))}
	for _, h := range b.Have {
		args = append(args, refText(h.Attempt), fmt.Sprint(h.Done))
	}
	got, err := t.run(t.s.scripts.beat, args...)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(got.text(1), 10, 64)
}

// Complete implements desk.Seat.
func (t seat) Complete(results []stream.Result) ([]desk.Verdict, error) {
	if len(results) > desk.MaxResults {
		return nil, fmt.Errorf("%w: %d results at once, at most %d are allowed", desk.ErrInvalid, len(results), desk.MaxResults)
	}
	args := []string{t.s.at(t.apart), fmt.Sprint(t.s.o.ResultBytes)}
	for i := range results {
		if err := (stream.Frame{Result: &results[i]}).Validate(); err != nil {
			return nil, fmt.Errorf("%w: %w", desk.ErrInvalid, err)
		}
		if err := named([]job.Attempt{results[i].Attempt}); err != nil {
			return nil, err
		}
		text, err := json.Marshal(results[i])
		if err != nil {
			return nil, err
		}
		args = append(args, refText(results[i].Attempt), string(text))
	}
	got, err := t.run(t.s.scripts.complete, args...)
	if err != nil {
		return nil, err
	}
	out := make([]desk.Verdict, 0, len(results))
	for _, v := range got.list(1) {
		out = append(out, desk.Verdict(v))
	}
	if len(out) != len(results) {
		return nil, fmt.Errorf("%w: %d verdicts of %d results", errAnswer, len(out), len(results))
	}
	return out, nil
}

// Assigned implements desk.Seat.
func (t seat) Assigned() (desk.State, error) {
	got, err := t.run(t.s.scripts.assigned, t.s.at(t.apart))
	if err != nil {
		return desk.State{}, err
	}
	return stateOf(got, t.session)
}

// Bye implements desk.Seat.
func (t seat) Bye() error {
	_, err := t.run(t.s.scripts.bye, "1")
	return err
}

// Lose implements desk.Seat.
func (t seat) Lose() error {
	_, err := t.run(t.s.scripts.bye, "0")
	return err
}

// pushOf reads what a script published.
func pushOf(text string) (p desk.Push, err error) {
	f := strings.SplitN(text, "\n", 6)
	if len(f) != 6 {
		return p, errAnswer
	}
	session, errS := strconv.ParseUint(f[1], 10, 64)
	seq, errN := strconv.ParseUint(f[2], 10, 64)
	term, errT := strconv.ParseUint(f[3], 10, 64)
	p = desk.Push{Worker: cluster.NodeID(f[0]), Session: session, Seq: seq, Term: cluster.Term(term), Kind: desk.PushKind(f[4])}
	head, tail, two := strings.Cut(f[5], "\n")
	var errK error
	switch p.Kind {
	case desk.PushChunks:
		spec := &job.Spec{}
		if errK = json.Unmarshal([]byte(head), spec); errK == nil {
			p.Chunks.Spec = spec
			p.Chunks.Refs, errK = refList(tail)
		}
	case desk.PushStop, desk.PushSettled:
		p.Refs, errK = refList(head)
	case desk.PushGone:
		p.Reason = stream.DropReason(head)
		p.After, errK = strconv.ParseUint(tail, 10, 64)
	default:
		errK = errAnswer
	}
	if !two && (p.Kind == desk.PushChunks || p.Kind == desk.PushGone) {
		errK = errAnswer
	}
	return p, errors.Join(errS, errN, errT, errK)
}
