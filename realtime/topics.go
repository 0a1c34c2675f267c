package realtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/realtime/delta"
)

// Topics of a watch.
const (
	TopicStatus  = "status"
	TopicMembers = "members"
	TopicLease   = "lease"
	TopicTerms   = "terms"
	TopicWorkers = "workers"
	TopicJobs    = "jobs"
	TopicRuns    = "workflows"
	TopicLoad    = "load"
	TopicOnion   = "onion"
	TopicEvents  = "events"
	TopicLinks   = "links"
	TopicZones   = "zones"
	// topicJob and an id is one job with all its figures.
	topicJob = "job/"
	// topicRun and an id is one run of a workflow with its steps.
	topicRun = "workflow/"
	// topicLoad and an id is one load test with all that it counts.
	topicLoad = "load/"
	// topicLinks and a name are all half-edges of one host.
	topicLinks = "links/"
)

// Topics lists the topics that can be chosen.
var topics = []string{TopicStatus, TopicMembers, TopicLinks, TopicLease, TopicTerms, TopicWorkers, TopicZones, TopicJobs, TopicRuns, TopicLoad, TopicOnion, TopicEvents}

// MaxTopics bounds the topics of one watch, jobs included.
const MaxTopics = 64

// JobTopic is the topic of one job.
func JobTopic(id job.ID) string { return topicJob + string(id) }

// RunTopic is the topic of one run of a workflow.
func RunTopic(id flow.RunID) string { return topicRun + string(id) }

// LoadTopic is the topic of one load test.
func LoadTopic(id event.LoadID) string { return topicLoad + string(id) }

// LinksTopic is the topic of all half-edges of one host.
func LinksTopic(node cluster.NodeID) string { return topicLinks + string(node) }

