//go:build linux

package netns_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// TestJobsNemesis streams jobs while hosts are killed, stopped, cut off and
// parted at random, holder and workers alike, mends it all, and counts: every
// job is complete on every host, with the iterations that were submitted, and
// each chunk counts once in every log. SKEIN_PROVE=1 streams 1000 jobs through
// five hosts; SKEIN_SEED=n repeats a run, as far as real processes can be
// repeated.
func TestJobsNemesis(t *testing.T) {
	t.Parallel()
	seed := chooseSeed(t)
	a := newArena(t, cluster.ProfileFast, pick(3, 5), seed)
	holder, _ := a.holder()
	a.backlog(holder) // one job of many chunks beside the small ones
	n := newNemesis(a)
	for jobs, end := pick(20, 1000), time.Now().Add(pick(6*time.Minute, time.Hour)); len(a.load.acknowledged()) < jobs; {
		if time.Now().After(end) {
			t.Fatalf("%d of %d jobs acknowledged, after %v", len(a.load.acknowledged()), jobs, n.did)
		}
		n.rage(time.Now().Add(2 * a.timing.Lease))
	}
	n.mend()
	mended := time.Now()
	v := a.calm()
	t.Logf("after %v: all jobs done %.1f s after the last repair", n.did, time.Since(mended).Seconds())
	a.mind(v, fmt.Sprintf("SKEIN_SEED=%d", seed))
	a.whole(a.load.acknowledged())
	a.sameLogs()
	a.done(v)
	a.sum(a.load.acknowledged(), v, n.did)
}

// sum says in one line what a reader wants to know of the run.
func (a *arena) sum(jobs []job.ID, v *verdict, faults map[string]int) {
	a.t.Helper()
	var submitted, accepted, assigned, failed, reclaimed uint64
	chunks, lost, twice := 0, 0, 0
	for _, id := range jobs {
		j, err := a.all[0].api.Job(a.ctx, string(id))
		if err != nil {
			a.t.Errorf("job %s: %v", id, err)
			continue
		}
		submitted, accepted = submitted+j.Spec.Iterations, accepted+j.Iterations.Accepted
		assigned, failed, reclaimed = assigned+j.Attempts.Assigned, failed+j.Attempts.Failed, reclaimed+j.Attempts.Reclaimed
		chunks, lost = chunks+j.Chunks.Total, lost+j.Chunks.Failed
		if t := v.jobs[id]; t != nil {
			for _, n := range t.accepted {
				twice += n - 1
			}
		}
	}
	a.t.Logf("SUMMARY: %d jobs of %d chunks; iterations submitted %d, accepted %d; double counts %d, chunks given up %d; attempts %d, of which failed %d, taken back %d; terms %d; faults %v",
		len(jobs), chunks, submitted, accepted, twice, lost, assigned, failed, reclaimed, v.terms, faults)
	if submitted != accepted || twice > 0 || lost > 0 {
		a.t.Error("not every iteration counts once")
	}
}

// whole checks that each host tells of each job that all of it counts, and
// whose work it was.
func (a *arena) whole(jobs []job.ID) {
	a.t.Helper()
	for _, d := range a.all {
		for _, id := range jobs {
			j, err := d.api.Job(a.ctx, string(id))
			if err != nil {
				a.t.Errorf("job %s on %s: %v", id, d.Name(), err)
				continue
			}
			by := 0
			for _, w := range j.Workers {
				by += w.Accepted
				if !slices.ContainsFunc(a.all, func(d *daemon) bool { return w.Node == cluster.NodeID(d.Name()) }) {
					a.t.Errorf("job %s on %s: %s worked for it", id, d.Name(), w.Node)
				}
			}
			if j.State != job.Completed || j.Chunks.Accepted != j.Chunks.Total || by != j.Chunks.Total ||
				j.Iterations.Accepted != j.Spec.Iterations || j.Chunks.Assigned+j.Chunks.Pending+j.Chunks.Failed != 0 {
				a.t.Errorf("job %s on %s: %s, chunks %+v, %d of them by workers, iterations %+v of %d",
					id, d.Name(), j.State, j.Chunks, by, j.Iterations, j.Spec.Iterations)
			}
		}
	}
}

// runners lists the processes below pid that run chunks.
func runners(pid int) (out []int) {
	for _, name := range children(pid) {
		out = append(append(out, name), runners(name)...)
	}
	return out
}

// children lists the processes whose parent is pid.
func children(pid int) (out []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is sound
	for _, f := range tasks {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // that thread has ended
		}
		for word := range strings.FieldsSeq(string(text)) {
			if p, err := strconv.Atoi(word); err == nil {
				out = append(out, p)
			}
		}
	}
	return out
}

// ticks is the processor time that a process used, 0 if it has ended.
func ticks(pid int) (n int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 || fields[0] == "Z" {
		return 0
	}
	for _, f := range fields[11:13] {
		t, err := strconv.Atoi(f)
		if err != nil {
			return 0
		}
		n += t
	}
	return n
}

// busy lists the runners of all hosts that have computed.
func (f *fleet) busy() (out []int) {
	for _, d := range f.all {
		for _, p := range runners(d.cmd.Process.Pid) {
			if ticks(p) >= 20 { // more than a start takes
				out = append(out, p)
			}
		}
	}
	return out
}

