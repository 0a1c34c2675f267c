package demo

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/require"
	"github.com/skein-project/skein/internal/servertest"
)

// TestTableOfJobs: a portal writes jobs into a table of PostgreSQL while two holders are
// killed one after the other and PostgreSQL is restarted. Each row is one job, ends as the
// log says, and has the hash of what it says; what an operator submits by hand is there
// as well.
func TestTableOfJobs(t *testing.T) {
	require.Need(t, require.Postgres)
	parallel(t)
	rows := 24
	if proving() {
		rows = 200
	}
	base, err := os.MkdirTemp("", "pg") //nolint:usetesting // short enough for a socket's address
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	pg, err := servertest.StartPostgres(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pg.Stop() })
	dsn := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(dsn, []byte(pg.DSN+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, ctx := startWith(t, 3, func(d *demo) {
		calm(d)
		d.settings = func(int) string {
			return fmt.Sprintf("[postgres]\ndsn_file = %q\nintake = true\nsink = true\nchunks = true\n", dsn)
		}
	})
	spec, err := d.upload(ctx, filepath.Join(bin, "examples", "pi.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	byHand := spec
	byHand.Key, byHand.Iterations, byHand.Chunk = "by hand", 100, 50
	hand := submit(ctx, t, d.hosts[2], byHand)

	// ask is one answer of the database; "" while it is down or has none.
	ask := func(sql string, args ...any) (s string) {
		conn, err := pgx.Connect(ctx, pg.DSN)
		if err != nil {
			return ""
		}
		defer func() { _ = conn.Close(ctx) }()
		if err := conn.QueryRow(ctx, sql, args...).Scan(&s); err != nil {
			return ""
		}
		return s
	}
	until(ctx, t, "the tables to be there", func() bool { return ask(`select count(*)::text from skein.jobs`) != "" })
	part := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			insert := fmt.Sprintf(`insert into skein.jobs (owner, idem_key, spec) values ('user:ann', 'job %d', '{"artefact": %q, "iterations": 200, "chunk": 50, "seed": %d}') returning 'in'`, i, spec.Artefact, i)
			until(ctx, t, "a row to be written", func() bool { return ask(insert) == "in" })
		}
	}
	failover := func() {
		t.Helper()
		h, err := d.holder(ctx)
		if err != nil {
			t.Fatal(err)
		}
		kill(t, h)
		if err := h.run(); err != nil {
			t.Fatal(err)
		}
	}
	part(0, rows/3)
	failover()
	part(rows/3, 2*rows/3)
	if err := pg.Stop(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // it is down
	if err := pg.Start(ctx); err != nil {
		t.Fatal(err)
	}
	failover()
	part(2*rows/3, rows)

	want := fmt.Sprint(rows + 1)
	until(ctx, t, "all jobs to have ended in the table", func() bool {
		return ask(`select count(*)::text from skein.jobs where state = 'completed' and result_hash = sha256(result::text::bytea)`) == want
	})
	if n := ask(`select count(*)::text from skein.jobs`); n != want {
		t.Errorf("%s rows, want %s", n, want)
	}
	h, err := d.holder(ctx)
	if err != nil {
		t.Fatal(err)
	}
	jobs := map[job.ID]api.Job{}
	for i := range rows {
		id := job.NewID("user:ann", fmt.Sprintf("job %d", i))
		if jobs[id], err = h.api.Job(ctx, string(id)); err != nil {
			t.Fatal(err)
		}
	}
	if jobs[hand.Job], err = h.api.Job(ctx, string(hand.Job)); err != nil {
		t.Fatal(err)
	}
	for _, id := range slices.Sorted(maps.Keys(jobs)) {
		j := jobs[id]
		m := j.Aggregates["pi"]
		same := ask(`select (n = $2 and mean = $3 and min = $4 and max = $5)::text from skein.metrics where job = $1 and metric = 'pi'`,
			string(id), int64(m.N), m.Mean, m.Min, m.Max)
		if got, want := ask(`select concat_ws(' ', count(*), sum((result->'metrics'->'pi'->>'n')::bigint)) from skein.chunk_results where job = $1 and result_hash = sha256(result::text::bytea)`,
			string(id)), fmt.Sprintf("%d %d", j.Chunks.Accepted, m.N); got != want {
			t.Errorf("%s: its chunks in the table, and what they sum up to: %q, want %q", id, got, want)
		}
		if same != "true" || j.State != job.Completed || m.N == 0 {
			t.Errorf("%s is %s with %+v, and that is what the table has: %q", id, j.State, m, same)
		}
	}
}
