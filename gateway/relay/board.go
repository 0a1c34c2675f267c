package relay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/channel"
	"github.com/skein-project/skein/realtime"
	"github.com/skein-project/skein/realtime/delta"
)

// Bounds of a message.
const (
	maxPush   = 4 << 10 // bytes
	maxReason = 512
	maxName   = 256
	mostJobs  = 64
)

// entry is what is known of a job.
type entry struct {
	api.ChannelJob
	owner string
}

// board is what was heard last of the cluster and its jobs, and what of it was not told yet. It
// does no I/O.
type board struct {
	cluster *api.ChannelCluster // nil: nothing is known yet
	jobs    map[job.ID]*entry
	of      map[string]map[job.ID]bool // by owner
	synced  bool                       // all that there is was heard
	before  map[job.ID]*entry          // the jobs before a snapshot, within its parts; nil: not within one

	lease bool                       // the cluster is another
	job   map[job.ID]bool            // these jobs are
	gone  map[job.ID]bool            // these are not kept any more
	user  map[string]map[job.ID]bool // these jobs of an owner are, apart from their counts
}

func newBoard() *board {
	b := &board{jobs: map[job.ID]*entry{}, of: map[string]map[job.ID]bool{}}
	b.told()
	return b
}

// told forgets what was not told yet.
func (b *board) told() {
	b.lease, b.job, b.gone, b.user = false, map[job.ID]bool{}, map[job.ID]bool{}, map[string]map[job.ID]bool{}
}

// take takes in a message of the stream; anew says that all is to be told again.
func (b *board) take(m realtime.Message) (anew bool, err error) {
	switch m.Event {
	case delta.Synced:
		if anew = !b.synced; anew {
			b.synced, b.lease, b.job, b.user = true, false, map[job.ID]bool{}, map[string]map[job.ID]bool{}
		}
		return anew, nil
	case delta.Hello, delta.Reset:
		b.synced = false
		return false, nil
	case delta.Snapshot, delta.Delta, delta.Gauges:
	default:
		return false, nil
	}
	var x struct {
		Topic string            `json:"topic"`
		Rows  []json.RawMessage `json:"rows"`
		Last  bool              `json:"last"`
		Set   []json.RawMessage `json:"set"`
		Del   []string          `json:"del"`
		Keys  []string          `json:"keys"`
		Cols  map[string][]*float64
	}
	if err := json.Unmarshal(m.Data, &x); err != nil {
		return false, fmt.Errorf("%s: %w", m.Event, err)
	}
	switch {
	case x.Topic == realtime.TopicLease && m.Event != delta.Gauges:
		return false, b.takeLease(append(x.Rows, x.Set...))
	case x.Topic != realtime.TopicJobs:
		return false, nil
	case m.Event == delta.Gauges:
		b.takeGauges(x.Keys, x.Cols)
		return false, nil
	case m.Event == delta.Snapshot && b.before == nil:
		b.before = b.jobs
		b.jobs, b.of = map[job.ID]*entry{}, map[string]map[job.ID]bool{}
	}
	for _, id := range x.Del {
		b.drop(job.ID(id))
	}
	for _, row := range append(x.Rows, x.Set...) {
		if err := b.takeJob(row); err != nil {
			return false, err
		}
	}
	if m.Event == delta.Snapshot && x.Last { // what was in none of its parts is not there any more
		for id := range b.before {
			if b.jobs[id] == nil {
				b.gone[id] = true
			}
		}
		b.before = nil
	}
	return false, nil
}

func (b *board) takeLease(rows []json.RawMessage) error {
	for _, row := range rows {
		var l struct {
			Holder cluster.NodeID `json:"holder"`
			Term   cluster.Term   `json:"term"`
		}
		if err := json.Unmarshal(row, &l); err != nil {
			return fmt.Errorf("lease: %w", err)
		}
		now := api.ChannelCluster{Term: l.Term, Held: l.Holder != ""}
		if b.cluster == nil || *b.cluster != now {
			b.cluster, b.lease = &now, true
		}
	}
	return nil
}

// clip is the beginning of a text.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}

