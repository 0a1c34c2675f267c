package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	dto "github.com/prometheus/client_model/go"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/require"
	"github.com/skein-project/skein/internal/servertest"
)

// server is one PostgreSQL for all tests of this package; each has a database of its own.
var server struct {
	p   *servertest.Postgres
	err error
	n   int
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if require.Missing(require.Postgres) == nil {
		server.p, server.err = servertest.StartPostgres(context.Background(), dir, "fsync=off")
	}
	code := m.Run()
	if server.p != nil {
		_ = server.p.Stop()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// database makes an empty database and returns how to connect.
func database(t *testing.T) string {
	t.Helper()
	require.Need(t, require.Postgres)
	if server.err != nil {
		t.Fatal(server.err)
	}
	server.n++
	name := fmt.Sprintf("test%d", server.n)
	conn, err := pgx.Connect(t.Context(), server.p.DSN)
	if err == nil {
		_, err = conn.Exec(t.Context(), "create database "+name)
		err = errors.Join(err, conn.Close(t.Context()))
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(server.p.DSN, "dbname=postgres", "dbname="+name, 1)
}

func opened(t *testing.T, dsn, of string) *db {
	t.Helper()
	d, err := open(t.Context(), dsn, of)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.close)
	return d
}

func (d *db) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := d.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// cell is one value, as text.
func (d *db) cell(t *testing.T, sql string, args ...any) (s string) {
	t.Helper()
	var v *string
	if err := d.pool.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if v == nil {
		return "null"
	}
	return *v
}

// TestSchema: two hosts make the tables at once, again nothing happens, and a later
// release's are left alone.
func TestSchema(t *testing.T) {
	dsn := database(t)
	a, b := opened(t, dsn, "c"), opened(t, dsn, "c")
	var both sync.WaitGroup
	for _, d := range []*db{a, b} {
		both.Go(func() {
			for range 2 {
				if err := d.migrate(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	both.Wait()
	a.exec(t, `update skein.version set n = 99`)
	if err := a.migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "later release") {
		t.Errorf("%v", err)
	}
}

// TestFence: only the holder of the highest term changes anything, the row that it
// marked is not marked again, and another cluster is refused.
func TestFence(t *testing.T) {
	dsn := database(t)
	d := opened(t, dsn, "c")
	ctx := t.Context()
	if err := d.migrate(ctx); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b"} {
		d.exec(t, `insert into skein.jobs (owner, idem_key, spec) values ('user:ann', $1, '{}')`, key)
	}
	id := func(key string) string { return d.cell(t, `select id::text from skein.jobs where idem_key = $1`, key) }
	state := func(key string) string {
		return d.cell(t, `select concat_ws(' ', state, job, term) from skein.jobs where idem_key = $1`, key)
	}
	if err := errors.Join(d.raise(ctx, 3, "n1"), d.raise(ctx, 3, "n1"), d.mark(ctx, 3, id("a"), "taken", "j1", "")); err != nil || state("a") != "taken j1 3" {
		t.Fatalf("%v, %s", err, state("a"))
	}
	if err := d.raise(ctx, 5, "n2"); err != nil {
		t.Fatal(err)
	}
	for term, holder := range map[cluster.Term]cluster.NodeID{3: "n1", 4: "n3", 5: "n1"} {
		if err := d.raise(ctx, term, holder); !errors.Is(err, errStale) {
			t.Errorf("term %d of %s: %v", term, holder, err)
		}
	}
	end := ended{job: "j2", owner: "user:ann", key: "b", spec: []byte("{}"), state: job.Completed, result: []byte("{}")}
	if err := errors.Join(d.mark(ctx, 3, id("b"), "taken", "j2", ""), d.put(ctx, 3, []ended{end})); err != nil || state("b") != "new" {
		t.Errorf("a holder of before: %v, %s", err, state("b"))
	}
	if err := d.mark(ctx, 5, id("a"), "rejected", "", "no"); err != nil || state("a") != "taken j1 3" {
		t.Errorf("marked twice: %v, %s", err, state("a"))
	}
	if err := errors.Join(d.put(ctx, 5, []ended{end}), d.put(ctx, 5, []ended{end})); err != nil || state("b") != "completed j2 5" {
		t.Errorf("%v, %s", err, state("b"))
	}
	if err := opened(t, dsn, "another").raise(ctx, 9, "n9"); err == nil || !strings.Contains(err.Error(), "belongs to the cluster c") {
		t.Errorf("another cluster: %v", err)
	}
}

// fake is a log, and what takes jobs.
type fake struct {
	mu     sync.Mutex
	jobs   map[job.ID]ended
	events map[job.ID][]event.Event
	open   map[job.ID]bool
	change chan struct{}
	fail   error // of submissions
	asked  int
	taken  func(job.ID) // is called in the middle of a submission; may be nil
}

func newFake() *fake {
	return &fake{jobs: make(map[job.ID]ended), events: make(map[job.ID][]event.Event), open: make(map[job.ID]bool), change: make(chan struct{})}
}

func (f *fake) known() (all, over []job.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.open {
		all = append(all, id)
	}
	for id := range f.jobs {
		all, over = append(all, id), append(over, id)
	}
	return all, over
}

func (f *fake) of(ids []job.ID) (list []ended) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		if e, ok := f.jobs[id]; ok {
			list = append(list, e)
		}
	}
	return list
}

func (f *fake) about(_ context.Context, id job.ID) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		f.mu.Lock()
		all := f.events[id]
		f.mu.Unlock()
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (f *fake) changed() <-chan struct{} { f.mu.Lock(); defer f.mu.Unlock(); return f.change }

func (f *fake) end(e ended) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs[e.job] = e
	close(f.change)
	f.change = make(chan struct{})
}

func (f *fake) submit(_ context.Context, owner string, r api.SubmitRequest) (api.SubmitResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.fail != nil {
		return api.SubmitResponse{}, f.fail
	}
	if r.Spec.Iterations == 13 {
		return api.SubmitResponse{}, api.Errorf(api.CodeInvalidJob, "iterations: 13 is not allowed")
	}
	id := job.NewID(owner, r.Spec.Key)
	f.open[id] = true
	if f.taken != nil {
		f.taken(id)
	}
	return api.SubmitResponse{Job: id}, nil
}

// serving runs a service as the holder in a term until the test or stop ends it.
func serving(t *testing.T, dsn string, f *fake, term cluster.Term, holder cluster.NodeID) (s *Service, stop func()) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(file, []byte(dsn+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{
		Cluster: "c", Self: holder, DSNFile: file, Intake: true, Sink: true, Chunks: true,
		Settle: func(context.Context) error { return nil }, Logger: zerolog.New(zerolog.NewTestWriter(t)),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.ends = f
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.run(ctx, term, f.submit) })
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return s, stop
}

// until waits for a cell to say something.
func (d *db) until(t *testing.T, want, sql string, args ...any) {
	t.Helper()
	var got string
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err = d.pool.QueryRow(t.Context(), sql, args...).Scan(&got); err == nil && got == want {
			return
		}
	}
	t.Fatalf("%s: %q, %v, want %q", sql, got, err, want)
}

// TestTable: jobs of the table are submitted once each, as soon as they come; what is no
// job is refused with its reason; how jobs ended comes back, those of others too, with the
// hash of its text; and a job may be forgotten when the table has its end.
func TestTable(t *testing.T) {
	dsn, f := database(t), newFake()
	d := opened(t, dsn, "c")
	s, _ := serving(t, dsn, f, 1, "n1")
	d.until(t, "1", `select count(*)::text from pg_stat_activity where datname = current_database() and query = 'listen skein_jobs'`)
	insert := func(owner, key, spec string) {
		t.Helper()
		d.exec(t, `insert into skein.jobs (owner, idem_key, spec) values ($1, $2, $3)`, owner, key, spec)
	}
	const state = `select state from skein.jobs where owner = $1 and idem_key = $2`
	insert("user:ann", "good", `{"name": "ann's", "iterations": 100}`)
	d.until(t, "taken", state, "user:ann", "good")
	id := job.NewID("user:ann", "good")
	if got := d.cell(t, `select job from skein.jobs`); got != string(id) {
		t.Errorf("it is job %s, want %s", got, id)
	}
	for key, bad := range map[string]struct{ owner, spec, why string }{
		"a": {"root", `{}`, "not a user"},
		"b": {"user:no one", `{}`, "not a user"},
		"c": {"visitor:x", `{}`, "not a user"},
		"d": {"user:ann", `{"iteratons": 5}`, "unknown field"},
		"e": {"user:ann", `[]`, "cannot unmarshal"},
		"f": {"user:ann", `{"key": "other"}`, "leave it out"},
		"g": {"user:ann", `{"iterations": 13}`, "not allowed"},
		"h": {"uid:0", `{}`, "not a user"},
	} {
		insert(bad.owner, key, bad.spec)
		d.until(t, "rejected", state, bad.owner, key)
		if why := d.cell(t, `select error from skein.jobs where idem_key = $1`, key); !strings.Contains(why, bad.why) {
			t.Errorf("%s: %s", key, why)
		}
	}

	f.mu.Lock()
	f.fail = api.Errorf(api.CodeNoHolder, "not now")
	f.mu.Unlock()
	insert("user:bob", "later", `{}`)
	for before := 0; before == 0; time.Sleep(10 * time.Millisecond) { // it was asked, and stays
		f.mu.Lock()
		before = max(0, f.asked-3)
		f.mu.Unlock()
	}
	if got := d.cell(t, state, "user:bob", "later"); got != "new" {
		t.Errorf("it is %s", got)
	}
	f.mu.Lock()
	f.fail = nil
	f.mu.Unlock()
	insert("user:bob", "wakes", `{}`)
	d.until(t, "taken", state, "user:bob", "later")

	// The same key is no second job, and one that is cancelled while it is taken ends as the log
	// says, also if that comes first.
	if _, err := d.pool.Exec(t.Context(), `insert into skein.jobs (owner, idem_key, spec) values ('user:ann', 'good', '{"iterations": 7}')`); err == nil || !strings.Contains(err.Error(), "23505") {
		t.Errorf("the same key again: %v", err)
	}
	insert("user:bob", "good", `{}`) // another user's
	d.until(t, "taken", state, "user:bob", "good")
	f.mu.Lock()
	f.taken = func(id job.ID) {
		f.taken = nil
		f.jobs[id] = ended{job: id, owner: "user:bob", key: "stopped", spec: []byte(`{}`), state: job.Cancelled, result: []byte(`{}`), why: "cancelled by user:bob"}
		close(f.change)
		f.change = make(chan struct{})
	}
	f.mu.Unlock()
	insert("user:bob", "stopped", `{}`)
	d.until(t, "cancelled", state, "user:bob", "stopped")
	insert("user:bob", "after that", `{}`)
	d.until(t, "taken", state, "user:bob", "after that")
	if got := d.cell(t, `select concat_ws(' ', state, job, error) from skein.jobs where idem_key = 'stopped'`); got != "cancelled "+string(job.NewID("user:bob", "stopped"))+" cancelled by user:bob" {
		t.Errorf("a job that was cancelled while it was taken: %s", got)
	}

	if s.MayForget(id) {
		t.Error("a job may be forgotten before the table has its end")
	}
	end := ended{
		job: id, owner: "user:ann", key: "good", spec: []byte(`{"iterations":100}`), state: job.Completed,
		result: []byte(`{"accepted": 1,"metrics":{"x":{"n":4,"mean":2.5,"m2":3,"min":1,"max":4}}}`), began: time.Now(), done: time.Now(),
	}
	f.end(end)
	d.until(t, "completed", state, "user:ann", "good")
	if got := d.cell(t, `select (result_hash = sha256(result::text::bytea))::text from skein.jobs where job = $1`, string(id)); got != "true" {
		t.Error("the hash is not that of the text")
	}
	if got := d.cell(t, `select concat_ws(' ', metric, n, mean, std, min, max) from skein.metrics`); got != "x 4 2.5 1 1 4" {
		t.Errorf("metrics: %s", got)
	}
	other := job.NewID("uid:0", "by hand")
	f.end(ended{job: other, owner: "uid:0", key: "by hand", spec: []byte(`{}`), state: job.Failed, result: []byte(`{}`), why: "too many failures"})
	d.until(t, "failed", state, "uid:0", "by hand")
	for end := time.Now().Add(30 * time.Second); !s.MayForget(id) || !s.MayForget(other); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a job whose end is in the table may not be forgotten")
		}
	}
}

