package plan

import (
	"fmt"
	"time"

	"github.com/skein-project/skein/internal/bucket"
)

// quota is what an owner used of Config.Owner.
type quota struct{ submits, chunks, bytes bucket.Bucket }

// OwnerLimits bounds what one owner may submit. Zero fields are no limit.
type OwnerLimits struct {
	Submits bucket.Rate // jobs
	Chunks  bucket.Rate
	Bytes   bucket.Rate // of specs and artefacts
	Open    int         // open jobs at a time
}

// Refusal says that there is no room for a submission now, and when to try
// again. Nothing was changed.
type Refusal struct {
	Reason string
	After  time.Duration
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("%s, try again in %s", r.Reason, max(r.After.Round(time.Millisecond), time.Millisecond))
}

// fullAfter is when to try again after the queue was full: nobody knows when a
// job will end.
const fullAfter = 5 * time.Second

// Admit counts a submission of that many chunks and bytes against the owner's
// limits, or refuses it.
func (p *Plan) Admit(owner string, chunks int, bytes int64, now time.Duration) *Refusal {
	limits := p.cfg.Owner
	a := p.accountOf(owner)
	defer p.settleAccount(a)
	open := 0
	for _, j := range p.jobs {
		if j.account == a {
			open++
		}
	}
	switch {
	case p.cfg.MaxJobs > 0 && len(p.jobs) >= p.cfg.MaxJobs:
		return &Refusal{Reason: fmt.Sprintf("the cluster has %d open jobs, its limit", len(p.jobs)), After: fullAfter}
	case limits.Open > 0 && open >= limits.Open:
		return &Refusal{Reason: fmt.Sprintf("%s has %d open jobs, the limit of an owner", owner, open), After: fullAfter}
	}
	parts := []struct {
		t    *bucket.Bucket
		rate bucket.Rate
		n    float64
		what string
	}{
		{&a.limits.submits, limits.Submits, 1, "jobs"},
		{&a.limits.chunks, limits.Chunks, float64(chunks), "chunks"},
		{&a.limits.bytes, limits.Bytes, float64(bytes), "bytes"},
	}
	var refusal *Refusal
	for _, q := range parts {
		if wait := q.t.Wait(q.rate, q.n, now); wait > 0 && (refusal == nil || wait > refusal.After) {
			refusal = &Refusal{Reason: fmt.Sprintf("%s submits more %s than %g per second", owner, q.what, q.rate.PerSecond), After: wait}
		}
	}
	if refusal != nil {
		return refusal
	}
	for _, q := range parts {
		q.t.Spend(q.rate, q.n, now)
	}
	return nil
}

// maxAccounts bounds the owners that are remembered without open jobs.
const maxAccounts = 4096

func (p *Plan) accountOf(owner string) *account {
	a := p.accounts[owner]
	if a == nil {
		a = &account{name: owner}
		p.accounts[owner] = a
	}
	p.armed++
	a.used = p.armed
	return a
}

// settleAccount forgets the owner that was seen longest ago when there are too
// many. Its limits start anew then.
func (p *Plan) settleAccount(*account) {
	if len(p.accounts) <= maxAccounts {
		return
	}
	busy := make(map[*account]bool)
	for _, j := range p.jobs {
		busy[j.account] = true
	}
	var old *account
	for _, a := range p.accounts { // the choice does not depend on the order
		if !busy[a] && (old == nil || a.used < old.used) {
			old = a
		}
	}
	if old != nil {
		delete(p.accounts, old.name)
	}
}
