package postgres

import (
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/advice"
)

// Bounds of what is asked of the database.
const (
	connectTime = 5 * time.Second
	askTime     = 15 * time.Second // a statement, and the wait for its answer
	maxDSN      = 4 << 10          // bytes of the file
	maxSpec     = 64 << 10         // bytes of a job's spec
	maxError    = 1 << 10          // bytes that are written of one
	atOnce      = 256              // rows of one statement
)

// errStale says that another holder has raised the fence.
var errStale = errors.New("a later holder writes to the database")

//go:embed schema/*.sql
var schema embed.FS

// db is the database, as one cluster.
type db struct {
	pool    *pgxpool.Pool
	config  *pgx.ConnConfig
	cluster string
}

// dsnOf reads how to connect from a file, which may say it with a trailing newline.
func dsnOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", &advice.Error{Err: err, Next: "put there one line that says how to connect, which the daemon's user may read"}
	}
	defer func() { _ = f.Close() }()
	text := make([]byte, maxDSN+1)
	n, err := f.Read(text)
	if err != nil || n > maxDSN {
		return "", fmt.Errorf("%s: want one line of at most %d bytes: %w", file, maxDSN, errors.Join(err))
	}
	return strings.TrimSpace(string(text[:n])), nil
}

// open connects lazily.
func open(ctx context.Context, dsn, cluster string) (*db, error) {
	c, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, advice.New("it is no address of a database", "want postgres://USER@HOST/DATABASE, or key=value words") // pgx's words could show a password
	}
	c.MaxConns, c.MaxConnIdleTime = 2, time.Minute
	c.ConnConfig.ConnectTimeout = connectTime
	p := c.ConnConfig.RuntimeParams
	p["application_name"], p["statement_timeout"], p["lock_timeout"] = "skein", "10s", "5s"
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	return &db{pool: pool, config: c.ConnConfig, cluster: cluster}, nil
}

func (d *db) close() { d.pool.Close() }

