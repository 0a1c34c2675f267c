package job

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Limits and defaults of a job's policy.
const (
	MaxPriority      = 1000 // of a job; lower goes first
	DefaultPriority  = 100
	MaxZones         = 64
	MaxUsers         = 256 // users that one job names
	MaxGroups        = 16  // groups that one job names
	MaxDeadline      = 90 * 24 * time.Hour
	MaxKeep          = 366 * 24 * time.Hour
	DefaultKeep      = 7 * 24 * time.Hour
	MaxGrace         = 5 * time.Minute
	DefaultGrace     = 5 * time.Second
	MaxLosses        = 1000
	DefaultLosses    = 16
	MaxQuorum        = 4
	DefaultQuorum    = 2
	MaxChunkTime     = time.Hour
	DefaultChunkTime = 30 * time.Second
)

// Policy says who may run a job, when, how often and for how long. All of
// it is optional: a zero field stands for its default, now and for ever, so that
// a spec that was logged means the same under every version.
type Policy struct {
	Permission Permission `json:"permission,omitzero"` // whose workers may run it; none: everybody's
	Priority   uint32     `json:"priority,omitempty"`  // among jobs of its owner, lower first, 1-1000; none: 100
	Zones      []string   `json:"zones,omitempty"`     // in which its chunks may run; none: in all
	// ZoneChoice is how Zones were chosen, where the holder chose them: what has not begun
	// moves when one of them is lost. None: it stays where it was put.
	ZoneChoice *ZoneChoice `json:"zone_choice,omitempty"`
	// DeadlineSeconds after its submission the job ends as timeout; none: never.
	DeadlineSeconds float64 `json:"deadline_seconds,omitempty"`
	// StuckSeconds without any chunk's progress, while some run, the job ends
	// as timeout; none: never.
	StuckSeconds float64 `json:"stuck_seconds,omitempty"`
	// HardTimeoutSeconds bounds an attempt that shows progress beyond
	// timeout_seconds; none: timeout_seconds does.
	HardTimeoutSeconds float64 `json:"hard_timeout_seconds,omitempty"`
	// GraceSeconds lie between asking an executor to end and killing it; none:
	// 5 s.
	GraceSeconds float64 `json:"grace_seconds,omitempty"`
	// Losses is how often one chunk may be lost with its worker or host before it
	// is parked, beside Attempts, which count failures of the work itself; none:
	// 16.
	Losses      int         `json:"losses,omitempty"`
	Replication Replication `json:"replication,omitzero"` // how results are checked against each other; none: not
	EarlyStop   EarlyStop   `json:"early_stop,omitzero"`  // when enough is known; none: when all chunks are done
	OnPartial   OnPartial   `json:"on_partial,omitempty"` // what a chunk that is given up means; none: finish
	// ChunkAuto lets the holder choose Chunk at the submission, from measured
	// rates or a trial; what the submitter says of Chunk is not part of the request
	// then, and holds only where nothing can be measured. It is the default.
	ChunkAuto    bool    `json:"chunk_auto,omitempty"`
	ChunkSeconds float64 `json:"chunk_seconds,omitempty"` // run time of a chunk that ChunkAuto aims at; none: 30
	// KeepSeconds is how long the job and its result are known after its end;
	// none: 7 days.
	KeepSeconds float64 `json:"keep_seconds,omitempty"`
	// FirstIteration is the index of the job's first iteration, as its chunks are
	// told; none: 0.
	FirstIteration uint64 `json:"first_iteration,omitempty"`
	Logs           Logs   `json:"logs,omitempty"`     // which attempts' standard error is kept: none, failed or all; none set: failed
	RetryOf        ID     `json:"retry_of,omitempty"` // the job whose chunks without a result it computes
	// After are jobs that must have ended before: "ID", which must have completed,
	// "ID:failed" or "ID:done". It is skipped once one of them has ended otherwise.
	After []string `json:"after,omitempty"`
	// Files are what each chunk finds in its directory of files, by name, at most 256:
	// outputs of jobs of the same owner, or uploads.
	Files       map[string]cluster.Hash `json:"files,omitempty"`
	Outputs     []string                `json:"outputs,omitempty"`      // names of the files that each chunk leaves, at most 16
	OutputBytes int64                   `json:"output_bytes,omitempty"` // that the files of all chunks may have; none: 1 GiB
	Result      ResultKind              `json:"result,omitempty"`       // what a chunk computes, metrics or none; none set: metrics
	// Checkpoint has chunks save how far they are, and later attempts at them go on from
	// there; results are the same without.
	Checkpoint bool `json:"checkpoint,omitempty"`
}

