package schedules

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/eventlog/state/canon"
)

const (
	maxActor = 128 // bytes
	// maxTimes is how many times of a schedule are kept.
	maxTimes = 16
	// graveLife is how long is known what came of a schedule that is no more.
	graveLife = 30 * 24 * time.Hour
)

// Fold is what the events applied so far mean for schedules. The zero value is not
// usable, see New.
type Fold struct{ all map[flow.ScheduleID]schedule }

// schedule is one of them. Its slice is never changed in place.
type schedule struct {
	set   canon.Register[said]
	times []fired // by time, the latest maxTimes
}

// said is what was said of a schedule, as it was written and as it is read.
type said struct {
	body []byte
	b    event.ScheduleSet
}

type fired = canon.Register[event.ScheduleFired]

// New returns the Fold of an empty log.
func New() *Fold { return &Fold{all: make(map[flow.ScheduleID]schedule)} }

// Clone returns an independent copy.
func (f *Fold) Clone() *Fold { return &Fold{all: maps.Clone(f.all)} }

// Empty reports whether nothing was ever said of a schedule.
func (f *Fold) Empty() bool { return len(f.all) == 0 }

// Apply folds an event, if it is about schedules. ok is false if it cannot be what it
// says.
func (f *Fold) Apply(e *event.Event) (about, ok bool) {
	switch e.Kind {
	case event.KindScheduleSet:
		s, ok := readSet(e.Body)
		if ok {
			one := f.all[s.b.Schedule]
			one.set.Set(canon.KeyOf(e), s)
			f.all[s.b.Schedule] = one
		}
		return true, ok
	case event.KindScheduleFired:
		var b event.ScheduleFired
		if json.Unmarshal(e.Body, &b) != nil || !valid(b) {
			return true, false
		}
		one := f.all[b.Schedule]
		one.times = with(one.times, fired{At: canon.KeyOf(e), V: b})
		f.all[b.Schedule] = one
		return true, true
	}
	return false, true
}

// with returns the latest times, one of them new.
func with(times []fired, t fired) []fired {
	i, known := slices.BinarySearchFunc(times, t.V.At, func(f fired, at int64) int { return cmp.Compare(f.V.At, at) })
	times = slices.Clone(times)
	if known {
		times[i].First(t.At, t.V)
		return times
	}
	times = slices.Insert(times, i, t)
	return times[max(0, len(times)-maxTimes):]
}

func readSet(body []byte) (s said, ok bool) {
	s.body = body
	if json.Unmarshal(body, &s.b) != nil {
		return s, false
	}
	b := s.b
	ok = b.Owner != "" && len(b.Owner) <= cluster.MaxPrincipal && flow.CheckScheduleName(b.Name) == nil && b.Schedule == flow.NewScheduleID(b.Owner, b.Name) &&
		len(b.Actor) <= maxActor && len(b.Cron) <= flow.MaxCron && len(b.Zone) <= flow.MaxZone && b.Since >= 0
	if ok && !b.Removed {
		ok = b.Cron != "" && b.Missed.Known() && b.Overlap.Known() && b.MissedSeconds >= 0 && b.MissedSeconds <= flow.MaxMissed &&
			len(b.Def) > 0 && len(b.Def) <= flow.MaxDefBytes && len(b.Params) > 0 && len(b.Params) <= flow.MaxParamBytes
	}
	return s, ok
}

func valid(b event.ScheduleFired) bool {
	if _, err := flow.ParseScheduleID(string(b.Schedule)); err != nil || b.At < 0 || b.Missed < 0 || len(b.Skipped) > cluster.MaxReason {
		return false
	}
	if b.Run != "" {
		if _, err := flow.ParseRunID(string(b.Run)); err != nil {
			return false
		}
	}
	return (b.Run == "") != (b.Skipped == "")
}

// newest is the latest that was said of a schedule.
func (s schedule) newest() cluster.HLC {
	at := s.set.At.HLC
	for _, t := range s.times {
		at = max(at, t.At.HLC)
	}
	return at
}

// gone reports that there is no such schedule.
func (s schedule) gone() bool { return s.set.At.IsZero() || s.set.V.b.Removed }

// Settle drops what is needed no more, when what is folded becomes a base.
func (f *Fold) Settle() { f.all = f.needed() }

// needed leaves out what is known of schedules that are no more for long.
func (f *Fold) needed() map[flow.ScheduleID]schedule {
	var newest cluster.HLC
	for _, s := range f.all {
		newest = max(newest, s.newest())
	}
	out := make(map[flow.ScheduleID]schedule, len(f.all))
	for id, s := range f.all {
		if !s.gone() || newest.Time().Sub(s.newest().Time()) <= graveLife {
			out[id] = s
		}
	}
	return out
}

