package scaleout

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/wait"
)

// key is how the portal names its job.
const key = "order 4711"

// portal is who writes jobs into the table, and reads how they ended: a role with no more
// rights than docs/scale-out.md gives it.
type portal struct{ conn *pgx.Conn }

func (p *portal) close() {
	if p != nil && p.conn != nil {
		_ = p.conn.Close(context.Background()) // all that it wanted is done
	}
}

// Rights of the portal, once the holder has made the tables.
const grants = `
create role portal login;
grant usage on schema skein to portal;
grant insert (owner, idem_key, spec) on skein.jobs to portal;
grant select on skein.jobs, skein.metrics, skein.chunk_results to portal;`

// openPortal waits for the tables, and connects as the portal.
func (w *show) openPortal(ctx context.Context) error {
	super, err := pgx.Connect(ctx, w.pg.DSN)
	if err != nil {
		return err
	}
	defer func() { _ = super.Close(ctx) }() // all is done
	if err := w.until(ctx, "the holder makes the tables", func() error {
		_, err := super.Exec(ctx, `select from skein.jobs, skein.chunk_results limit 0`)
		return err
	}); err != nil {
		return err
	}
	if _, err := super.Exec(ctx, grants); err != nil {
		return fmt.Errorf("rights of the portal: %w", err)
	}
	conf, err := pgx.ParseConfig(w.pg.DSN)
	if err != nil {
		return err
	}
	conf.User = "portal"
	conn, err := pgx.ConnectConfig(ctx, conf)
	w.portal = &portal{conn}
	return err
}

// fromTable has the portal write the job into the table, and waits until the holder took it.
func (w *show) fromTable(ctx context.Context, spec job.Spec) error {
	if err := w.openPortal(ctx); err != nil {
		return err
	}
	text, err := json.Marshal(map[string]any{
		"name": "pi", "artefact": spec.Artefact, "iterations": spec.Iterations, "chunk": spec.Chunk, "seed": spec.Seed, "permission": map[string]bool{"outside": true},
	})
	if err != nil {
		return err
	}
	began := time.Now()
	if _, err := w.portal.conn.Exec(ctx, `insert into skein.jobs (owner, idem_key, spec) values ($1, $2, $3)`, "user:"+owner, key, string(text)); err != nil {
		return fmt.Errorf("the portal's row: %w", err)
	}
	for w.job == "" {
		var state, id, why string
		err := w.portal.conn.QueryRow(ctx, `select state, coalesce(job, ''), coalesce(error, '') from skein.jobs where idem_key = $1`, key).Scan(&state, &id, &why)
		if err == nil && state == "rejected" {
			err = fmt.Errorf("the holder does not take it: %s", why)
		}
		if err == nil {
			w.job = job.ID(id)
			err = wait.For(ctx, pollEvery/10)
		}
		if err != nil {
			return fmt.Errorf("the portal's row: %w", err)
		}
	}
	w.s.Say("a portal wrote one row into skein.jobs: %d iterations in %d chunks, for user %s; %.2f s later it was a job", spec.Iterations, w.o.Chunks, owner, time.Since(began).Seconds())
	return nil
}

// intoTable waits until the portal reads how the job ended.
func (w *show) intoTable(ctx context.Context) error {
	if _, err := w.follow(ctx, "the job ends", func(c count) bool { return c.over }); err != nil {
		return err
	}
	var state, why string
	began := time.Now()
	err := w.until(ctx, "the end is in the table", func() error {
		if err := w.portal.conn.QueryRow(ctx, `select state, coalesce(error, '') from skein.jobs where idem_key = $1`, key).Scan(&state, &why); err != nil {
			return err
		}
		if state == "new" || state == "taken" {
			return fmt.Errorf("it is %s", state)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if state != string(job.Completed) {
		return fmt.Errorf("the job is %s in the table: %s", state, why)
	}
	w.s.Say("%.1f s after its end the row says %s", time.Since(began).Seconds(), state)
	return nil
}

// told is what the table says of the job.
type told struct {
	n                   int64
	mean, std, min, max float64
	hash                string // of the result
	sound               bool   // hash is that of the result
	rows, outside       int    // of chunks
	chunks              int64  // samples in the rows of chunks
	damaged             int    // rows of chunks of which the hash is another
}

func (p *portal) read(ctx context.Context, id job.ID) (t told, err error) {
	for _, q := range []struct {
		sql string
		to  []any
	}{
		{`select n::bigint, mean, std, min, max from skein.metrics where job = $1 and metric = 'pi'`, []any{&t.n, &t.mean, &t.std, &t.min, &t.max}},
		{`select encode(result_hash, 'hex'), result_hash = sha256(result::text::bytea) from skein.jobs where job = $1`, []any{&t.hash, &t.sound}},
		{
			`select count(*), count(*) filter (where worker like 'w-%'), coalesce(sum((result->'metrics'->'pi'->>'n')::bigint), 0)::bigint,
			count(*) filter (where result_hash <> sha256(result::text::bytea)) from skein.chunk_results where job = $1`,
			[]any{&t.rows, &t.outside, &t.chunks, &t.damaged},
		},
	} {
		if err := p.conn.QueryRow(ctx, q.sql, string(id)).Scan(q.to...); err != nil {
			return t, fmt.Errorf("read the table: %w", err)
		}
	}
	return t, nil
}
