package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/present"
)

const (
	// mostRows bounds a table of a plain page; what is more is counted.
	mostRows = 500
	// plainTime bounds what a plain page asks the daemon.
	plainTime = 20 * time.Second
	// maxFilter bounds what a form sends in a field.
	maxFilter = 200
)

// plainPage is a page of tables that needs neither script nor pictures.
type plainPage struct {
	name, title string
	// fields are those of its form.
	fields []field
	load   func(ctx context.Context, c *api.Client, q query) (view, error)
}

// query is what a form sent.
type query struct{ url.Values }

// view is what a page shows.
type view struct {
	header   api.Header
	sentence string
	parts    []part
}

// part is one card of a page: lines, or a table.
type part struct {
	title  string
	fields []present.Field
	table  *present.Table
	none   string              // what is said instead of a table without rows
	link   func(i int) string  // where the first cell of row i leads; nil: nowhere
	said   map[string]struct{} // columns that are sentences
}

// plainPages are all of them, in the order of the page's own.
func plainPages() []plainPage {
	words := field{name: "q", label: "with the words"}
	state := func(options ...string) field { return field{name: "state", label: "state", options: options} }
	all := field{name: "wide", label: "all columns", check: true}
	return []plainPage{
		{"overview", "Overview", nil, overviewPage},
		{"members", "Members", []field{words, state("alive", "joining", "suspect", "dead", "stopped", "left", "removed"), {name: "gone", label: "also who is gone", check: true}, all}, membersPage},
		{"lease", "Lease", []field{words, all}, leasePage},
		{"events", "Events", []field{
			words,
			{name: "kind", label: "kind, as lease*"},
			{name: "node", label: "of host"},
			{name: "entity", label: "about, as node:n1"},
			{name: "since", label: "since, as 2h"},
			{name: "last", label: "how many", options: []string{"100", "500", "10", "50"}},
		}, eventsPage},
		{"jobs", "Jobs", []field{words, state("pending", "queued", "running", "cancelling", "completed", "partial", "failed", "cancelled", "timeout", "skipped"), all}, jobsPage},
		{"workflows", "Workflows", []field{words, state("queued", "running", "stopping", "completed", "partial", "failed", "cancelled", "timeout"), all}, workflowsPage},
		{"workers", "Workers", []field{words, all}, workersPage},
		{"onion", "Onion", []field{words, all}, onionPage},
	}
}

// to is the way to another page, filtered; empty where nobody could go by it.
func to(page, field, value string) string {
	if len(value) > maxFilter {
		return ""
	}
	return page + "?" + url.Values{field: {value}}.Encode()
}

// ask gets one body.
func ask[T any](ctx context.Context, c *api.Client, path string) (T, error) {
	var out T
	text, err := c.Raw(ctx, path)
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(text, &out)
}

func overviewPage(ctx context.Context, c *api.Client, _ query) (view, error) {
	s, err := c.Status(ctx)
	if err != nil {
		return view{}, err
	}
	m, err := c.Members(ctx)
	if err != nil {
		return view{}, err
	}
	list, err := lastEvents(ctx, c, api.EventQuery{Tail: 10})
	if err != nil {
		return view{}, err
	}
	hosts := present.Members(m).Fit(90)
	return view{header: s.Header, sentence: sentenceOf(s), parts: []part{
		{title: "This host", fields: present.Status(s)},
		{title: "Members", table: &hosts},
		eventsPart("Last events", list),
	}}, nil
}

// sentenceOf says how the cluster is.
func sentenceOf(s api.Status) string {
	text := "Cluster " + present.OrDash(s.Cluster) + " is " + string(s.State)
	if len(s.Reasons) > 0 {
		text += ": " + strings.Join(s.Reasons, ", ")
	}
	if s.Lease.Holder == "" {
		return text + ". Nobody is known to hold the lease."
	}
	return text + ". " + string(s.Lease.Holder) + " holds the lease in term " + present.TermOf(uint64(s.Lease.Term)) + "."
}