// TestDiffers: a result that is not that of the log stays, and is named; one that the
// database refuses keeps no other.
func TestDiffers(t *testing.T) {
	dsn, f := database(t), newFake()
	d := opened(t, dsn, "c")
	if err := d.migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.exec(t, `insert into skein.jobs (owner, idem_key, spec, state, job, result, result_hash) values ('user:ann', 'k', '{}', 'completed', 'j1', '{"a":1}', sha256('{"a":1}'))`)
	f.jobs["j1"] = ended{job: "j1", owner: "user:ann", key: "k", spec: []byte(`{}`), state: job.Completed, result: []byte(`{"a":2}`)}
	f.jobs["j2"] = ended{job: "j2", owner: "user:ann", key: "nul", spec: []byte(`{"name":"\u0000"}`), state: job.Completed, result: []byte(`{}`)}
	f.jobs["j3"] = ended{job: "j3", owner: "user:ann", key: "fine", spec: []byte(`{}`), state: job.Cancelled, result: []byte(`{}`)}
	s, _ := serving(t, dsn, f, 1, "n1")
	d.until(t, "1", `select count(*)::text from skein.jobs where idem_key = 'fine' and state = 'cancelled'`)
	for end := time.Now().Add(30 * time.Second); !s.MayForget("j1") || !s.MayForget("j2"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is tried for ever")
		}
	}
	if got := d.cell(t, `select result::text from skein.jobs where job = 'j1'`); got != `{"a":1}` {
		t.Errorf("it has %s now", got)
	}
}

