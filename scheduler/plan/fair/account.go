package fair

import (
	"fmt"
	"time"

	"github.com/skein-project/skein/internal/bucket"
	"github.com/skein-project/skein/scheduler/plan/order"
)

// account is an owner of jobs: those that wait, what it has left of its share of
// the workers' time, and what it used of its limits.
type account[J any] struct {
	name    string
	open    int // jobs
	jobs    order.Heap[*Place[J]]
	deficit time.Duration
	visited bool // has got its share of this round
	ringed  bool
	limits  quota
	used    uint64 // order of use
}

// quota is what an owner used of Limits.
type quota struct{ submits, chunks, bytes bucket.Bucket }

// Limits bounds what one owner may submit. Zero fields are no limit.
type Limits struct {
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
func (r *Round[J]) Admit(owner string, chunks int, bytes int64, now time.Duration) *Refusal {
	return r.admit(owner, chunks, bytes, now, true)
}

// Refuse says whether Admit would refuse a submission, however small. It counts
// nothing.
func (r *Round[J]) Refuse(owner string, now time.Duration) *Refusal {
	return r.admit(owner, 0, 0, now, false)
}

func (r *Round[J]) admit(owner string, chunks int, bytes int64, now time.Duration, count bool) *Refusal {
	a := r.account(owner)
	defer r.forget()
	switch {
	case r.most > 0 && r.open >= r.most:
		return &Refusal{Reason: fmt.Sprintf("the cluster has %d open jobs, its limit", r.open), After: fullAfter}
	case r.limits.Open > 0 && a.open >= r.limits.Open:
		return &Refusal{Reason: fmt.Sprintf("%s has %d open jobs, the limit of an owner", owner, a.open), After: fullAfter}
	}
	parts := []struct {
		t    *bucket.Bucket
		rate bucket.Rate
		n    float64
		what string
	}{
		{&a.limits.submits, r.limits.Submits, 1, "jobs"},
		{&a.limits.chunks, r.limits.Chunks, float64(chunks), "chunks"},
		{&a.limits.bytes, r.limits.Bytes, float64(bytes), "bytes"},
	}
	var refusal *Refusal
	for _, q := range parts {
		if wait := q.t.Wait(q.rate, q.n, now); wait > 0 && (refusal == nil || wait > refusal.After) {
			refusal = &Refusal{Reason: fmt.Sprintf("%s submits more %s than %g per second", owner, q.what, q.rate.PerSecond), After: wait}
		}
	}
	if refusal != nil || !count {
		return refusal
	}
	for _, q := range parts {
		q.t.Spend(q.rate, q.n, now)
	}
	return nil
}

// maxAccounts bounds the owners that are remembered without open jobs.
const maxAccounts = 4096

func (r *Round[J]) account(owner string) *account[J] {
	a := r.accounts[owner]
	if a == nil {
		a = &account[J]{name: owner}
		r.accounts[owner] = a
	}
	r.count++
	a.used = r.count
	return a
}

// forget drops the owner that was seen longest ago when there are too many. Its
// limits then start over.
func (r *Round[J]) forget() {
	if len(r.accounts) <= maxAccounts {
		return
	}
	var old *account[J]
	for _, a := range r.accounts { // the choice does not depend on the order
		if a.open == 0 && (old == nil || a.used < old.used) {
			old = a
		}
	}
	if old != nil {
		delete(r.accounts, old.name)
	}
}
