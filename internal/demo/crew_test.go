package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/cut"
	"github.com/skein-project/skein/internal/wasmtest"
	"github.com/skein-project/skein/offline"
)

// homeWorker is `skein work` on somebody's computer.
type homeWorker struct {
	args []string
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended

	mu   sync.Mutex // for what follows, of all its runs
	rest []byte     // the beginning of a line
	said []said
}

// said is a line and when it came.
type said struct {
	at   time.Time
	line string
}

// Write takes what it says.
func (w *homeWorker) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, p...)
	for {
		line, rest, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		w.said = append(w.said, said{time.Now(), string(line)})
		w.rest = bytes.Clone(rest)
	}
}

// lines is what it has said.
func (w *homeWorker) lines() []said {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clip(w.said)
}

// attached is the gateway that it was let in at last, and when.
func (w *homeWorker) attached() (gateway string, at time.Time) {
	for _, s := range slices.Backward(w.lines()) {
		if _, gateway, ok := strings.Cut(s.line, "working at "); ok {
			return strings.TrimSpace(gateway), s.at
		}
	}
	return "", time.Time{}
}

var doneLine = regexp.MustCompile(`attempt done attempt=(\d+) chunk=(\d+) .*job=(\S+)`)

// finished is when it had the result of which attempt.
func (w *homeWorker) finished() map[job.Attempt]time.Time {
	out := map[job.Attempt]time.Time{}
	for _, s := range w.lines() {
		if m := doneLine.FindStringSubmatch(s.line); m != nil {
			number, _ := strconv.Atoi(m[1]) // they are digits
			chunk, _ := strconv.Atoi(m[2])
			out[job.Attempt{Job: job.ID(m[3]), Chunk: chunk, Number: number}] = s.at
		}
	}
	return out
}