func membersPage(ctx context.Context, c *api.Client, q query) (view, error) {
	path := "/v1/members"
	if q.Get("gone") != "" {
		path += "?all=true"
	}
	m, err := ask[api.Members](ctx, c, path)
	if want := q.Get("state"); want != "" {
		m.Members = slices.DeleteFunc(m.Members, func(x api.Member) bool { return string(present.StateOf(x)) != want })
	}
	t := present.Members(m)
	p := part{title: "Members", table: &t, none: "No such host.", link: func(i int) string {
		return to("events", "entity", "node:"+string(m.Members[i].Node))
	}}
	return view{header: m.Header, parts: []part{p}}, err
}

func leasePage(ctx context.Context, c *api.Client, _ query) (view, error) {
	l, err := c.Lease(ctx)
	if err != nil {
		return view{}, err
	}
	h, err := c.LeaseHistory(ctx)
	if err != nil {
		return view{}, err
	}
	v, err := c.Voters(ctx)
	terms, voters := present.Terms(h), present.Voters(v)
	return view{header: l.Header, parts: []part{
		{title: "Now", fields: present.LeasePage(l)},
		{title: "Terms, newest first", table: &terms, none: "No such term.", link: func(i int) string {
			return to("events", "entity", "term:"+present.TermOf(uint64(h.Terms[i].Term)))
		}},
		{title: "Voters", table: &voters, none: "No such voter."},
	}}, err
}

func eventsPage(ctx context.Context, c *api.Client, q query) (view, error) {
	e := api.EventQuery{Kind: q.Get("kind"), Node: cluster.NodeID(q.Get("node")), Entity: q.Get("entity"), Tail: 100}
	if n, err := strconv.ParseUint(q.Get("last"), 10, 10); err == nil && n > 0 {
		e.Tail = min(n, mostRows)
	}
	if s := q.Get("since"); s != "" {
		at, _, err := api.ParseSince(s, time.Now())
		if err != nil {
			return view{}, api.Errorf(api.CodeInvalidRequest, "since: %s", err)
		}
		e.Since = at
	}
	h, err := c.Version(ctx)
	if err != nil {
		return view{}, err
	}
	list, err := lastEvents(ctx, c, e)
	return view{header: h.Header, parts: []part{eventsPart("Events, newest first", list)}}, err
}

// lastEvents reads events, newest first.
func lastEvents(ctx context.Context, c *api.Client, q api.EventQuery) ([]api.Event, error) {
	var list []api.Event
	err := c.Events(ctx, q, api.FollowOptions{}, func(e api.Event) error {
		if len(list) > mostRows { // more than was asked for
			return api.ErrStop
		}
		list = append(list, e)
		return nil
	})
	slices.Reverse(list)
	return list, err
}

func eventsPart(title string, list []api.Event) part {
	t := present.NewTable("TIME (UTC)", "BY", "TERM", "KIND", "EVENT")
	for _, e := range list {
		form := "15:04:05"
		if e.Time.UTC().Format(time.DateOnly) != e.ObservedAt.UTC().Format(time.DateOnly) {
			form = "2006-01-02 15:04:05"
		}
		t.Add(e.Time.UTC().Format(form), string(e.Source.Node), present.TermOf(uint64(e.Term)), string(e.Kind), present.Sentence(e.Source.Node, e.Kind, e.Body))
	}
	t.Columns[2].Rank, t.Columns[3].Rank = lowRank, lowRank
	return part{title: title, table: &t, none: "No such event.", said: map[string]struct{}{"EVENT": {}}}
}

func jobsPage(ctx context.Context, c *api.Client, q query) (view, error) {
	if id := q.Get("job"); id != "" {
		return jobPage(ctx, c, id)
	}
	list, err := ask[api.Jobs](ctx, c, "/v1/jobs?limit="+strconv.Itoa(mostRows))
	if want := q.Get("state"); want != "" {
		list.Jobs = slices.DeleteFunc(list.Jobs, func(j api.Job) bool { return j.State != job.State(want) })
	}
	t := present.Jobs(list)
	p := part{title: "Jobs, newest first", table: &t, none: "No such job.", link: func(i int) string {
		return to("jobs", "job", string(list.Jobs[i].ID))
	}}
	return view{header: list.Header, parts: []part{p}}, err
}