// Access says whose workers may run a job.
type Access string

// Values of Access. The owner's own workers may always.
const (
	AccessPublic Access = "public" // everybody's
	AccessOwner  Access = "owner"  // the owner's only
	AccessUser   Access = "user"   // those of named users
	AccessGroup  Access = "group"  // those of the members of named groups
)

// Permission is Access with the names that it needs.
type Permission struct {
	Access Access   `json:"access,omitempty"` // public, owner, user or group; none: public
	Users  []string `json:"users,omitempty"`  // with access user, sorted
	Groups []string `json:"groups,omitempty"` // with access group, sorted
	// Outside lets a public job go to workers that no host runs, which see its module
	// and config; none: only to those of its owner.
	Outside bool `json:"outside,omitempty"`
}

// IsZero reports whether p is the default.
func (p Permission) IsZero() bool {
	return p.Access == "" && len(p.Users) == 0 && len(p.Groups) == 0 && !p.Outside
}

// Public reports whether p names nobody.
func (p Permission) Public() bool { return p.Access == "" || p.Access == AccessPublic }

// Allows decides whether the workers of who may run a job of owner. The sets
// are exact: member tells whether who is in a group.
func (p Permission) Allows(owner, who string, member func(group, who string) bool) bool {
	if p.Public() || who == owner {
		return true
	}
	switch p.Access {
	case AccessUser:
		_, ok := slices.BinarySearch(p.Users, who)
		return ok
	case AccessGroup:
		return slices.ContainsFunc(p.Groups, func(g string) bool { return member(g, who) })
	}
	return false
}

// AllowsOutside is Allows for a worker that no host runs: a public job is not for it
// unless the job says so.
func (p Permission) AllowsOutside(owner, who string, member func(group, who string) bool) bool {
	if p.Public() && !p.Outside {
		return who == owner && who != ""
	}
	return p.Allows(owner, who, member)
}

// CheckPolicy says which results are computed more than once.
type CheckPolicy string

// Values of CheckPolicy.
const (
	CheckNone     CheckPolicy = "none"
	CheckAdaptive CheckPolicy = "adaptive" // all of workers that are not trusted yet, few of the others
	CheckAll      CheckPolicy = "all"
)

// Replication says how results are checked by computing them again elsewhere.
type Replication struct {
	Policy CheckPolicy `json:"policy,omitempty"` // none, adaptive or all; none is the default
	Quorum int         `json:"quorum,omitempty"` // equal results that are wanted, 2-4; none: 2
	// Tolerance is the relative difference up to which two means count as equal;
	// none: results must be the same to the bit.
	Tolerance float64 `json:"tolerance,omitempty"`
}

// On reports whether any result is computed more than once.
func (r Replication) On() bool { return r.Policy == CheckAdaptive || r.Policy == CheckAll }

// Wanted is how many equal results a checked chunk needs.
func (r Replication) Wanted() int { return cmp.Or(r.Quorum, DefaultQuorum) }

// EarlyStop ends a job as completed before all chunks are done: when half the
// width of the 95 % interval of the metric's mean is below RelError of the mean.
type EarlyStop struct {
	Metric   string  `json:"metric,omitempty"`    // whose mean is looked at
	RelError float64 `json:"rel_error,omitempty"` // above 0, below 1
	MinN     uint64  `json:"min_n,omitempty"`     // samples before it may end the job
}

// On reports whether there is a rule.
func (e EarlyStop) On() bool { return e.Metric != "" }

// OnPartial says what a chunk that is given up means for its job.
type OnPartial string

// Values of OnPartial.
const (
	PartialFinish OnPartial = "finish" // the others go on, and the job ends as partial
	PartialFail   OnPartial = "fail"   // the job fails at once
	PartialWait   OnPartial = "wait"   // the others go on, and then the job waits for an operator
)

// Logs says of which attempts it is kept what they write to standard error.
type Logs string

// Values of Logs.
const (
	LogsNone   Logs = "none"
	LogsFailed Logs = "failed"
	LogsAll    Logs = "all"
)

// MaxLogs is of how many failures of a job the words outlive the hosts that ran them.
const MaxLogs = 64