// results are the events of a job of n chunks of 10 iterations: each is accepted, in
// batches of four.
func results(t *testing.T, id job.ID, n int) (all []event.Event) {
	t.Helper()
	for first := 0; first < n; first += 4 {
		b := event.ChunksAccepted{Job: id}
		for c := first; c < min(n, first+4); c++ {
			b.Accepts = append(b.Accepts, accepted(c, 1))
		}
		all = append(all, logged(t, uint64(first+1), event.KindChunksAccepted, b))
	}
	return all
}

func accepted(chunk, attempt int) event.Accept {
	return event.Accept{Chunk: chunk, Attempt: attempt, Worker: "n1", Seconds: 0.5, Result: job.ChunkResult{
		Iterations: 10, Metrics: map[string]job.Metric{"x": {N: 10, Mean: float64(attempt), Min: 0, Max: 9}},
	}}
}

func logged(t *testing.T, seq uint64, kind event.Kind, body any) event.Event {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return event.Event{Source: event.SourceID{Node: "n1", Inc: 1}, Seq: seq, HLC: cluster.HLC(seq << 16), Kind: kind, Body: text}
}

// TestChunks: the result of each chunk that was counted is there before the end of its job,
// once, however many there are and however often it is written; a stale holder writes none,
// and what differs stays and is counted.
func TestChunks(t *testing.T) {
	dsn, f := database(t), newFake()
	d := opened(t, dsn, "c")
	const n = 2*chunksAtOnce + 7
	id := job.ID("j1")
	spec := job.Spec{Iterations: 10 * n, Chunk: 10}
	all := results(t, id, n)
	other := accepted(5, 2) // beside the first: it came too late
	settles := accepted(6, 3)
	settles.Settles = true
	wrong := accepted(n, 1) // there is no such chunk
	all = append(all, logged(t, n+10, event.KindChunkAccepted, event.ChunkAccepted{Job: id, Chunk: 5, Attempt: 2, Worker: "n2", Seconds: 1, Result: other.Result}),
		logged(t, n+11, event.KindChunksAccepted, event.ChunksAccepted{Job: id, Accepts: []event.Accept{settles, wrong}}),
		logged(t, n+12, event.KindChunksAccepted, event.ChunksAccepted{Job: "j2", Accepts: []event.Accept{accepted(7, 9)}}))
	f.events[id] = all
	f.events["j2"] = all[:1]
	e := ended{job: id, owner: "uid:0", key: "k", of: spec, spec: []byte(`{}`), state: job.Completed, accepted: n, result: []byte(`{}`)}
	f.jobs[id] = e
	s, stop := serving(t, dsn, f, 3, "n1")
	d.until(t, "completed", `select state from skein.jobs where idem_key = 'k'`)
	count := func(where string) string {
		return d.cell(t, `select count(*)::text from skein.chunk_results where job = 'j1' and term = 3 and result_hash = sha256(result::text::bytea) and `+where)
	}
	for where, want := range map[string]string{
		"true": fmt.Sprint(n), "attempt = 1": fmt.Sprint(n - 1), "chunk = 6 and attempt = 3": "1",
		"(result->'metrics'->'x'->>'n')::int = 10 and worker = 'n1' and seconds = 0.5": fmt.Sprint(n),
	} {
		if got := count(where); got != want {
			t.Errorf("%s: %s rows, want %s", where, got, want)
		}
	}
	stop()

	session := session{Service: s, db: d, term: 3}
	d.exec(t, `update skein.chunk_results set result = '{}', result_hash = sha256('{}') where chunk = 9`)
	if err := session.putChunks(t.Context(), id, spec, n); err != nil {
		t.Fatal(err)
	}
	var m dto.Metric
	if err := s.metrics.differ.Write(&m); err != nil || m.GetCounter().GetValue() != 1 {
		t.Errorf("%v results differ, want 1: %v", m.GetCounter().GetValue(), err)
	}
	if err := d.raise(t.Context(), 4, "n2"); err != nil {
		t.Fatal(err)
	}
	d.exec(t, `delete from skein.chunk_results where chunk = 9`)
	if err := session.putChunks(t.Context(), id, spec, n); !errors.Is(err, errStale) {
		t.Errorf("a stale holder: %v", err)
	}
	if got := count("true"); got != fmt.Sprint(n-1) {
		t.Errorf("a stale holder wrote: %s rows", got)
	}
}

