package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skein-project/skein/internal/advice"
)

const examineTime = 2500 * time.Millisecond

func laterSchema(has, knows int) error {
	return advice.New(fmt.Sprintf("its schema is of a later release: version %d, this one knows %d", has, knows), "install that release here")
}

func othersDatabase(other, own string) error {
	return advice.New(fmt.Sprintf("it belongs to the cluster %.64s, this one is %s", other, own), "each cluster needs a database of its own")
}

// said adds to what a server said, or why none did, what to do about it.
func said(err error) error {
	if _, advised := errors.AsType[*advice.Error](err); advised || err == nil {
		return err
	}
	if p, ok := errors.AsType[*pgconn.PgError](err); ok {
		next := map[string]string{
			"28P01": "put the role's password into the file",
			"28000": "let the role in from this host: pg_hba.conf of the server",
			"3D000": "make the database, or name it in the file",
			"42501": "let the role own the database, or what is in its schema skein: docs/scale-out.md",
			"25006": "it takes no writes, as a standby: name the primary",
			"53300": "it has no connection left: raise max_connections",
			"57P03": "it is starting: wait",
		}[p.Code]
		if next == "" {
			return err
		}
		return &advice.Error{Err: err, Next: next}
	}
	next := "start it, or name one that this host reaches"
	switch text := err.Error(); {
	case strings.Contains(text, "x509"):
		next = "sslrootcert must be who signed its certificate, which must name the host"
	case strings.Contains(text, "server refused TLS"):
		next = "it does not speak TLS: give it a certificate, or on a private network set sslmode=disable"
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); !ok {
		return err
	}
	return &advice.Error{Err: err, Next: next}
}

// Examine looks at the database that a file names as a holder of a cluster would: what it is,
// what about it is not as it should be, or why it cannot be used. What to do about each is an
// advice.Error. It changes nothing there.
func Examine(ctx context.Context, dsnFile, cluster string) (what string, warned []error, err error) {
	ctx, cancel := context.WithTimeout(ctx, examineTime)
	defer cancel()
	dsn, err := dsnOf(dsnFile)
	if err != nil {
		return "", nil, err
	}
	d, err := open(ctx, dsn, cluster)
	if err != nil {
		return "", nil, err
	}
	defer d.close()
	conn, err := pgx.ConnectConfig(ctx, d.config.Copy())
	if err != nil {
		return "", nil, said(err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	what, warned, err = examine(ctx, conn, cluster)
	return what, warned, said(err)
}

func examine(ctx context.Context, conn *pgx.Conn, cluster string) (what string, warned []error, err error) {
	files, err := schema.ReadDir("schema")
	if err != nil {
		return "", nil, err
	}
	var version, database, role string
	var there, mayMake, readOnly bool
	if err := conn.QueryRow(ctx, `select current_setting('server_version'), current_database()::text, current_user::text, to_regclass('skein.version') is not null,
		has_database_privilege(current_database(), 'create') or coalesce(has_schema_privilege(to_regnamespace('skein')::oid, 'create'), false),
		current_setting('transaction_read_only')::bool`).Scan(&version, &database, &role, &there, &mayMake, &readOnly); err != nil {
		return "", nil, err
	}
	what = fmt.Sprintf("PostgreSQL %.20s, database %s", version, database)
	switch {
	case readOnly:
		return "", nil, advice.New("the database "+database+" takes no writes", "it may be a standby: name the primary")
	case !there && !mayMake:
		return "", nil, advice.New(fmt.Sprintf("role %s may not make the schema skein in database %s", role, database), fmt.Sprintf("`grant create on database %s to %s`, or let the role own it", database, role))
	case !there:
		return what + ": the holder makes the schema", nil, nil
	}
	var n int
	if err := conn.QueryRow(ctx, `select n from skein.version`).Scan(&n); err != nil {
		return "", nil, err
	}
	if n > len(files) {
		return "", nil, laterSchema(n, len(files))
	}
	if n < len(files) && !mayMake {
		return "", nil, advice.New(fmt.Sprintf("its schema is of an earlier release, and role %s may not change it", role), "let the role own the schema skein: docs/scale-out.md")
	}
	var lacks []string
	for _, needs := range []string{
		"select on skein.fence", "insert on skein.fence", "update on skein.fence", "select on skein.jobs", "insert on skein.jobs", "update on skein.jobs",
		"select on skein.chunk_results", "insert on skein.chunk_results",
	} {
		right, table, _ := strings.Cut(needs, " on ")
		var has bool
		if err := conn.QueryRow(ctx, `select coalesce(has_table_privilege(to_regclass($1)::oid, $2), true)`, table, right).Scan(&has); err != nil {
			return "", nil, err
		}
		if !has {
			lacks = append(lacks, needs)
		}
	}
	if len(lacks) > 0 {
		return "", nil, advice.New(fmt.Sprintf("role %s lacks %s", role, strings.Join(lacks, ", ")), "let the role own the schema skein: docs/scale-out.md")
	}
	var other string
	err = conn.QueryRow(ctx, `select cluster from skein.fence where cluster <> $1 limit 1`, cluster).Scan(&other)
	if err == nil && cluster != "" {
		return "", nil, othersDatabase(other, cluster)
	}
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", nil, err
	}
	return fmt.Sprintf("%s, schema %d of %d", what, n, len(files)), nil, nil
}