// ParseTopics reads a list that is separated by commas; empty: all but the links, the
// zones, for which the holder is asked, and the events.
func ParseTopics(text string) ([]string, error) {
	if text == "" {
		return slices.DeleteFunc(slices.Clone(topics), func(t string) bool { return t == TopicEvents || t == TopicLinks || t == TopicZones }), nil
	}
	list := strings.Split(text, ",")
	if len(list) > MaxTopics {
		return nil, fmt.Errorf("%d topics, at most %d are allowed", len(list), MaxTopics)
	}
	for _, t := range list {
		if !slices.Contains(topics, t) {
			return nil, fmt.Errorf("%.32q is not a topic: want some of %s", t, strings.Join(topics, ", "))
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// Source answers what this host sees.
type Source interface {
	Status(ctx context.Context) (api.Status, error)
	Members(ctx context.Context, all bool) (api.Members, error)
	Lease(ctx context.Context) (api.Lease, error)
	LeaseHistory(ctx context.Context) (api.LeaseHistory, error)
	// WorkerGroups has one row for all outside workers of a gateway.
	WorkerGroups(ctx context.Context) (api.Workers, error)
	// WatchedZones are how the holder judges them, as it told this host's zone.
	WatchedZones(ctx context.Context) (api.Zones, error)
	Jobs(ctx context.Context) (api.Jobs, error)
	Workflows(ctx context.Context) (api.Workflows, error)
	Workflow(ctx context.Context, id flow.RunID) (api.Workflow, error)
	LoadRuns(ctx context.Context) (api.LoadRuns, error)
	LoadRun(ctx context.Context, id event.LoadID) (api.LoadRun, error)
	LoadLive(ctx context.Context, id event.LoadID, after string, wait time.Duration) (api.LoadLive, error)
	Onion(ctx context.Context) (api.Onion, error)
	Job(ctx context.Context, id job.ID) (api.Job, error)
	ChunkMap(id job.ID, most int) (api.ChunkRuns, error)
	Links(ctx context.Context, of cluster.NodeID) (api.Links, error)
}

// reader reads the rows of a topic.
type reader struct {
	cols delta.Columns
	rows func(context.Context) ([]delta.Row, error)
}

// readerOf returns how a topic is read.
func readerOf(s Source, topic string) reader {
	switch topic {
	case TopicStatus:
		return statusKind.one(func(ctx context.Context) (statusRow, error) {
			st, err := s.Status(ctx)
			return statusRow{Status: st}, err
		})
	case TopicMembers:
		return memberKind.many(func(ctx context.Context) ([]api.Member, error) {
			list, err := s.Members(ctx, false)
			return list.Members, err
		})
	case TopicLease:
		return leaseKind.one(func(ctx context.Context) (leaseRow, error) {
			l, err := s.Lease(ctx)
			return leaseRow{Lease: l}, err
		})
	case TopicTerms:
		return termKind.many(func(ctx context.Context) ([]api.TermRecord, error) {
			h, err := s.LeaseHistory(ctx)
			return h.Terms, err
		})
	case TopicWorkers:
		return workerKind.many(func(ctx context.Context) ([]api.Worker, error) {
			list, err := s.WorkerGroups(ctx)
			return list.Workers, err
		})
	case TopicZones:
		return zoneKind.many(func(ctx context.Context) ([]api.Zone, error) {
			list, err := s.WatchedZones(ctx)
			return list.Zones, err
		})
	case TopicJobs:
		return jobKind.many(func(ctx context.Context) ([]jobRow, error) {
			list, err := s.Jobs(ctx)
			rows := make([]jobRow, 0, len(list.Jobs))
			for _, j := range list.Jobs {
				rows = append(rows, jobRow{Job: j})
			}
			return rows, err
		})
	case TopicRuns:
		return runKind.many(func(ctx context.Context) ([]runRow, error) {
			list, err := s.Workflows(ctx)
			rows := make([]runRow, 0, len(list.Workflows))
			for _, w := range list.Workflows {
				rows = append(rows, runRow{Workflow: w})
			}
			return rows, err
		})
	case TopicLoad:
		return loadsReader(s)
	case TopicOnion:
		return onionKind.one(func(ctx context.Context) (onionRow, error) {
			o, err := s.Onion(ctx)
			return onionRow{Onion: o}, err
		})
	}
	if topic == TopicLinks || strings.HasPrefix(topic, topicLinks) {
		of := cluster.NodeID(strings.TrimPrefix(strings.TrimPrefix(topic, TopicLinks), "/"))
		return linkKind.many(func(ctx context.Context) ([]api.Link, error) {
			list, err := s.Links(ctx, of)
			return list.Links, err
		})
	}
	if id, is := strings.CutPrefix(topic, topicLoad); is {
		return loadReader(s, event.LoadID(id))
	}
	if id, is := strings.CutPrefix(topic, topicRun); is {
		return runKind.many(func(ctx context.Context) ([]runRow, error) {
			w, err := s.Workflow(ctx, flow.RunID(id))
			return known([]runRow{{Workflow: w.Watched()}}, err)
		})
	}
	id := job.ID(strings.TrimPrefix(topic, topicJob))
	return wholeJobKind.many(func(ctx context.Context) ([]wholeJobRow, error) {
		row, err := wholeJob(ctx, s, id)
		return known([]wholeJobRow{row}, err)
	})
}

// known has no rows of what there is not.
func known[T any](rows []T, err error) ([]T, error) {
	if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.CodeNotFound {
		return nil, nil
	}
	return rows, err
}

// wholeJob reads a job, and then its map: what comes between makes another look.
func wholeJob(ctx context.Context, s Source, id job.ID) (row wholeJobRow, err error) {
	if row.Job, err = s.Job(ctx, id); err == nil {
		row.Map, err = s.ChunkMap(id, api.MaxWatchedRuns)
	}
	return row, err
}

// kind is what is known of the rows of a topic.
type kind[T any] struct {
	key, owner func(*T) string
	gauges     []gauge[T]
	// quiet clears what changes with every event and is no number: it is told with
	// the next difference. It may be nil.
	quiet func(*T)
}

// gauge is a field of T that only ages or grows: at returns where it is.
type gauge[T any] struct {
	name  string
	slack delta.Slack
	at    func(*T) any
}

// How far what a watcher has may be from what is: nobody is told of an age that rises
// and falls with each heartbeat, nor that it is a second more than an hour.
var (
	exact   = delta.Slack{}
	aging   = delta.Slack{Least: 2, Part: 1.0 / 8}    // seconds
	session = delta.Slack{Least: 15, Part: 1.0 / 8}   // seconds of what is renewed every two minutes
	trip    = delta.Slack{Least: 5e-4, Part: 1.0 / 4} // seconds
	load    = delta.Slack{Least: 0.05, Part: 1.0 / 4} // shares, and the score of load
	delay   = delta.Slack{Least: 0.01, Part: 1.0 / 2} // seconds
	skew    = delta.Slack{Least: 0.01, Part: 1.0 / 8} // seconds
	traffic = delta.Slack{Least: 1024, Part: 1.0 / 2} // bytes per second
	speed   = delta.Slack{Part: 1.0 / 16}
)

func (k kind[T]) one(read func(context.Context) (T, error)) reader {
	return k.many(func(ctx context.Context) ([]T, error) {
		v, err := read(ctx)
		return []T{v}, err
	})
}

func (k kind[T]) many(read func(context.Context) ([]T, error)) reader {
	r := reader{rows: func(ctx context.Context) ([]delta.Row, error) {
		list, err := read(ctx)
		if err != nil {
			return nil, err
		}
		rows := make([]delta.Row, 0, len(list))
		for _, v := range list {
			row, err := k.row(v)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
		return rows, nil
	}}
	for _, g := range k.gauges {
		r.cols = append(r.cols, delta.Column{Name: g.name, Slack: g.slack})
	}
	return r
}

func (k kind[T]) row(v T) (delta.Row, error) {
	row := delta.Row{Key: k.key(&v), Value: whole[T]{v}, Gauges: make([]float64, len(k.gauges))}
	if k.owner != nil {
		row.Owner = k.owner(&v)
	}
	still := v
	for i, g := range k.gauges {
		row.Gauges[i] = take(g.at(&still))
	}
	if k.quiet != nil {
		k.quiet(&still)
	}
	var err error
	row.Still, err = json.Marshal(still)
	return row, err
}

// whole encodes as rows of the API do.
type whole[T any] struct{ v T }

// MarshalJSON implements json.Marshaler.
func (w whole[T]) MarshalJSON() ([]byte, error) { return json.Marshal(api.Complete(w.v, api.Header{})) }

// take returns the number at p and clears it.
func take(p any) float64 {
	switch p := p.(type) {
	case **float64:
		if *p == nil {
			return math.NaN()
		}
		v := **p
		*p = nil
		return v
	case **uint64:
		if *p == nil {
			return math.NaN()
		}
		v := float64(**p)
		*p = nil
		return v
	case *float64:
		v := *p
		*p = 0
		return v
	case *uint64:
		v := float64(*p)
		*p = 0
		return v
	case *int:
		v := float64(*p)
		*p = 0
		return v
	}
	panic(fmt.Sprintf("realtime: a gauge at %T", p))
}

// headless hides the fields of an api.Header that lies deeper.
type headless struct {
	APIVersion *struct{} `json:"api_version,omitempty"`
	Node       *struct{} `json:"node,omitempty"`
	ObservedAt *struct{} `json:"observed_at,omitempty"`
	Position   *struct{} `json:"position,omitempty"`
}

type (
	statusRow struct {
		headless
		api.Status
	}
	leaseRow struct {
		headless
		api.Lease
	}
	jobRow struct {
		headless
		api.Job
	}
	// wholeJobRow is what was chosen of jobs.
	wholeJobRow struct {
		headless
		api.Job
		Map api.ChunkRuns `json:"map"`
	}
	runRow struct {
		headless
		api.Workflow
	}
	onionRow struct {
		headless
		api.Onion
	}
)

// leaseGauges are the ages in a summary of the lease.
func leaseGauges[T any](prefix string, at func(*T) *api.LeaseSummary) []gauge[T] {
	return []gauge[T]{
		{prefix + "renewed_seconds", aging, func(v *T) any { return &at(v).RenewedSeconds }},
		{prefix + "expires_seconds", aging, func(v *T) any { return &at(v).ExpiresSeconds }},
		{prefix + "tenure_seconds", aging, func(v *T) any { return &at(v).TenureSeconds }},
	}
}

var (
	statusKind = kind[statusRow]{
		key:   func(*statusRow) string { return TopicStatus },
		quiet: func(s *statusRow) { s.Log.StateHash = cluster.Hash{} },
		gauges: append(leaseGauges("lease.", func(s *statusRow) *api.LeaseSummary { return &s.Lease }),
			gauge[statusRow]{"uptime_seconds", aging, func(s *statusRow) any { return &s.UptimeSeconds }},
			gauge[statusRow]{"mesh.oldest_handshake_seconds", session, func(s *statusRow) any { return &s.Mesh.OldestHandshakeSeconds }},
			gauge[statusRow]{"log.events", exact, func(s *statusRow) any { return &s.Log.Events }},
			gauge[statusRow]{"log.size_bytes", exact, func(s *statusRow) any { return &s.Log.SizeBytes }},
			gauge[statusRow]{"log.reclaimable_bytes", exact, func(s *statusRow) any { return &s.Log.ReclaimableBytes }},
			gauge[statusRow]{"worker.running", exact, func(s *statusRow) any { return &s.Worker.Running }},
			gauge[statusRow]{"worker.queued", exact, func(s *statusRow) any { return &s.Worker.Queued }},
			gauge[statusRow]{"pressure.score", load, func(s *statusRow) any { return &s.Pressure.Score }},
			gauge[statusRow]{"pressure.cpu", load, func(s *statusRow) any { return &s.Pressure.CPU }},
			gauge[statusRow]{"pressure.memory", load, func(s *statusRow) any { return &s.Pressure.Memory }},
			gauge[statusRow]{"pressure.io", load, func(s *statusRow) any { return &s.Pressure.IO }},
			gauge[statusRow]{"pressure.memory_left", load, func(s *statusRow) any { return &s.Pressure.MemoryLeft }},
			gauge[statusRow]{"pressure.disk_left", load, func(s *statusRow) any { return &s.Pressure.DiskLeft }},
			gauge[statusRow]{"pressure.delay_seconds", delay, func(s *statusRow) any { return &s.Pressure.DelaySeconds }},
			gauge[statusRow]{"pressure.control_delay_seconds", delay, func(s *statusRow) any { return &s.Pressure.ControlDelaySeconds }},
			gauge[statusRow]{"pressure.goroutine_seconds", delay, func(s *statusRow) any { return &s.Pressure.GoroutineSeconds }},
			gauge[statusRow]{"pressure.sync_seconds", delay, func(s *statusRow) any { return &s.Pressure.SyncSeconds }},
			gauge[statusRow]{"worker.kept", exact, func(s *statusRow) any { return &s.Worker.Kept }},
		),
	}
	memberKind = kind[api.Member]{
		key: func(m *api.Member) string { return string(m.Node) },
		gauges: []gauge[api.Member]{
			{"seen_seconds", aging, func(m *api.Member) any { return &m.SeenSeconds }},
			{"rtt_seconds", trip, func(m *api.Member) any { return &m.RTTSeconds }},
			{"skew_seconds", skew, func(m *api.Member) any { return &m.SkewSeconds }},
			{"lag_events", exact, func(m *api.Member) any { return &m.LagEvents }},
		},
	}
	linkKind = kind[api.Link]{
		key:   func(l *api.Link) string { return string(l.From) + ">" + string(l.To) },
		quiet: func(l *api.Link) { l.ReportedAt = nil },
		gauges: []gauge[api.Link]{
			{"handshake_seconds", session, func(l *api.Link) any { return &l.HandshakeSeconds }},
			{"rtt_seconds", trip, func(l *api.Link) any { return &l.RTTSeconds }},
			{"receive_bytes_per_second", traffic, func(l *api.Link) any { return &l.ReceiveBytesPerSecond }},
			{"transmit_bytes_per_second", traffic, func(l *api.Link) any { return &l.TransmitBytesPerSecond }},
		},
	}
	leaseKind = kind[leaseRow]{
		key:    func(*leaseRow) string { return TopicLease },
		gauges: leaseGauges("", func(l *leaseRow) *api.LeaseSummary { return &l.LeaseSummary }),
	}
	termKind   = kind[api.TermRecord]{key: func(t *api.TermRecord) string { return strconv.FormatUint(uint64(t.Term), 10) }}
	workerKind = kind[api.Worker]{
		key: func(w *api.Worker) string { return string(w.Node) },
		gauges: []gauge[api.Worker]{
			{"workers", exact, func(w *api.Worker) any { return &w.Workers }},
			{"assigned", exact, func(w *api.Worker) any { return &w.Assigned }},
			{"window", exact, func(w *api.Worker) any { return &w.Window }},
			{"backlog_iterations", exact, func(w *api.Worker) any { return &w.BacklogIterations }},
			{"drain_seconds", aging, func(w *api.Worker) any { return &w.DrainSeconds }},
			{"rate_per_second", speed, func(w *api.Worker) any { return &w.RatePerSecond }},
			{"excluded_seconds", aging, func(w *api.Worker) any { return &w.ExcludedSeconds }},
		},
	}
	zoneKind = kind[api.Zone]{
		key: func(z *api.Zone) string { return z.Zone },
		gauges: []gauge[api.Zone]{
			{"for_seconds", aging, func(z *api.Zone) any { return &z.ForSeconds }},
			{"free", exact, func(z *api.Zone) any { return &z.Free }},
			{"queued", exact, func(z *api.Zone) any { return &z.Queued }},
			{"rtt_seconds", trip, func(z *api.Zone) any { return &z.RTTSeconds }},
		},
	}
	jobKind = kind[jobRow]{
		key:   func(j *jobRow) string { return string(j.ID) },
		owner: func(j *jobRow) string { return j.Owner },
		gauges: append(jobAges(func(j *jobRow) *api.Job { return &j.Job }),
			gauge[jobRow]{"chunks.pending", exact, func(j *jobRow) any { return &j.Chunks.Pending }},
			gauge[jobRow]{"chunks.assigned", exact, func(j *jobRow) any { return &j.Chunks.Assigned }},
			gauge[jobRow]{"chunks.accepted", exact, func(j *jobRow) any { return &j.Chunks.Accepted }},
			gauge[jobRow]{"iterations.accepted", exact, func(j *jobRow) any { return &j.Iterations.Accepted }},
			gauge[jobRow]{"attempts.assigned", exact, func(j *jobRow) any { return &j.Attempts.Assigned }},
		),
	}
	// A job that was chosen makes a difference with each of its chunks.
	wholeJobKind = kind[wholeJobRow]{
		key: func(j *wholeJobRow) string { return string(j.ID) }, owner: func(j *wholeJobRow) string { return j.Owner },
		gauges: jobAges(func(j *wholeJobRow) *api.Job { return &j.Job }),
	}
	runKind = kind[runRow]{
		key: func(r *runRow) string { return string(r.ID) }, owner: func(r *runRow) string { return r.Owner },
		gauges: []gauge[runRow]{{"elapsed_seconds", aging, func(r *runRow) any { return &r.ElapsedSeconds }}},
	}
	onionKind = kind[onionRow]{key: func(*onionRow) string { return TopicOnion }}
)

// jobAges are those of a job.
func jobAges[T any](at func(*T) *api.Job) []gauge[T] {
	return []gauge[T]{
		{"elapsed_seconds", aging, func(v *T) any { return &at(v).ElapsedSeconds }},
		{"rate_per_second", speed, func(v *T) any { return &at(v).RatePerSecond }},
		{"eta_seconds", aging, func(v *T) any { return &at(v).ETASeconds }},
	}
}
