package postgres

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/require"
	"github.com/skein-project/skein/internal/servertest"
)

// BenchmarkChunks writes results of chunks, a thousand at a time, as the sink does (the
// fence and what is there already in the statement) and by the plainest statement that puts
// the same rows into the same table, in turn, on a PostgreSQL that syncs. It tells the
// median of five rounds of both, and the ratio.
func BenchmarkChunks(b *testing.B) {
	if err := require.Missing(require.Postgres); err != nil {
		b.Skip(err)
	}
	base, err := os.MkdirTemp("", "pg") //nolint:usetesting // that of a test no other user may enter
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(base) }()
	pg, err := servertest.StartPostgres(b.Context(), base, "fsync=on", "shared_buffers=256MB", "max_wal_size=4GB")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = pg.Stop() }()
	ctx := b.Context()
	d, err := open(ctx, pg.DSN, "c")
	if err != nil {
		b.Fatal(err)
	}
	defer d.close()
	if err := d.migrate(ctx); err != nil {
		b.Fatal(err)
	}
	if err := d.raise(ctx, 1, "n1"); err != nil {
		b.Fatal(err)
	}
	s, err := New(Options{Sink: true, Chunks: true, Logger: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	ours := session{Service: s, db: d, term: 1}
	plain := func(ctx context.Context, id job.ID, c chunks) error {
		_, err := d.pool.Exec(ctx, `insert into skein.chunk_results (job, term, chunk, result, result_hash, worker, attempt, seconds, accepted_at)
			select $1, 1, u.* from unnest($2::int[], $3::text[]::json[], $4::bytea[], $5::text[], $6::int[], $7::float8[], $8::timestamptz[]) as u`,
			string(id), c.chunk, c.result, c.hash, c.worker, c.attempt, c.seconds, c.accepted)
		return err
	}
	const rows = 50_000
	var batches []chunks
	for first := 0; first < rows; first += chunksAtOnce {
		var c chunks
		for i := range chunksAtOnce {
			a := event.Accept{Chunk: first + i, Attempt: 1, Worker: "n1", Seconds: 1.5, Result: job.ChunkResult{Iterations: 1e6, Metrics: map[string]job.Metric{
				"pi": {N: 1_000_000, Mean: 3.14159 + float64(first+i)/1e9, M2: 2.69e6 + float64(i), Max: 4},
			}}}
			if err := c.add(time.UnixMilli(int64(i)), a); err != nil {
				b.Fatal(err)
			}
		}
		batches = append(batches, c)
	}
	round := 0
	perSecond := func(write func(context.Context, job.ID, chunks) error) float64 {
		if _, err := d.pool.Exec(ctx, `truncate skein.chunk_results`); err != nil {
			b.Fatal(err)
		}
		round++
		began := time.Now()
		for _, c := range batches {
			if err := write(ctx, job.ID(fmt.Sprint("j", round)), c); err != nil {
				b.Fatal(err)
			}
		}
		return rows / time.Since(began).Seconds()
	}
	for b.Loop() {
		var of, than []float64
		for range 5 {
			of, than = append(of, perSecond(ours.writeChunks)), append(than, perSecond(plain))
		}
		slices.Sort(of)
		slices.Sort(than)
		b.ReportMetric(of[2], "rows/s")
		b.ReportMetric(than[2], "plain-rows/s")
		b.ReportMetric(of[2]/than[2], "x-plain")
	}
}