// Keeps reports whether the words of an attempt are kept that failed, or has a result.
func (l Logs) Keeps(failed bool) bool { return l == LogsAll || failed && l != LogsNone }

// EffectivePriority is Priority with its default.
func (p Policy) EffectivePriority() uint32 { return cmp.Or(p.Priority, DefaultPriority) }

// LossBudget is Losses with its default.
func (p Policy) LossBudget() int { return cmp.Or(p.Losses, DefaultLosses) }

// Partial is OnPartial with its default.
func (p Policy) Partial() OnPartial { return cmp.Or(p.OnPartial, PartialFinish) }

// Deadline is how long after its submission the job may run; 0: for ever.
func (p Policy) Deadline() time.Duration { return seconds(p.DeadlineSeconds) }

// Stuck is how long a running job may be without progress; 0: for ever.
func (p Policy) Stuck() time.Duration { return seconds(p.StuckSeconds) }

// Grace is GraceSeconds with its default.
func (p Policy) Grace() time.Duration { return cmp.Or(seconds(p.GraceSeconds), DefaultGrace) }

// ChunkTime is ChunkSeconds with its default.
func (p Policy) ChunkTime() time.Duration {
	return cmp.Or(seconds(p.ChunkSeconds), DefaultChunkTime)
}

// Keep is KeepSeconds with its default.
func (p Policy) Keep() time.Duration { return cmp.Or(seconds(p.KeepSeconds), DefaultKeep) }