// startHomeWorkers has n computers of user:ann work at gateways, which each of them tries
// in another order.
func startHomeWorkers(ctx context.Context, t *testing.T, d *demo, gateways []string, n int) []*homeWorker {
	t.Helper()
	h := d.hosts[0]
	if _, err := h.api.SetUser(ctx, "ann", api.UserRequest{Role: "submitter"}); err != nil {
		t.Fatal(err)
	}
	made, err := h.api.CreateAccess(ctx, api.AccessRequest{Owner: "user:ann", Roles: []string{"work"}, TTLSeconds: 7200})
	if err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(made.Secret.Reveal()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all := make([]*homeWorker, n)
	for i := range all {
		first := i % len(gateways)
		order := append(append([]string{}, gateways[first:]...), gateways[:first]...)
		dir := t.TempDir()
		wasmtest.Warm(t, dir)
		all[i] = &homeWorker{args: []string{
			"work", "--gateway", strings.Join(order, ","), "--token", "@" + token, "--slots", "1", "--name", fmt.Sprintf("pc%d", i), "--dir", dir, "-v",
		}}
		all[i].start(t)
	}
	t.Cleanup(func() {
		for i, w := range all {
			w.end(syscall.SIGKILL)
			if t.Failed() {
				lines := w.lines()
				for _, s := range lines[max(0, len(lines)-30):] {
					t.Logf("pc%d %s %s", i, s.at.Format("15:04:05.000"), s.line)
				}
			}
		}
	})
	return all
}

func (w *homeWorker) start(t *testing.T) {
	t.Helper()
	w.cmd = exec.Command(plainSkein(), w.args...)
	w.cmd.Stdout, w.cmd.Stderr = w, w
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.done = make(chan struct{})
	go func() { defer close(w.done); _ = w.cmd.Wait() }() // how it ended, its ProcessState says
}

// end ends it by a signal, and waits for that.
func (w *homeWorker) end(s syscall.Signal) {
	_ = w.cmd.Process.Signal(s) // it may have ended
	<-w.done
}

// absence is the time from the kill of a gateway until all who worked there had another.
type absence struct {
	from, to time.Time
	there    []*homeWorker
}

// killGateway kills a gateway, and says for each computer that worked there how long it took
// until it heard the first word of another.
func killGateway(ctx context.Context, t *testing.T, h *host, url string, all []*homeWorker) (gone absence, took []time.Duration) {
	t.Helper()
	for _, w := range all {
		if at, _ := w.attached(); at == url {
			gone.there = append(gone.there, w)
		}
	}
	gone.from = time.Now()
	kill(t, h)
	for _, w := range gone.there {
		eventually(ctx, t, time.Minute, "a computer works elsewhere", func() error {
			at, when := w.attached()
			if at == url || !when.After(gone.from) {
				return fmt.Errorf("it is at %q", at)
			}
			took = append(took, when.Sub(gone.from))
			return nil
		})
	}
	gone.to = time.Now()
	return gone, took
}

// assignments is which attempts of a job were given to somebody when, and which counts of
// each chunk since when, as the log of h has it.
func assignments(ctx context.Context, t *testing.T, h *host, id job.ID) (given map[int]map[int]time.Time, counts map[int]said) {
	t.Helper()
	given, counts = map[int]map[int]time.Time{}, map[int]said{}
	for _, e := range eventsOf(ctx, t, h, event.KindChunksAssigned) {
		b := body[event.ChunksAssigned](t, e)
		for _, a := range b.Assignments {
			if b.Job != id {
				continue
			}
			if given[a.Chunk] == nil {
				given[a.Chunk] = map[int]time.Time{}
			}
			given[a.Chunk][a.Number] = e.HLC.Time()
		}
	}
	for _, e := range eventsOf(ctx, t, h, event.KindChunksAccepted) {
		for _, a := range acceptsOf(e, id) {
			if _, again := counts[a.Chunk]; !again {
				counts[a.Chunk] = said{e.HLC.Time(), fmt.Sprintf("#%d by %s", a.Attempt, a.Worker)}
			}
		}
	}
	return given, counts
}

// nothingAgain checks that what computers had finished while a gateway was gone counts, and
// was not given to anybody once more. It returns how many results there were that did not
// count yet when a gateway was killed or were done until all had another, and how many of
// them by those who had lost theirs.
func nothingAgain(ctx context.Context, t *testing.T, h *host, id job.ID, all []*homeWorker, gone []absence) (open, kept int) {
	t.Helper()
	open, kept, again := doneAgain(ctx, t, h, id, all, gone)
	for _, text := range again {
		t.Error(text)
	}
	return open, kept
}

// doneAgain is nothingAgain that lists what was given away once more.
func doneAgain(ctx context.Context, t *testing.T, h *host, id job.ID, all []*homeWorker, gone []absence) (open, kept int, again []string) {
	t.Helper()
	given, counts := assignments(ctx, t, h, id)
	for i, w := range all {
		for ref, at := range w.finished() {
			accepted := counts[ref.Chunk]
			n := slices.IndexFunc(gone, func(g absence) bool { return at.Before(g.to) && accepted.at.After(g.from) })
			if ref.Job != id || n < 0 {
				continue // it counted before, or was done after
			}
			if open++; slices.Contains(gone[n].there, w) {
				kept++
			}
			for number, when := range given[ref.Chunk] {
				if number > ref.Number && when.After(at) {
					again = append(again, fmt.Sprintf("pc%d had %s at %s; it was given away again at %s as attempt %d, and %s counts", i, ref, at.Format(time.TimeOnly), when.Format(time.TimeOnly), number, accepted.line))
				}
			}
		}
	}
	return open, kept, again
}

// TestOutsideWorkers: computers that no host runs do a part of a job, at three gateways.
// One gateway is killed in the middle, one computer killed and started again, one stopped.
// Who worked at that gateway goes on at another soon, with what it has: nothing that was
// finished is computed again. The job is what one computer alone makes of it, to the bit,
// each chunk counts once, and no attempt has failed.
//
// SKEIN_PROVE=1 has 50 computers at two gateways, each of which is killed and comes back
// several times, and then sends them the many jobs of outsideFaults.
func TestOutsideWorkers(t *testing.T) {
	parallel(t)
	// A busy machine is no proof of the time.
	n, kills, chunks, size, most := 6, 1, 800, 4_000_000/leisurely(t), 30*time.Second
	if proving() {
		n, kills, chunks, size, most = 50, 5, 2500, 20_000_000, 6*time.Second
	}
	more := []string{"[api]\nbearer = \"all\"\n"}
	if proving() { // so many have other addresses than the cluster's users, and each its own
		more = append([]string{"trusted_proxies = \"127.0.0.0/8\"\n"}, more...)
	}
	apart := cut.New()
	t.Cleanup(apart.Close)
	var ports []int
	d, ctx, urls := startGatewaysIn(t, 3, func(d *demo) {
		d.env = func(_, port int) []string {
			ports = append(ports, port)
			at, err := apart.Front(port)
			if err != nil {
				t.Error(err)
			}
			return []string{"SKEIN_MESH_ADVERTISE=" + at.String()}
		}
	}, more...)
	pi := filepath.Join(bin, "examples", "pi.wasm")
	spec, err := d.upload(ctx, pi)
	if err != nil {
		t.Fatal(err)
	}
	at := []*host{d.hosts[2], d.hosts[1], d.hosts[0]}
	if proving() {
		at = at[:2]
	}
	var gateways []string
	for _, h := range at {
		gateways = append(gateways, urls[h])
	}
	all := startHomeWorkers(ctx, t, d, gateways, n)
	// It is ann's, whose own computers are believed: nothing is done twice to check it.
	ann := newPortalUser(ctx, t, d.hosts[0], urls[d.hosts[0]], "ann")
	spec.Key, spec.Iterations, spec.Chunk, spec.Seed = "outside", uint64(chunks)*size, size, 7
	spec.Permission.Outside = true
	sub, err := ann.submit(ctx, urls[d.hosts[0]], spec)
	if err != nil {
		t.Fatal(err)
	}
	strange := func() (workers, n int) {
		j, err := d.hosts[0].api.Job(ctx, string(sub.Job))
		if err != nil {
			return 0, 0
		}
		if j.State.Final() {
			t.Fatalf("the job is %s too early", j.State)
		}
		for _, w := range j.Workers {
			if cluster.IsOutside(w.Node) && w.Accepted > 0 {
				workers, n = workers+1, n+w.Accepted
			}
		}
		return workers, n
	}
	eventually(ctx, t, 5*time.Minute, "outside workers count", func() error { // each compiles the module first
		if w, done := strange(); w < n/2 || done < 10 {
			return fmt.Errorf("%d have done %d", w, done)
		}
		return nil
	})
	var took []time.Duration
	var gone []absence
	for i := range kills {
		h := at[i%2]
		g, each := killGateway(ctx, t, h, urls[h], all)
		gone, took = append(gone, g), append(took, each...)
		if i < kills-1 {
			start1(t, h)
			eventually(ctx, t, time.Minute, h.name+" is a gateway again", func() error {
				return outsideAsk(ctx, http.MethodGet, urls[h]+"/readyz", "", nil, nil)
			})
			_, before := strange()
			until(ctx, t, "outside workers to go on", func() bool { _, n := strange(); return n >= before+10 })
		}
	}
	dead := at[(kills-1)%2]
	slices.Sort(took)
	if len(took) == 0 {
		t.Fatal("nobody worked at the gateways that were killed")
	}
	worst := took[(len(took)*99+99)/100-1]
	t.Logf("%d times a computer lost its gateway; until it heard the first word of another: median %.2f s, p99 %.2f s, most %.2f s",
		len(took), took[len(took)/2].Seconds(), worst.Seconds(), took[len(took)-1].Seconds())
	if worst > most {
		t.Errorf("p99 %s, want %s", worst, most)
	}
	all[0].end(syscall.SIGKILL)
	all[0].start(t)
	all[1].end(syscall.SIGTERM)
	if !all[1].cmd.ProcessState.Success() {
		t.Errorf("a computer that was stopped: %s", all[1].cmd.ProcessState)
	}
	left := slices.DeleteFunc(slices.Clone(at), func(h *host) bool { return h == dead })
	eventually(ctx, t, time.Minute, "the gateways that are left have the computers", func() error {
		list, err := left[0].api.Gateways(ctx)
		if err != nil {
			return err
		}
		attached := 0
		for _, g := range list.Gateways {
			if g.Workers == nil {
				return fmt.Errorf("no holder says how many workers %s has", g.Node)
			}
			if g.Node != cluster.NodeID(dead.name) {
				attached += *g.Workers
			}
		}
		if len(list.Gateways) != 3 || attached < n-1 {
			return fmt.Errorf("%+v: %d workers, want %d", list.Gateways, attached, n-1)
		}
		return nil
	})
	workers, before := strange()
	got := finish(ctx, t, d.hosts[0], sub.Job)
	after := 0
	for _, w := range got.Workers {
		if cluster.IsOutside(w.Node) {
			after += w.Accepted
		}
	}
	open, kept := nothingAgain(ctx, t, d.hosts[0], sub.Job, all, gone)
	t.Logf("%d chunks of %d outside workers counted when gateways were killed, %d at the end; %d results were open while a gateway was gone, %d of them of those that had lost it; attempts %+v", before, workers, after, open, kept, got.Attempts)
	if open == 0 || proving() && kept == 0 {
		t.Error("no result was open while a gateway was gone")
	}
	if got.State != job.Completed || got.Chunks.Accepted != chunks || got.Attempts.Failed > 0 {
		t.Errorf("%s: %+v, attempts %+v", got.State, got.Chunks, got.Attempts)
	}
	module, err := os.ReadFile(pi)
	if err != nil {
		t.Fatal(err)
	}
	want, err := offline.RunLocal(ctx, offline.LocalJob{Spec: spec.WithDefaults(), Module: module, RunnerArgv: []string{plainSkein(), "runner"}, Modules: wasmtest.Modules(t)})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Aggregates, want.Aggregates) || got.Iterations != want.Iterations {
		t.Errorf("with outside workers %v %+v\nlocally %v %+v", got.Iterations, got.Aggregates, want.Iterations, want.Aggregates)
	}
	// A log that a kill ended is whole.
	if out, err := exec.CommandContext(ctx, filepath.Join(bin, "skein"), "log", "verify", "--state-dir", dead.stateDir()).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	nothingLeft(ctx, t, d)
	if proving() {
		start1(t, dead)
		all[1].start(t)
		f := &outsideFaults{t: t, ctx: ctx, d: d, at: at, urls: urls, all: all, ann: ann, cut: func(h *host, on bool) {
			apart.Put(ports[slices.Index(d.hosts, h)], map[bool]int{true: 1}[on])
		}}
		f.run(spec, 1000)
		nothingLeft(ctx, t, d)
		verifyAllHosts(ctx, t, d)
	}
}

// nothingLeft waits until outside workers have nothing to do any more.
func nothingLeft(ctx context.Context, t *testing.T, d *demo) {
	t.Helper()
	eventually(ctx, t, time.Minute, "outside workers have nothing left", func() error {
		text, err := d.hosts[0].api.Raw(ctx, "/v1/workers")
		if err != nil {
			return err
		}
		var list api.Workers
		if err := json.Unmarshal(text, &list); err != nil {
			return err
		}
		for _, w := range list.Workers {
			if cluster.IsOutside(w.Node) && w.Assigned > 0 {
				return fmt.Errorf("%s has %d attempts", w.Node, w.Assigned)
			}
		}
		return nil
	})
}