// TestCancel stops a job of 200 chunks that never end: each process that runs
// one is gone soon, none takes its place, and the workers take other work.
func TestCancel(t *testing.T) {
	parallel(t)
	f := newFleet(t, backend(), 3)
	f.up()
	f.settled()
	endless := f.all[0].upload(0)
	endless.Key, endless.Chunk, endless.Iterations = "endless", chunkSize, 200*chunkSize
	theJob, err := f.all[1].api.Submit(f.ctx, api.SubmitRequest{Spec: endless})
	if err != nil {
		t.Fatal(err)
	}
	var at []int
	f.await("chunks run on all hosts", time.Minute, func() error {
		if at = f.busy(); len(at) < len(f.all) {
			return fmt.Errorf("%d processes compute", len(at))
		}
		return nil
	})
	began := time.Now()
	if _, err := f.all[2].api.StopJob(f.ctx, string(theJob.Job), "enough"); err != nil {
		t.Fatal(err)
	}
	f.await("their end", time.Minute, func() error {
		for _, p := range at {
			if err := syscall.Kill(p, 0); err == nil {
				return fmt.Errorf("process %d is there", p)
			}
		}
		return nil
	})
	within(t, "all executors stopped", time.Since(began), 2*time.Second)
	f.await("the job is cancelled on all hosts", time.Minute, func() error {
		for _, d := range f.all {
			if j, err := d.api.Job(f.ctx, string(theJob.Job)); err != nil || j.State != job.Cancelled {
				return fmt.Errorf("%s: %s, %w", d.Name(), j.State, err)
			}
		}
		return nil
	})
	f.pass(time.Second)
	if left := f.busy(); len(left) > 0 {
		t.Errorf("processes %v still compute", left)
	}
	short := f.all[0].upload(chunkWork)
	short.Key, short.Chunk, short.Iterations = "short", chunkSize, 6*chunkSize
	f.completes(short, f.all[0])
}

// completes submits a job and waits for its end.
func (f *fleet) completes(s job.Spec, through *daemon) api.Job {
	f.t.Helper()
	var j api.Job
	f.await("job "+s.Key, 10*time.Minute, func() error {
		// The same key is the same job.
		sub, err := through.api.Submit(f.ctx, api.SubmitRequest{Spec: s})
		if err != nil {
			return err
		}
		if j, err = through.api.Job(f.ctx, string(sub.Job)); err == nil && j.State != job.Completed {
			err = fmt.Errorf("%s, chunks %+v", j.State, j.Chunks)
		}
		return err
	})
	return j
}

// TestRollingRestart ends and starts every host in good order, one after
// another, during a job: no attempt of it fails.
func TestRollingRestart(t *testing.T) {
	parallel(t)
	f := newFleet(t, backend(), 0)
	f.profile = cluster.ProfileFast
	for range 3 {
		f.add(backend())
	}
	f.up()
	f.settled()
	spec := f.all[0].upload(25 * chunkWork)
	spec.Key, spec.Chunk, spec.Iterations = "rolling", chunkSize, uint64(pick(120, 1000))*chunkSize
	sub, err := f.all[0].api.Submit(f.ctx, api.SubmitRequest{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	progress := func(d *daemon) (api.Job, error) { return d.api.Job(f.ctx, string(sub.Job)) }
	for _, d := range slices.Repeat(f.all, pick(1, 3)) {
		before := 0
		f.await("work", time.Minute, func() error {
			j, err := progress(d)
			if err == nil && j.Chunks.Accepted == 0 {
				err = errors.New("nothing accepted")
			}
			before = j.Chunks.Accepted
			return err
		})
		d.end(syscall.SIGTERM)
		d.run()
		f.await(d.Name()+" is back", time.Minute, func() error {
			if err := f.meshed(); err != nil {
				return err
			}
			return believes(f.ctx, f.all, f.all, cluster.Alive)
		})
		j, err := progress(d)
		t.Logf("%s restarted: %d accepted before, %+v after, failures %+v, %v", d.Name(), before, j.Chunks, j.Failures, err)
		if proving() && j.State.Final() {
			t.Errorf("the job ended before all hosts were restarted: %s", j.State)
		}
	}
	j := f.completes(spec, f.all[1])
	if j.Attempts.Failed != 0 || j.Chunks.Failed != 0 || len(j.Failures) > 0 && slices.ContainsFunc(j.Failures, func(x api.Failure) bool { return x.Final }) {
		t.Errorf("%d attempts failed and %d chunks were given up: %+v", j.Attempts.Failed, j.Chunks.Failed, j.Failures)
	}
	if j.Iterations.Accepted != spec.Iterations {
		t.Errorf("%d of %d iterations count", j.Iterations.Accepted, spec.Iterations)
	}
	t.Logf("SUMMARY: rolling restart of %d hosts: %d chunks, %d given up, attempts %+v, iterations submitted %d, accepted %d",
		len(f.all), j.Chunks.Total, j.Chunks.Failed, j.Attempts, spec.Iterations, j.Iterations.Accepted)
}