// HardTimeout bounds an attempt however much progress it shows.
func (s Spec) HardTimeout() time.Duration { return max(s.Timeout(), seconds(s.HardTimeoutSeconds)) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// ZoneChoice is what zones of a job were chosen for.
type ZoneChoice struct {
	Count  int      `json:"count"`            // so many
	Among  []string `json:"among,omitempty"`  // of these, sorted; none: of all
	Prefer []string `json:"prefer,omitempty"` // these before others that are as healthy, sorted
}

// check reports why zones cannot have been chosen so.
func (c *ZoneChoice) check(zones []string) error {
	if c == nil {
		return nil
	}
	if c.Count < 1 || c.Count != len(zones) {
		return fmt.Errorf("zone_choice.count is %d, and zones names %d", c.Count, len(zones))
	}
	for name, set := range map[string][]string{"zone_choice.among": c.Among, "zone_choice.prefer": c.Prefer} {
		if err := cluster.CheckSet(name, set, MaxZones, func(z string) bool { return cluster.Printable(z, cluster.MaxZoneName) }); err != nil {
			return err
		}
	}
	for _, z := range zones {
		if len(c.Among) > 0 && !slices.Contains(c.Among, z) {
			return fmt.Errorf("zones has %s, which is not in zone_choice.among", z)
		}
	}
	return nil
}

// normal sorts the sets, so that the same request has the same fingerprint.
func (p Policy) normal() Policy {
	if len(p.Files) == 0 {
		p.Files = nil
	}
	if p.Result == ResultMetrics {
		p.Result = ""
	}
	sets := []*[]string{&p.Zones, &p.Permission.Users, &p.Permission.Groups, &p.Outputs}
	if c := p.ZoneChoice; c != nil {
		p.ZoneChoice = new(*c)
		sets = append(sets, &p.ZoneChoice.Among, &p.ZoneChoice.Prefer)
	}
	for _, set := range sets {
		if len(*set) == 0 {
			*set = nil
			continue
		}
		*set = slices.Compact(slices.Sorted(slices.Values(*set)))
	}
	return p
}

// check reports the first field that cannot be accepted.
func (p Policy) check() error {
	if err := p.Permission.check(); err != nil {
		return err
	}
	if err := cluster.CheckSet("zones", p.Zones, MaxZones, func(z string) bool { return cluster.Printable(z, cluster.MaxZoneName) }); err != nil {
		return err
	}
	if err := p.ZoneChoice.check(p.Zones); err != nil {
		return err
	}
	if err := checkAfter(p.After); err != nil {
		return err
	}
	if p.Priority > MaxPriority {
		return fmt.Errorf("priority is %d, want 1-%d, or 0 for %d", p.Priority, MaxPriority, DefaultPriority)
	}
	if p.Losses < 0 || p.Losses > MaxLosses {
		return fmt.Errorf("losses is %d, want 1-%d, or 0 for %d", p.Losses, MaxLosses, DefaultLosses)
	}
	for _, f := range []struct {
		name string
		v    float64
		most time.Duration
	}{
		{"deadline_seconds", p.DeadlineSeconds, MaxDeadline},
		{"stuck_seconds", p.StuckSeconds, MaxDeadline},
		{"hard_timeout_seconds", p.HardTimeoutSeconds, MaxChunkTimeout},
		{"grace_seconds", p.GraceSeconds, MaxGrace},
		{"chunk_seconds", p.ChunkSeconds, MaxChunkTime},
		{"keep_seconds", p.KeepSeconds, MaxKeep},
	} {
		// Below a millisecond nothing can be kept to.
		if f.v != 0 && (!(f.v >= 1e-3) || f.v > f.most.Seconds()) {
			return fmt.Errorf("%s is %g, want 0.001-%g, or 0 for the default", f.name, f.v, f.most.Seconds())
		}
	}
	switch p.OnPartial {
	case "", PartialFinish, PartialFail, PartialWait:
	default:
		return fmt.Errorf("on_partial is %.32q, want %s, %s or %s", p.OnPartial, PartialFinish, PartialFail, PartialWait)
	}
	switch p.Logs {
	case "", LogsNone, LogsFailed, LogsAll:
	default:
		return fmt.Errorf("logs is %.32q, want %s, %s or %s", p.Logs, LogsNone, LogsFailed, LogsAll)
	}
	if err := p.EarlyStop.check(); err != nil {
		return err
	}
	if err := p.checkFiles(); err != nil {
		return err
	}
	return p.Replication.check()
}

func (p Permission) check() error {
	switch p.Access {
	case "", AccessPublic, AccessOwner, AccessUser, AccessGroup:
	default:
		return fmt.Errorf("permission.access is %.32q, want %s, %s, %s or %s", p.Access, AccessPublic, AccessOwner, AccessUser, AccessGroup)
	}
	if (p.Access == AccessUser) != (len(p.Users) > 0) {
		return fmt.Errorf("permission.users has %d names with access %.32q: access %s needs some, the others take none", len(p.Users), p.Access, AccessUser)
	}
	if (p.Access == AccessGroup) != (len(p.Groups) > 0) {
		return fmt.Errorf("permission.groups has %d names with access %.32q: access %s needs some, the others take none", len(p.Groups), p.Access, AccessGroup)
	}
	if p.Outside && !p.Public() {
		return fmt.Errorf("permission.outside is set with access %.32q: it is about access %s, others name whose workers they admit", p.Access, AccessPublic)
	}
	if err := cluster.CheckSet("permission.users", p.Users, MaxUsers, func(u string) bool { return cluster.CheckGrantee(u) == nil }); err != nil {
		return err
	}
	return cluster.CheckSet("permission.groups", p.Groups, MaxGroups, func(g string) bool { return cluster.CheckGroupName(g) == nil })
}

func (e EarlyStop) check() error {
	switch {
	case e == EarlyStop{}:
		return nil
	case e.Metric == "" || len(e.Metric) > MaxMetricName:
		return fmt.Errorf("early_stop.metric has %d bytes, want 1-%d", len(e.Metric), MaxMetricName)
	case !(e.RelError > 0) || e.RelError >= 1:
		return fmt.Errorf("early_stop.rel_error is %g, want above 0 and below 1", e.RelError)
	case e.MinN > MaxIterations:
		return fmt.Errorf("early_stop.min_n is %d, at most %d are allowed", e.MinN, MaxIterations)
	}
	return nil
}

func (r Replication) check() error {
	switch r.Policy {
	case "", CheckNone, CheckAdaptive, CheckAll:
	default:
		return fmt.Errorf("replication.policy is %.32q, want %s, %s or %s", r.Policy, CheckNone, CheckAdaptive, CheckAll)
	}
	switch {
	case r.Quorum != 0 && (r.Quorum < 2 || r.Quorum > MaxQuorum):
		return fmt.Errorf("replication.quorum is %d, want 2-%d, or 0 for %d", r.Quorum, MaxQuorum, DefaultQuorum)
	case math.IsNaN(r.Tolerance) || r.Tolerance < 0 || r.Tolerance >= 1:
		return fmt.Errorf("replication.tolerance is %g, want 0 or above and below 1", r.Tolerance)
	}
	return nil
}