// Write writes all of f as docs/state-format.md has it.
func (f *Fold) Write(w *canon.Writer) {
	all := f.needed()
	w.Count(len(all))
	for _, id := range slices.Sorted(maps.Keys(all)) {
		s := all[id]
		w.Text(string(id))
		w.Flag(!s.set.At.IsZero())
		if !s.set.At.IsZero() {
			w.Key(s.set.At)
			w.Count(len(s.set.V.body))
			w.Raw(s.set.V.body)
		}
		w.Count(len(s.times))
		for _, t := range s.times {
			w.Key(t.At)
			w.Num(uint64(t.V.At)) //nolint:gosec // not below 0
			w.Text(string(t.V.Run))
			w.Text(t.V.Skipped)
			w.Count(t.V.Missed)
		}
		w.Flush()
	}
}

// maxBody bounds the body of an event about a schedule, in bytes.
const maxBody = 1 << 20

// Read reads what Write wrote into f, which is empty.
func (f *Fold) Read(in *canon.Reader) {
	for n := in.Count(); n > 0 && in.OK(); n-- {
		id := flow.ScheduleID(in.Text(flow.MaxName))
		_, err := flow.ParseScheduleID(string(id))
		in.Check(err == nil, "schedule")
		var s schedule
		if in.Flag() {
			at, size := in.Key(), in.Num()
			in.Check(size <= maxBody, "schedule")
			if !in.OK() {
				return
			}
			set, ok := readSet(slices.Clone(in.Bytes(size)))
			in.Check(ok && set.b.Schedule == id && !at.IsZero(), "schedule")
			s.set = canon.Register[said]{At: at, V: set}
		}
		count := in.Count()
		in.Check(count <= maxTimes && (count > 0 || !s.set.At.IsZero()), "times of a schedule")
		for ; count > 0 && in.OK(); count-- {
			t := fired{At: in.Key(), V: event.ScheduleFired{Schedule: id, At: int64(in.Num())}} //nolint:gosec // valid refuses what does not fit
			t.V.Run, t.V.Skipped, t.V.Missed = flow.RunID(in.Text(flow.MaxName)), in.Text(cluster.MaxReason), in.Int()
			in.Check(in.OK() && valid(t.V) && (len(s.times) == 0 || s.times[len(s.times)-1].V.At < t.V.At), "time of a schedule")
			s.times = append(s.times, t)
		}
		f.all[id] = s
	}
}

// Schedule is what the log says of a schedule. Nothing in it is to be changed.
type Schedule struct {
	event.ScheduleSet
	Set   cluster.HLC // when that was said
	Times []Time      // what came of the latest ones, in their order
}

// Time is what came of a time of a schedule.
type Time struct {
	event.ScheduleFired
	Logged cluster.HLC
}

// After is the time up to which nothing is due, in seconds since the Unix epoch.
func (s Schedule) After() int64 {
	if n := len(s.Times); n > 0 {
		return max(s.Since, s.Times[n-1].At)
	}
	return s.Since
}

// Schedule returns one; false: there is none.
func (f *Fold) Schedule(id flow.ScheduleID) (Schedule, bool) {
	s := f.all[id]
	if s.gone() {
		return Schedule{}, false
	}
	out := Schedule{ScheduleSet: s.set.V.b, Set: s.set.At.HLC}
	for _, t := range s.times {
		out.Times = append(out.Times, Time{ScheduleFired: t.V, Logged: t.At.HLC})
	}
	return out, true
}

// Schedules returns all there are, by owner and name.
func (f *Fold) Schedules() (out []Schedule) {
	for id := range f.all {
		if s, ok := f.Schedule(id); ok {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Schedule) int {
		return cmp.Or(strings.Compare(a.Owner, b.Owner), strings.Compare(a.Name, b.Name))
	})
	return out
}

// Count says how many schedules there are, and whether one is among them.
func (f *Fold) Count(id flow.ScheduleID) (n int, there bool) {
	for _, s := range f.all {
		if !s.gone() {
			n++
		}
	}
	return n, !f.all[id].gone()
}

// AddArtefacts adds to need what steps of the workflows need that are to run.
func (f *Fold) AddArtefacts(need map[cluster.Hash]bool) {
	for _, s := range f.all {
		if s.gone() {
			continue
		}
		def, err := flow.Decode(s.set.V.b.Def)
		if err != nil {
			continue // nobody can run it
		}
		for _, one := range def.Steps {
			for _, spec := range one.Jobs() {
				for _, h := range spec.Hashes() {
					need[h] = true
				}
			}
		}
	}
}

// AddFiles adds to kept the files that steps of the workflows are given that are to run.
func (f *Fold) AddFiles(kept map[cluster.Hash]bool) {
	for _, s := range f.all {
		if !s.gone() {
			flow.AddFiles(kept, s.set.V.b.Def)
		}
	}
}
