package plan

import (
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/order"
	"github.com/skein-project/skein/scheduler/plan/step"
)

// need is what makes a worker eligible. Jobs with the same need share a class.
// Permission is decided on exact sets: a filter may only save a question, never
// answer yes.
type need struct {
	executor string
	zones    string // joined by line ends, as the others
	access   job.Access
	owner    string // with any access but public
	users    string
	groups   string
}

func needOf(spec job.Spec, owner string) need {
	n := need{executor: spec.Needs(), zones: strings.Join(spec.Zones, "\n"), access: job.AccessPublic}
	if a := spec.Permission.Access; a != "" && a != job.AccessPublic {
		n.access, n.owner = a, owner
		n.users, n.groups = strings.Join(spec.Permission.Users, "\n"), strings.Join(spec.Permission.Groups, "\n")
	}
	return n
}

// class is the workers that are eligible for some jobs: a set of exactly these,
// and those of them with room, by their time to drain.
type class struct {
	need
	zoneSet    []string
	permission job.Permission
	jobs       int
	member     order.Set
	fit        int // members
	open       order.Queue
}

// allows reports whether w may run the class's jobs, whatever it does now.
func (p *Plan) allows(c *class, w *worker) bool {
	if !slices.Contains(w.executors, c.executor) || len(c.zoneSet) > 0 && !slices.Contains(c.zoneSet, w.zone) {
		return false
	}
	return p.permits(c, w)
}

// permits reports whether the class's owner lets w run its jobs.
func (p *Plan) permits(c *class, w *worker) bool {
	return c.permission.Allows(c.owner, w.owner, func(group, who string) bool { return p.groups[group][who] })
}

// classOf returns the class of a need, and makes it if there is none.
func (p *Plan) classOf(spec job.Spec, owner string) *class {
	n := needOf(spec, owner)
	for _, c := range p.classes {
		if c.need == n {
			return c
		}
	}
	c := &class{need: n, zoneSet: spec.Zones, permission: spec.Permission}
	p.classes = append(p.classes, c)
	for _, w := range p.workers {
		if w != nil {
			p.refit(c, w)
		}
	}
	return c
}

// drop forgets a class that no job needs any more.
func (p *Plan) drop(c *class) {
	if c.jobs--; c.jobs == 0 {
		p.classes = slices.DeleteFunc(p.classes, func(o *class) bool { return o == c })
	}
}

// refit looks anew whether w belongs to c, and where it stands.
func (p *Plan) refit(c *class, w *worker) {
	is := w.serves() && p.allows(c, w)
	if was := c.member.Has(w.index); was != is {
		c.member.Put(w.index, is)
		if is {
			c.fit++
		} else {
			c.fit--
		}
	}
	switch {
	case is && w.open:
		c.open.Set(w.index, w.drain())
	default:
		c.open.Remove(w.index)
	}
}

// review looks anew at all that w may do. It is called after every change of
// what w is allowed or fit to do.
func (p *Plan) review(w *worker, now time.Duration) {
	p.gauge(w, now)
	for _, c := range p.classes {
		p.refit(c, w)
	}
	p.doubt(w, now)
}

// place puts w where its load belongs. It is called after every change of what
// w has to do.
func (p *Plan) place(w *worker, now time.Duration) {
	p.gauge(w, now)
	if !w.open {
		for _, c := range p.classes {
			c.open.Remove(w.index)
		}
		return
	}
	key := w.drain()
	for _, c := range p.classes {
		if c.member.Has(w.index) {
			c.open.Set(w.index, key)
		}
	}
}

// gauge looks anew whether w has room for more.
func (p *Plan) gauge(w *worker, now time.Duration) {
	is := w.serves() && p.hasRoom(w, now)
	if is != w.open {
		w.open = is
		if is {
			p.roomy++
		} else {
			p.roomy--
		}
	}
	if spare := is && len(w.tries) < w.slots; spare != w.spare {
		w.spare = spare
		if spare {
			p.spare++
		} else {
			p.spare--
		}
	}
}

// setGroup replaces the members of a group.
func (p *Plan) setGroup(e step.GroupChanged) {
	if len(e.Members) == 0 {
		delete(p.groups, e.Group)
	} else {
		set := make(map[string]bool, len(e.Members))
		for _, m := range e.Members {
			set[m] = true
		}
		p.groups[e.Group] = set
	}
	for _, c := range p.classes {
		if !slices.Contains(c.permission.Groups, e.Group) {
			continue
		}
		for _, w := range p.workers {
			if w != nil {
				p.refit(c, w)
			}
		}
	}
}
