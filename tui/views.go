package tui

import (
	"slices"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/present"
)

// view is one of the tables.
type view int

// The views, in the order of their keys.
const (
	viewHosts view = iota
	viewMesh
	viewEvents
	viewJobs
	viewWorkers
	viewOnion
	viewRuns
	viewLoads
	views
)

var viewNames = [views]string{"hosts", "mesh", "events", "jobs", "workers", "onion", "runs", "load"}

// shortNames are for a terminal that has no room for those.
var shortNames = [views]string{"host", "mesh", "log", "jobs", "work", "onion", "runs", "load"}

// topicOf is of what a view is made.
var topicOf = [views]string{"members", "links", "events", "jobs", "workers", "onion", "workflows", "load"}

// page is what a view shows: a table whose rows have keys, under lines of its own.
type page struct {
	above []string
	table present.Table
	keys  []string
	// about is what the events of a row are about.
	about []event.Subject
}

func (p *page) row(key string, about event.Subject) {
	p.keys, p.about = append(p.keys, key), append(p.about, about)
}

// steady keeps the columns in their places when a host becomes suspect and alive again:
// else all of the table is written anew.
func (p *page) steady() {
	for i := range p.table.Columns {
		if c := &p.table.Columns[i]; c.Kind == present.State {
			c.Least = len(cluster.Suspect)
		}
	}
}

// pageOf makes a view of what was said; only events about a subject are shown, and those of
// chunks that go well only with all.
func (w *watched) pageOf(v view, about event.Subject, all bool, now time.Time) (p page) {
	head := api.Header{Node: cluster.NodeID(w.hello.Node), ObservedAt: now.Add(w.ahead)}
	switch v {
	case viewHosts:
		list := rowsOf[api.Member](w, "members")
		p.table = present.Hosts(api.Members{Header: head, Members: list}, rowsOf[api.Worker](w, "workers"))
		for _, m := range list {
			p.row(string(m.Node), event.Subject{Member: string(m.Node)})
		}
	case viewMesh:
		list := rowsOf[api.Link](w, "links")
		p.table = present.Links(api.Links{Header: head, Links: list})
		for _, l := range list {
			p.row(string(l.From)+">"+string(l.To), event.Subject{Member: string(l.To)})
		}
	case viewEvents:
		p = eventsOf(w.events, about, all)
	case viewJobs:
		list := rowsOf[api.Job](w, "jobs")
		slices.SortStableFunc(list, func(a, b api.Job) int { return b.SubmittedAt.Compare(a.SubmittedAt) })
		p.table = present.Jobs(api.Jobs{Header: head, Jobs: list})
		for _, j := range list {
			p.row(string(j.ID), event.Subject{Job: string(j.ID)})
		}
	case viewWorkers:
		list := rowsOf[api.Worker](w, "workers")
		p.table = present.Workers(api.Workers{Header: head, Workers: list})
		for _, x := range list {
			p.row(string(x.Node), event.Subject{Worker: string(x.Node)})
		}
	case viewOnion:
		p = onionOf(w, head)
	case viewRuns:
		list := rowsOf[api.Workflow](w, "workflows")
		slices.SortStableFunc(list, func(a, b api.Workflow) int { return b.SubmittedAt.Compare(a.SubmittedAt) })
		p.table = present.Workflows(api.Workflows{Header: head, Workflows: list})
		for _, r := range list {
			p.row(string(r.ID), event.Subject{Run: string(r.ID)})
		}
	case viewLoads:
		list := rowsOf[api.WatchedLoad](w, "load")
		slices.SortStableFunc(list, func(a, b api.WatchedLoad) int { return b.SubmittedAt.Compare(a.SubmittedAt) })
		p.table = present.Loads(head, list)
		for _, l := range list {
			p.row(string(l.ID), event.Subject{User: l.Owner})
		}
	}
	return p
}

func eventsOf(list []event.Event, about event.Subject, all bool) (p page) {
	p.table = present.NewTable("TIME", "EVENT", "NODE", "SEQ", "TERM", "KIND", "HASH", "BODY")
	for i := range p.table.Columns {
		p.table.Columns[i].Wide = i > 1
	}
	for _, e := range list {
		if !about.Match(&e) {
			continue
		}
		if !all && routine(e.Kind) {
			p.above = []string{"without chunks that go well; c shows all"}
			continue
		}
		at := e.HLC.Time()
		said := present.Sentence(e.Source.Node, e.Kind, e.Body)
		row := []present.Cell{
			{Text: at.Format(time.TimeOnly), Exact: present.Stamp(at)},
			{Text: present.Brief(said), Exact: said},
			{Text: string(e.Source.Node)},
			{Text: present.TermOf(e.Seq)},
			{Text: present.TermOf(uint64(e.Term))},
			{Text: string(e.Kind)},
			{Text: e.Hash.String()},
			{Text: string(e.Body)},
		}
		p.table.Rows = append(p.table.Rows, row)
		p.row(e.Source.String()+"/"+present.TermOf(e.Seq), event.Subject{Member: string(e.Source.Node)})
	}
	return p
}

func onionOf(w *watched, head api.Header) (p page) {
	o, known := one[api.Onion](w, "onion")
	if !known {
		return p
	}
	o.Header = head
	p.above = append(p.above, "tor "+present.Tor(o.Tor))
	for _, x := range o.Addresses {
		line := "published"
		if x.PublishedAt != nil {
			line += " " + present.When(*x.PublishedAt, head.ObservedAt, false) + " ago"
		}
		p.above = append(p.above, line+" by "+present.OrDash(x.Publisher)+": "+x.Address)
	}
	for _, text := range o.Problems {
		p.above = append(p.above, "problem: "+text)
	}
	p.table = present.OnionHosts(o)
	for _, h := range o.Hosts {
		p.row(string(h.Node), event.Subject{Member: string(h.Node)})
	}
	return p
}
