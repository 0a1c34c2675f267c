package eligible

import (
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/order"
)

// Worker is what decides which jobs a worker may run, whatever it does now.
type Worker struct {
	Index     int32    // the caller's number of it
	Owner     string   // whose worker it is; empty: nobody's in particular
	Zone      string   // empty: it is in none
	Executors []string // see job.Spec.Needs
	Memory    uint64   // bytes that an attempt may have there; 0: it did not say
	Files     bool     // it runs jobs with files
	Full      bool     // it has no room for outputs now
	// Accept is whose jobs its host runs, settled; zero: everybody's.
	Accept job.Acceptance

	Stranger    bool // no member of the cluster runs it
	Established bool // with Stranger: it has shown that its results are right
}

// Keeps is the zone whose slots, that of w among them, may be kept for somebody; of a stranger
// none is.
func (w *Worker) Keeps() string {
	if w.Stranger {
		return ""
	}
	return w.Zone
}

// Narrows reports that w runs not everybody's jobs.
func (w *Worker) Narrows() bool { return w.Stranger || w.Accept.Narrows() }

// need is what makes a worker eligible. Jobs with the same need share a class.
// Permission is decided on exact sets, never by a filter.
type need struct {
	executor string
	memory   uint64 // bytes of an attempt
	zones    string // joined by line ends, as the others
	access   job.Access
	outside  bool
	files    bool   // see job.Policy.HasFiles
	outputs  bool   // chunks leave some
	owner    string // with any access but public, or while a worker narrows
	users    string
	groups   string
}

func needOf(spec job.Spec, owner string, narrow bool) need {
	n := need{executor: spec.Needs(), memory: spec.MemoryBytes, zones: strings.Join(spec.Zones, "\n"), access: job.AccessPublic, outside: spec.Permission.Outside}
	n.files, n.outputs = spec.HasFiles(), len(spec.Outputs) > 0
	if narrow {
		n.owner = owner
	}
	if a := spec.Permission.Access; a != "" && a != job.AccessPublic {
		n.access, n.owner = a, owner
		n.users, n.groups = strings.Join(spec.Permission.Users, "\n"), strings.Join(spec.Permission.Groups, "\n")
	}
	return n
}

// Class is the workers that may run some jobs now: a set of exactly these, and
// those of them with room, by their time to drain.
type Class struct {
	need
	zoneSet    []string
	permission job.Permission
	jobs       int // open ones
	parts
	open order.Queue
}

// Classes is the classes of all open jobs, and who belongs to the groups that
// they name. NewClasses makes it.
type Classes struct {
	list   []*Class
	groups map[string]map[string]bool
	narrow bool // jobs of two owners do not share a class
}

// Narrow says whether some worker accepts not everybody's jobs. If it reports true
// the classes of open jobs no longer are what Open would return: the caller opens
// them all again.
func (t *Classes) Narrow(on bool) (changed bool) {
	changed = on != t.narrow
	t.narrow = on
	return changed
}

// NewClasses returns no classes and no groups.
func NewClasses() *Classes { return &Classes{groups: make(map[string]map[string]bool)} }

// Open returns the class of a job that begins. The workers of a new one are not
// in it yet: the caller lets each Enter.
func (t *Classes) Open(spec job.Spec, owner string) (c *Class, fresh bool) {
	c = newClass(spec, owner, t.narrow)
	for _, have := range t.list {
		if have.need == c.need {
			have.jobs++
			return have, false
		}
	}
	t.list = append(t.list, c)
	return c, true
}

// newClass is the class of one job.
func newClass(spec job.Spec, owner string, narrow bool) *Class {
	return &Class{need: needOf(spec, owner, narrow), zoneSet: spec.Zones, permission: spec.Permission, jobs: 1}
}

// Close forgets a class that no job needs any more.
func (t *Classes) Close(c *Class) {
	if c.jobs--; c.jobs == 0 {
		t.list = slices.DeleteFunc(t.list, func(o *Class) bool { return o == c })
	}
}

// Lacks says what keeps w from the jobs of c whatever it does now, or "": the
// first that it finds of executor, version, memory, zone, permission, what its host
// accepts and room for outputs.
func (t *Classes) Lacks(c *Class, w *Worker) Reason {
	switch {
	case !slices.Contains(w.Executors, c.executor), w.Stranger && c.executor != job.ExecutorWASM:
		return LacksExecutor
	case c.files && !w.Files:
		return LacksVersion
	case w.Memory > 0 && c.memory > w.Memory:
		return LacksMemory
	case len(c.zoneSet) > 0 && !slices.Contains(c.zoneSet, w.Zone):
		return LacksZone
	case w.Stranger && !c.permission.AllowsOutside(c.owner, w.Owner, t.member), !w.Stranger && !c.permission.Allows(c.owner, w.Owner, t.member):
		return LacksPermission
	case !w.Accept.Allows(w.Owner, c.owner, t.member):
		return LacksAccept
	case c.outputs && w.Full:
		return LacksOutputRoom
	}
	return ""
}

func (t *Classes) member(group, who string) bool { return t.groups[group][who] }

// Allows reports whether w may run the jobs of c, whatever it does now.
func (t *Classes) Allows(c *Class, w *Worker) bool { return t.Lacks(c, w) == "" }

// Began reports whether w may go on with a job of c that it began: what its host
// accepts and has room for is asked only for what is new.
func (t *Classes) Began(c *Class, w *Worker) bool {
	lacks := t.Lacks(c, w)
	return lacks == "" || lacks == LacksAccept || lacks == LacksOutputRoom
}

// Takes reports whether w may run a job of owner, whatever it does now.
func (t *Classes) Takes(spec job.Spec, owner string, w *Worker) bool {
	return t.Allows(newClass(spec, owner, true), w)
}

// Standing is how a worker does now.
type Standing struct {
	Serves bool   // it takes part
	Open   bool   // and has room for more
	Drain  uint64 // when it is done with what it has
}

// Enter looks again whether w belongs to c, and where it stands.
func (t *Classes) Enter(c *Class, w *Worker, s Standing) {
	is := s.Serves && t.Allows(c, w)
	c.put(w, is)
	c.stand(w, s)
}

// stand puts w where its load belongs.
func (c *Class) stand(w *Worker, s Standing) {
	if !s.Open || !c.Has(w.Index) {
		c.open.Remove(w.Index)
		c.own.Remove(w.Index)
		return
	}
	c.open.Set(w.Index, s.Drain)
	if !w.Stranger {
		c.own.Set(w.Index, s.Drain)
	} else {
		c.own.Remove(w.Index)
	}
}

// Review is Enter for all classes, after a change of what w is or may do.
func (t *Classes) Review(w *Worker, s Standing) {
	for _, c := range t.list {
		t.Enter(c, w, s)
	}
}

// Place puts w where its load belongs, after a change of nothing else.
func (t *Classes) Place(w *Worker, s Standing) {
	for _, c := range t.list {
		c.stand(w, s)
	}
}

// SetGroup replaces the members of a group, none: there is no such group. It
// yields the classes that it matters to: the caller lets each worker Enter.
func (t *Classes) SetGroup(group string, members []string) (touched []*Class) {
	if len(members) == 0 {
		delete(t.groups, group)
	} else {
		set := make(map[string]bool, len(members))
		for _, m := range members {
			set[m] = true
		}
		t.groups[group] = set
	}
	for _, c := range t.list {
		if t.narrow || slices.Contains(c.permission.Groups, group) {
			touched = append(touched, c)
		}
	}
	return touched
}