func (b *board) takeJob(row []byte) error {
	var j api.Job
	if err := json.Unmarshal(row, &j); err != nil {
		return fmt.Errorf("job: %w", err)
	}
	b.jobs[j.ID] = &entry{owner: j.Owner, ChannelJob: api.ChannelJob{
		ID: j.ID, Name: clip(j.Name, maxName), State: j.State, Reason: clip(j.Reason, maxReason), SubmittedAt: j.SubmittedAt, FinishedAt: j.FinishedAt,
		ElapsedSeconds: j.ElapsedSeconds, Chunks: j.Chunks, Iterations: api.ChannelIterations(j.Iterations), RatePerSecond: j.RatePerSecond, ETASeconds: j.ETASeconds,
	}}
	note(b.of, j.Owner, j.ID)
	note(b.user, j.Owner, j.ID)
	b.job[j.ID] = true
	delete(b.gone, j.ID)
	return nil
}

func note(at map[string]map[job.ID]bool, owner string, id job.ID) {
	if at[owner] == nil {
		at[owner] = map[job.ID]bool{}
	}
	at[owner][id] = true
}

func (b *board) drop(id job.ID) {
	e := b.jobs[id]
	if e == nil {
		return
	}
	delete(b.jobs, id)
	delete(b.job, id)
	for _, at := range []map[string]map[job.ID]bool{b.of, b.user} {
		if delete(at[e.owner], id); len(at[e.owner]) == 0 {
			delete(at, e.owner)
		}
	}
	b.gone[id] = true
}

// takeGauges takes in the counts of jobs.
func (b *board) takeGauges(keys []string, cols map[string][]*float64) {
	for name, values := range cols {
		if len(values) != len(keys) {
			continue
		}
		for i, key := range keys {
			if e := b.jobs[job.ID(key)]; e != nil && e.set(name, values[i]) {
				b.job[e.ID] = true
			}
		}
	}
}

// set takes in one count; false: nobody is told of it.
func (e *entry) set(name string, v *float64) bool {
	n := 0.0
	if v != nil {
		n = *v
	}
	switch name {
	case "elapsed_seconds":
		e.ElapsedSeconds = n
		return false // it goes along with what else there is
	case "rate_per_second":
		e.RatePerSecond = v
	case "eta_seconds":
		e.ETASeconds = v
	case "chunks.pending":
		e.Chunks.Pending = int(n)
	case "chunks.assigned":
		e.Chunks.Assigned = int(n)
	case "chunks.accepted":
		e.Chunks.Accepted = int(n)
	case "iterations.accepted":
		e.Iterations.Accepted = uint64(n)
	default:
		return false
	}
	return true
}

// say is what is to be told on a channel: how it is now, or if not all what of it was not told
// yet; nil: nothing.
func (b *board) say(name string, all bool, at time.Time) ([]byte, error) {
	push := api.ChannelPush{V: 1, At: at.UTC()}
	if id, ok := channel.JobOf(name); ok {
		e := b.jobs[id]
		switch {
		case b.gone[id]:
			push.Type = api.ChannelAboutGone
		case e != nil && (all || b.job[id]):
			push.Type, push.Job = api.ChannelAboutJob, &e.ChannelJob
		default:
			return nil, nil
		}
		return json.Marshal(push)
	}
	if owner, ok := channel.UserOf(name); ok {
		of := b.user[owner]
		if all {
			of = b.of[owner]
		}
		if len(of) == 0 && !all {
			return nil, nil
		}
		push.Type = api.ChannelAboutJobs
		return b.some(push, of)
	}
	if name != api.ClusterChannel || b.cluster == nil || !all && !b.lease {
		return nil, nil
	}
	push.Type, push.Cluster = api.ChannelAboutCluster, b.cluster
	return json.Marshal(push)
}

// some is a message of as many of these jobs as it has room for, the newest ones.
func (b *board) some(push api.ChannelPush, of map[job.ID]bool) ([]byte, error) {
	list := make([]*entry, 0, len(of))
	for id := range of {
		list = append(list, b.jobs[id])
	}
	slices.SortFunc(list, func(x, y *entry) int {
		return cmp.Or(y.SubmittedAt.Compare(x.SubmittedAt), cmp.Compare(x.ID, y.ID))
	})
	size := 128
	for _, e := range list {
		text, err := json.Marshal(e.ChannelJob)
		if err != nil {
			return nil, err
		}
		if size += len(text) + 1; size > maxPush || len(push.Jobs) == mostJobs {
			push.More = true
			break
		}
		push.Jobs = append(push.Jobs, e.ChannelJob)
	}
	return json.Marshal(push)
}
