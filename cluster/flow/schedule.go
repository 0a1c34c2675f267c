package flow

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// Limits of schedules, and of runs that share a group.
const (
	MaxSchedules  = 1000
	MaxCron       = 256 // bytes
	MaxZone       = 64  // bytes of the name of a time zone
	MaxGroupLimit = 1000
	// MaxQueued is how many runs of a group wait at once.
	MaxQueued = 100
	// DefaultMissed is for how long what a schedule missed is made up for, MaxMissed the
	// longest time for it; in seconds.
	DefaultMissed = 24 * 3600
	MaxMissed     = 7 * 24 * 3600
)

// SchedulePrefix begins the idempotency keys of the runs of schedules; nobody else's may.
const SchedulePrefix = "at:"

// ScheduleID names a schedule: "s" and 26 lower-case base32 characters, derived from its
// owner and its name.
type ScheduleID string

// NewScheduleID derives the id of the schedule that owner calls name.
func NewScheduleID(owner, name string) ScheduleID {
	h := sha256.New()
	h.Write([]byte("schedule1"))
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(owner))))
	h.Write([]byte(owner))
	h.Write([]byte(name))
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil))
	return ScheduleID("s" + strings.ToLower(text[:runIDChars]))
}

// ParseScheduleID checks the form of s and returns it as a ScheduleID.
func ParseScheduleID(s string) (ScheduleID, error) {
	if len(s) != 1+runIDChars || s[0] != 's' || strings.Trim(s[1:], "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return "", fmt.Errorf("%.64q is not the id of a schedule: want s and %d characters a-z, 2-7", s, runIDChars)
	}
	return ScheduleID(s), nil
}

// RunAt is the id of the run that a schedule of owner begins for a time, in seconds since
// the Unix epoch: whoever decides twice to begin it decides for the same run.
func (id ScheduleID) RunAt(owner string, at int64) RunID {
	return NewRunID(owner, SchedulePrefix+string(id)+"/"+strconv.FormatInt(at, 10))
}

// RunBy is the id of the run of the schedule that somebody asks for under a key.
func (id ScheduleID) RunBy(owner, key string) RunID {
	return NewRunID(owner, SchedulePrefix+string(id)+"/by/"+key)
}

// CheckScheduleName reports why no schedule can have a name.
func CheckScheduleName(name string) error {
	if name == "" || len(name) > MaxName || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" {
		return Invalidf("schedule %.64q: want 1-%d letters, digits, dots, _ and -", name, MaxName)
	}
	return nil
}

// Missed says what becomes of times at which a schedule could not begin its run, as
// nobody scheduled.
type Missed string

// What becomes of missed times.
const (
	MissedSkip Missed = "skip" // nothing
	MissedLast Missed = "last" // one run for the last of them; the default
	MissedAll  Missed = "all"  // a run for each, if they are not too many
)

// Known reports whether m is one of them.
func (m Missed) Known() bool { return m == MissedSkip || m == MissedLast || m == MissedAll }

// Overlap says what becomes of a run that is to begin while as many of its group are
// open as may be.
type Overlap string

// What becomes of such a run.
const (
	OverlapSkip     Overlap = "skip"      // it does not begin
	OverlapQueueOne Overlap = "queue_one" // it waits, unless another one does
	OverlapQueue    Overlap = "queue"     // it waits
	OverlapReplace  Overlap = "replace"   // the others are stopped, and it begins when they have ended
	OverlapAllow    Overlap = "allow"     // it begins
)

// Known reports whether o is one of them.
func (o Overlap) Known() bool {
	switch o {
	case OverlapSkip, OverlapQueueOne, OverlapQueue, OverlapReplace, OverlapAllow:
		return true
	}
	return false
}

// Concurrency bounds how many runs of an owner go on at once.
type Concurrency struct {
	Group   string  `json:"group"`             // the runs that are counted: those of the owner that name the same
	Limit   int     `json:"limit,omitempty"`   // how many go on; none: 1
	Overlap Overlap `json:"overlap,omitempty"` // what becomes of one more; none: queue
}

// check reports why no workflow can ask for c.
func (c Concurrency) check() error {
	switch {
	case c == Concurrency{}:
	case c.Group == "" || len(c.Group) > MaxName:
		return Invalidf("concurrency: group %.64q has %d bytes, want 1-%d", c.Group, len(c.Group), MaxName)
	case c.Limit < 0 || c.Limit > MaxGroupLimit:
		return Invalidf("concurrency: limit is %d, want 1-%d", c.Limit, MaxGroupLimit)
	case c.Overlap != "" && !c.Overlap.Known():
		return Invalidf("concurrency: overlap is %.32q, want skip, queue_one, queue, replace or allow", string(c.Overlap))
	}
	return nil
}

// Sharing says with which runs of its owner one shares places, and how.
type Sharing struct {
	Group   string // none: with no others
	Limit   int
	Overlap Overlap
}

// Sharing is that of a run which is submitted by hand.
func (d Def) Sharing() Sharing {
	c := d.Concurrency
	if c.Overlap == "" {
		c.Overlap = OverlapQueue
	}
	if c.Group == "" || c.Overlap == OverlapAllow {
		return Sharing{Overlap: OverlapAllow}
	}
	return Sharing{Group: "group " + c.Group, Limit: max(1, c.Limit), Overlap: c.Overlap}
}

// SharingOf is that of a run of a schedule: with those of the same group if the workflow
// names one, or else with those of the same schedule.
func (d Def) SharingOf(id ScheduleID, o Overlap) Sharing {
	s := Sharing{Group: "schedule " + string(id), Limit: 1, Overlap: o}
	if c := d.Concurrency; c.Group != "" {
		s.Group, s.Limit = "group "+c.Group, max(1, c.Limit)
	}
	if o == OverlapAllow {
		s.Group, s.Limit = "", 0
	}
	return s
}