func workflowsPage(ctx context.Context, c *api.Client, q query) (view, error) {
	if id := q.Get("run"); id != "" {
		return workflowPage(ctx, c, id)
	}
	list, err := c.Workflows(ctx)
	if want := q.Get("state"); want != "" {
		list.Workflows = slices.DeleteFunc(list.Workflows, func(w api.Workflow) bool { return w.State != flow.State(want) })
	}
	t := present.Workflows(list)
	p := part{title: "Runs of workflows, newest first", table: &t, none: "No such run.", link: func(i int) string {
		return to("workflows", "run", string(list.Workflows[i].ID))
	}}
	return view{header: list.Header, parts: []part{p}}, err
}

// workflowPage shows one run, its steps and what came out of them.
func workflowPage(ctx context.Context, c *api.Client, id string) (view, error) {
	w, err := c.Workflow(ctx, id)
	if err != nil {
		return view{}, err
	}
	steps, outputs := present.WorkflowSteps(w), present.WorkflowOutputs(w)
	fields := []present.Field{
		{Name: "name", Text: present.OrDash(w.Name)},
		{Name: "state", Text: string(w.State)},
		{Name: "owner", Text: present.OrDash(w.Owner)},
		{Name: "submitted", Text: present.Stamp(w.SubmittedAt)},
		{Name: "time", Text: present.Age(w.ElapsedSeconds)},
	}
	for _, f := range []present.Field{{Name: "reason", Text: w.Reason}, {Name: "stopped by", Text: strings.TrimSpace(w.StoppedBy + " " + w.StopReason)}} {
		if f.Text != "" {
			fields = append(fields, f)
		}
	}
	return view{header: w.Header, parts: []part{
		{title: "Run " + string(w.ID), fields: fields},
		{title: "Steps", table: &steps, none: "It has no steps.", said: map[string]struct{}{"REASON": {}}},
		{title: "Outputs", table: &outputs, none: "Nothing came out of it yet."},
	}}, nil
}

// jobPage shows one job.
func jobPage(ctx context.Context, c *api.Client, id string) (view, error) {
	j, err := c.Job(ctx, id)
	if err != nil {
		return view{}, err
	}
	results, failures := present.Metrics(j), present.Failures(j)
	fields := []present.Field{
		{Name: "name", Text: present.OrDash(j.Name)},
		{Name: "state", Text: string(j.State)},
		{Name: "owner", Text: present.OrDash(j.Owner)},
		{Name: "submitted", Text: present.Stamp(j.SubmittedAt)},
		{Name: "done", Text: present.Percent(j)},
		{Name: "chunks", Text: strconv.Itoa(j.Chunks.Accepted) + " of " + strconv.Itoa(j.Chunks.Total) + " accepted"},
	}
	for _, f := range []present.Field{{Name: "reason", Text: j.Reason}, {Name: "waits", Text: j.Waits}} {
		if f.Text != "" {
			fields = append(fields, f)
		}
	}
	return view{header: j.Header, parts: []part{
		{title: "Job " + string(j.ID), fields: fields},
		{title: "Results", table: &results, none: "None yet."},
		{title: "Failures", table: &failures, none: "None.", said: map[string]struct{}{"REASON": {}}},
	}}, nil
}

func workersPage(ctx context.Context, c *api.Client, _ query) (view, error) {
	w, err := ask[api.Workers](ctx, c, "/v1/workers")
	t := present.Workers(w)
	return view{header: w.Header, parts: []part{{title: "Workers, as the holder sees them", table: &t, none: "No such worker."}}}, err
}