// migrate brings the schema to this release's. Two hosts may do it at once.
func (d *db) migrate(ctx context.Context) error {
	files, err := schema.ReadDir("schema")
	if err != nil {
		return err
	}
	var n int
	err = d.pool.QueryRow(ctx, `select case when to_regclass('skein.version') is null then 0 else -1 end`).Scan(&n)
	if err == nil && n < 0 {
		err = d.pool.QueryRow(ctx, `select n from skein.version`).Scan(&n)
	}
	switch {
	case err != nil:
		return err
	case n > len(files):
		return laterSchema(n, len(files))
	case n == len(files):
		return nil
	}
	return pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock(hashtext('skein.version'))`); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `create schema if not exists skein;
			create table if not exists skein.version (one boolean primary key default true check (one), n int not null);
			insert into skein.version (n) values (0) on conflict do nothing`); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, `select n from skein.version`).Scan(&n); err != nil {
			return err
		}
		for ; n < len(files); n++ {
			text, err := schema.ReadFile("schema/" + files[n].Name())
			if err == nil {
				_, err = tx.Exec(ctx, string(text))
			}
			if err != nil {
				return fmt.Errorf("%s: %w", files[n].Name(), err)
			}
		}
		_, err := tx.Exec(ctx, `update skein.version set n = $1`, n)
		return err
	})
}

// raise has the database refuse writes of earlier terms.
func (d *db) raise(ctx context.Context, term cluster.Term, holder cluster.NodeID) error {
	_, err := d.pool.Exec(ctx, `insert into skein.fence (cluster, term, holder) values ($1, $2, $3)
		on conflict (cluster) do update set term = excluded.term, holder = excluded.holder, raised_at = now()
		where skein.fence.term < excluded.term`, d.cluster, int64(term), string(holder))
	if err != nil {
		return err
	}
	var other string
	err = d.pool.QueryRow(ctx, `select cluster from skein.fence where cluster <> $1 limit 1`, d.cluster).Scan(&other)
	if err == nil {
		return othersDatabase(other, d.cluster)
	} else if !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	return d.current(ctx, term, holder)
}

// current says whether the fence is still that of a holder.
func (d *db) current(ctx context.Context, term cluster.Term, holder cluster.NodeID) error {
	var ok bool
	err := d.pool.QueryRow(ctx, `select term = $2 and holder = $3 from skein.fence where cluster = $1`, d.cluster, int64(term), string(holder)).Scan(&ok)
	if err == nil && !ok {
		return errStale
	}
	return err
}

// row is a job that somebody wants.
type row struct {
	id, owner, key, spec string
}

// fresh are the oldest jobs that nobody has taken.
func (d *db) fresh(ctx context.Context) ([]row, error) {
	rows, err := d.pool.Query(ctx, `select id::text, left(owner, 129), left(idem_key, 129), left(spec::text, $1) from skein.jobs
		where state = 'new' order by created_at, id limit $2`, maxSpec+1, atOnce)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (x row, err error) {
		return x, r.Scan(&x.id, &x.owner, &x.key, &x.spec)
	})
}

// mark says what became of a job that was new, in one statement with the check of the
// fence. That it is not new any more is fine: another term of this cluster did it.
func (d *db) mark(ctx context.Context, term cluster.Term, id, state string, j job.ID, why string) error {
	_, err := d.pool.Exec(ctx, `with f as (select from skein.fence where cluster = $1 and term = $2 for share)
		update skein.jobs set state = $4, job = nullif($5, ''), error = nullif($6, ''), term = $2 from f where id = $3::uuid and state = 'new'`,
		d.cluster, int64(term), id, state, string(j), bounded(why))
	return err
}

// bounded cuts a text for people, whole characters only.
func bounded(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxError)], "") }

// ended is a job that is over.
type ended struct {
	job    job.ID
	owner  string
	key    string
	of     job.Spec
	spec   []byte // of it, JSON
	state  job.State
	result []byte // JSON
	why    string
	// accepted is of how many chunks a result counted.
	accepted int
	began    time.Time
	done     time.Time
}

func (e ended) hash() [32]byte { return sha256.Sum256(e.result) }

// missing are those of the jobs whose end the table does not have.
func (d *db) missing(ctx context.Context, ids []job.ID) (map[job.ID]bool, error) {
	out := make(map[job.ID]bool, len(ids))
	for _, id := range ids {
		out[id] = true
	}
	rows, err := d.pool.Query(ctx, `select job from skein.jobs where job = any($1) and result_hash is not null`, ids)
	if err != nil {
		return nil, err
	}
	have, err := pgx.CollectRows(rows, pgx.RowTo[job.ID])
	for _, id := range have {
		delete(out, id)
	}
	return out, err
}

// put writes how jobs ended, in one statement with the check of the fence. What is there
// stays.
func (d *db) put(ctx context.Context, term cluster.Term, list []ended) error {
	batch := &pgx.Batch{}
	for _, e := range list {
		hash := e.hash()
		batch.Queue(`with f as (select from skein.fence where cluster = $1 and term = $2 for share)
			insert into skein.jobs as j (owner, idem_key, spec, state, job, result, result_hash, error, term, created_at, done_at)
			select $3, $4, $5::jsonb, $6, $7, $8::json, $9, nullif($10, ''), $2, $11, $12 from f
			on conflict (owner, idem_key) do update set state = excluded.state, job = excluded.job, result = excluded.result,
				result_hash = excluded.result_hash, error = excluded.error, term = excluded.term, done_at = excluded.done_at
			where j.result_hash is null`,
			d.cluster, int64(term), e.owner, e.key, string(e.spec), string(e.state), string(e.job), string(e.result), hash[:], bounded(e.why), e.began, e.done)
	}
	return d.pool.SendBatch(ctx, batch).Close()
}

// putChunks writes results of chunks of a job, in one statement with the check of the
// fence, and says how many. What is there stays.
func (d *db) putChunks(ctx context.Context, term cluster.Term, id job.ID, c chunks) (int, error) {
	done, err := d.pool.Exec(ctx, `with f as (select from skein.fence where cluster = $1 and term = $2 for share)
		insert into skein.chunk_results (job, term, chunk, result, result_hash, worker, attempt, seconds, accepted_at)
		select $3, $2, u.chunk, u.result::json, u.hash, u.worker, u.attempt, u.seconds, u.accepted from f, unnest(
			$4::int[], $5::text[], $6::bytea[], $7::text[], $8::int[], $9::float8[], $10::timestamptz[]
		) as u (chunk, result, hash, worker, attempt, seconds, accepted) on conflict do nothing`,
		d.cluster, int64(term), string(id), c.chunk, c.result, c.hash, c.worker, c.attempt, c.seconds, c.accepted)
	return int(done.RowsAffected()), err
}

// compareChunks counts the results of chunks that the table lacks, and those of which it
// has others.
func (d *db) compareChunks(ctx context.Context, id job.ID, c chunks) (missing, differ int, err error) {
	err = d.pool.QueryRow(ctx, `select count(*) filter (where r.result_hash is null), count(*) filter (where r.result_hash <> u.hash)
		from unnest($2::int[], $3::bytea[]) as u (chunk, hash) left join skein.chunk_results r on r.job = $1 and r.chunk = u.chunk`,
		string(id), c.chunk, c.hash).Scan(&missing, &differ)
	return missing, differ, err
}

// stored are the hashes of the results that the table has of the jobs.
func (d *db) stored(ctx context.Context, ids []job.ID) (map[job.ID][32]byte, error) {
	rows, err := d.pool.Query(ctx, `select job, result_hash from skein.jobs where job = any($1) and result_hash is not null`, ids)
	if err != nil {
		return nil, err
	}
	out := make(map[job.ID][32]byte, len(ids))
	var id job.ID
	var hash []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &hash}, func() error {
		if len(hash) != sha256.Size {
			return fmt.Errorf("the hash of job %s has %d bytes", id, len(hash))
		}
		out[id] = [32]byte(hash)
		return nil
	})
	return out, err
}

// listen calls wake whenever a job came, until ctx ends or the connection does.
func (d *db) listen(ctx context.Context, wake func()) error {
	conn, err := pgx.ConnectConfig(ctx, d.config.Copy())
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if _, err := conn.Exec(ctx, "listen skein_jobs"); err != nil {
		return err
	}
	for wake(); ; wake() { // what came before it listened was not heard
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
	}
}

// refusedForGood says that the database refuses what it was told, and will again.
func refusedForGood(err error) (string, bool) {
	p, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || !strings.HasPrefix(p.Code, "22") && !strings.HasPrefix(p.Code, "23") { // data exception, integrity
		return "", false
	}
	return p.Message, true
}
