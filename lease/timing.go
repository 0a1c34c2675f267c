package lease

import (
	"errors"
	"fmt"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Timing is every duration of the protocol. All hosts of a cluster must use
// the same one. The shell uses Heartbeat, Suspect and Grace, the core the rest.
type Timing struct {
	// Heartbeat is the interval between heartbeats; a peer counts as alive
	// until it was silent for Suspect + Grace.
	Heartbeat, Suspect, Grace time.Duration
	// Lease is how long a renewal binds a voter, VoteGuard how long a vote
	// does; the short guard makes a failed vote cheap.
	Lease, VoteGuard time.Duration
	// Renew is the interval between renewals.
	Renew time.Duration
	// MarginPercent is taken off every lease on the holder's side, so that
	// clocks whose rates differ cannot make two holders overlap.
	MarginPercent int
	// ActMargin is how long before its lease ends a holder stops acting.
	ActMargin time.Duration
	// Skew is the wait per better candidate before standing.
	Skew time.Duration
	// Defer is how long voters prefer a better candidate that they believe
	// alive but that does not stand.
	Defer time.Duration
	// Round bounds one round of pre-votes or votes; Retry is the pause
	// after a failed one, to which up to as much jitter is added.
	Round, Retry time.Duration
	// Resend is how long after its question a candidate asks once more those that have
	// not answered, and a holder whose lease rests on votes renews once more, so that a
	// packet lost between distant hosts does not cost a round. 0: never.
	Resend time.Duration
	// Quiesce bounds the flush before a release; Abstain is how long the
	// old holder then does not stand.
	Quiesce, Abstain time.Duration
	// PreemptDelay is how long a better host must have been alive, eligible
	// and caught up before the holder hands over to it. It doubles with
	// every crash of that host as holder within LossWindow, up to PreemptCap.
	PreemptDelay, PreemptCap, LossWindow time.Duration
	// Replace is how long a voter must have been silent before another host
	// takes its place: long enough for a reboot, and for somebody to look.
	Replace time.Duration
	// MinTenure is how long a holder keeps the lease before it hands over
	// on its own.
	MinTenure time.Duration
}

// ErrTiming is wrapped by every error about durations.
var ErrTiming = errors.New("invalid lease timing")

// TimingFor returns the durations of a profile.
func TimingFor(p cluster.Profile) (Timing, error) {
	t := Timing{
		MarginPercent: 5,
		Quiesce:       500 * time.Millisecond,
		Abstain:       2 * time.Second,
		PreemptDelay:  time.Minute,
		PreemptCap:    time.Hour,
		LossWindow:    time.Hour,
		MinTenure:     5 * time.Minute,
		// Ten minutes after it counts as dead.
		Replace: 12 * time.Minute,
	}
	switch p {
	case cluster.ProfileClassic:
		t.Heartbeat, t.Suspect, t.Grace = 10*time.Second, 30*time.Second, 90*time.Second
		t.Lease, t.Renew, t.ActMargin = 30*time.Second, 6*time.Second, 50*time.Millisecond
		t.Skew, t.Defer = 500*time.Millisecond, 90*time.Second
		t.Round, t.Retry = 800*time.Millisecond, 500*time.Millisecond
	case cluster.ProfileLAN:
		t.Heartbeat, t.Suspect = time.Second, 3*time.Second
		t.Lease, t.Renew, t.ActMargin = 5*time.Second, time.Second, 20*time.Millisecond
		t.Skew, t.Defer = 150*time.Millisecond, 2*time.Second
		t.Round, t.Retry = 500*time.Millisecond, 200*time.Millisecond
	case cluster.ProfileFast:
		t.Heartbeat, t.Suspect = 400*time.Millisecond, 1200*time.Millisecond
		t.Lease, t.Renew, t.ActMargin = 1800*time.Millisecond, 360*time.Millisecond, 10*time.Millisecond
		t.Skew, t.Defer = 100*time.Millisecond, time.Second
		t.Round, t.Retry = 400*time.Millisecond, 150*time.Millisecond
	default:
		return Timing{}, fmt.Errorf("%w: unknown profile %q", ErrTiming, p)
	}
	t.VoteGuard = min(t.Lease, time.Second)
	t.Resend = t.Round / 5
	return t, nil
}

// Validate reports the first reason why t cannot work.
func (t Timing) Validate() error {
	bad := func(what string) error { return fmt.Errorf("%w: %s", ErrTiming, what) }
	switch {
	case t.Lease <= 0 || t.VoteGuard <= 0 || t.VoteGuard > t.Lease:
		return bad("want 0 < vote guard <= lease")
	case t.MarginPercent < 0 || t.MarginPercent > 50:
		return bad("margin is outside 0-50 percent")
	case t.Renew <= 0 || 2*t.Renew >= t.safe(t.Lease):
		return bad("two renewals must fit in a lease")
	case t.Round <= 0 || t.Round >= t.safe(t.VoteGuard):
		return bad("a round must end before the vote guard does")
	case t.ActMargin < 0 || t.ActMargin >= t.safe(t.VoteGuard)-t.Round:
		return bad("the act margin leaves nothing of a vote's lease")
	case t.Retry <= 0 || t.Skew < 0 || t.Defer < 0 || t.Resend < 0:
		return bad("retry must be above 0, skew, defer and resend not below")
	case t.Quiesce < 0 || t.Abstain < 0 || t.MinTenure < 0 || t.PreemptDelay < 0 || t.Replace < 0 || t.PreemptCap < t.PreemptDelay || t.LossWindow < 0:
		return bad("negative duration, or preempt cap below preempt delay")
	}
	return nil
}

// safe is the part of a voter's guard of length d that the holder counts on.
func (t Timing) safe(d time.Duration) time.Duration {
	return d - d*time.Duration(t.MarginPercent)/100
}