func onionPage(ctx context.Context, c *api.Client, _ query) (view, error) {
	o, err := c.Onion(ctx)
	addresses, hosts := present.Addresses(o), present.OnionHosts(o)
	tor := []present.Field{{Name: "tor", Text: present.Tor(o.Tor)}}
	if text := present.Operators(o); text != "" {
		tor = append(tor, present.Field{Name: "page found by", Text: text})
	}
	for _, p := range o.Problems {
		tor = append(tor, present.Field{Name: "problem", Text: p})
	}
	return view{header: o.Header, parts: []part{
		{title: "This host", fields: tor},
		{title: "Addresses", table: &addresses, none: "No such address."},
		{title: "Hosts", table: &hosts, none: "No such host.", said: map[string]struct{}{"WHY": {}}},
	}}, err
}

// taken is why a request is one of another page that takes parts of this one; a link
// leads here from anywhere.
func (h *handler) taken(r *http.Request) *api.Problem {
	if r.Header.Get("Sec-Fetch-Mode") == "navigate" {
		return nil
	}
	return h.sameSite(r)
}

// plain serves the pages that need no script.
func (h *handler) plain(w http.ResponseWriter, r *http.Request) {
	i := slices.IndexFunc(h.pages, func(p plainPage) bool { return p.name == r.PathValue("page") })
	p := h.taken(r)
	if p == nil && i < 0 {
		p = notFound(r)
	}
	if p != nil {
		refuse(w, p)
		return
	}
	at := h.pages[i]
	q := query{r.URL.Query()}
	for _, f := range append(at.fields, field{name: "job"}) {
		if len(q.Get(f.name)) > maxFilter {
			q.Set(f.name, "")
		}
	}
	v, problem := h.view(r.Context(), at, q)
	var d doc
	d.head(at, h.style, v)
	d.put("<body>")
	d.body(at, "", h.pages, v, problem, q)
	d.put("</body></html>\n")
	status := http.StatusOK
	if problem != nil {
		status = problem.Status
	}
	send(w, status, d.String())
}

// view asks the daemon for what a page shows.
func (h *handler) view(ctx context.Context, p plainPage, q query) (view, *api.Problem) {
	ctx, cancel := context.WithTimeout(ctx, plainTime)
	defer cancel()
	v, err := p.load(ctx, api.New("the daemon", "http://skein", h.o.API), q)
	if err == nil {
		return v, nil
	}
	if p, ok := errors.AsType[*api.Problem](err); ok {
		return v, p
	}
	return v, away(err)
}

// send writes a page.
func send(w http.ResponseWriter, status int, text string) {
	head := w.Header()
	head.Set("Content-Type", "text/html; charset=utf-8")
	head.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = (&patient{w: w, c: http.NewResponseController(w)}).Write([]byte(text)) // who reads no more has gone
}

// open serves the page where everybody may read: with data, until its script has
// some of its own.
func (h *handler) open(w http.ResponseWriter, r *http.Request) {
	if p := h.taken(r); p != nil {
		refuse(w, p)
		return
	}
	const mark = `<div id="app"></div>`
	before, after, ok := bytes.Cut(h.files["/index.html"].plain, []byte(mark))
	if from, rest, has := bytes.Cut(before, []byte("<noscript>")); has {
		_, rest, _ = bytes.Cut(rest, []byte("</noscript>"))
		before = slices.Concat(from, rest)
	}
	if !ok {
		refuse(w, api.Errorf(api.CodeInternal, "the page has no place for its script"))
		return
	}
	at := h.pages[0]
	v, problem := h.view(r.Context(), at, query{})
	var d doc
	d.Write(before)
	d.put(`<div id="plain"`)
	d.attr("data-base", h.o.Base)
	d.put(">")
	d.body(at, "p/", h.pages, v, problem, query{})
	d.put("</div>", mark)
	d.Write(after)
	send(w, http.StatusOK, d.String())
}

// words are what the rows of a table are chosen by, in lower case.
func (q query) words() []string { return strings.Fields(strings.ToLower(q.Get("q"))) }