// TestLaterHolder: a holder that does not know that it lost its lease changes nothing
// any more, and PostgreSQL may go and come again.
func TestLaterHolder(t *testing.T) {
	dsn, f, late := database(t), newFake(), newFake()
	d := opened(t, dsn, "c")
	serving(t, dsn, f, 1, "n1")
	d.until(t, "1", `select count(*)::text from skein.fence where term = 1`)
	serving(t, dsn, late, 2, "n2")
	d.until(t, "1", `select count(*)::text from skein.fence where term = 2`)
	f.end(ended{job: "stale", owner: "uid:0", key: "stale", spec: []byte(`{}`), state: job.Completed, result: []byte(`{}`)})
	late.end(ended{job: "fresh", owner: "uid:0", key: "fresh", spec: []byte(`{}`), state: job.Completed, result: []byte(`{}`)})
	d.until(t, "fresh", `select string_agg(job, ' ') from skein.jobs`)
	d.exec(t, `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'skein' and pid <> pg_backend_pid()`)
	late.end(ended{job: "after", owner: "uid:0", key: "after", spec: []byte(`{}`), state: job.Completed, result: []byte(`{}`)})
	d.until(t, "after fresh", `select string_agg(job, ' ' order by job) from skein.jobs`)
}

// TestDSN: what is no address is refused without its words, which may hold a password.
func TestDSN(t *testing.T) {
	if _, err := open(t.Context(), "postgres://ann:secret@[x/", "c"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	file := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(file, []byte(strings.Repeat("x", maxDSN+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := dsnOf(file); err == nil {
		t.Error("a long file is fine")
	}
}

// FuzzSpec: whatever stands in a row, the job that is submitted is of its owner and key.
func FuzzSpec(f *testing.F) {
	f.Add("user:ann", "k", `{"iterations": 5}`)
	f.Add("user:", "k", `{} {}`)
	f.Add("uid:0", "", `{"key":"x"}`)
	f.Fuzz(func(t *testing.T, owner, key, spec string) {
		s, err := specOf(row{owner: owner, key: key, spec: spec})
		if err == nil && (s.Key != key || !strings.HasPrefix(owner, "user:") || len(spec) > maxSpec) {
			t.Errorf("%q %q %q: %+v", owner, key, spec, s)
		}
	})
}
