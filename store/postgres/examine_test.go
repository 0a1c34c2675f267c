package postgres

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/internal/advice"
)

// TestExamine: a database that cannot be used is named, with what to do, and nothing there is
// changed.
func TestExamine(t *testing.T) {
	made, later, others, empty := database(t), database(t), database(t), database(t)
	for _, dsn := range []string{made, later, others} {
		if err := opened(t, dsn, "c").migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	d := opened(t, made, "c")
	d.exec(t, `create role reader login`)
	d.exec(t, `create role writer login`)
	d.exec(t, `grant usage on schema skein to reader, writer`)
	d.exec(t, `grant select on all tables in schema skein to reader`)
	d.exec(t, `grant all on all tables in schema skein to writer`)
	opened(t, later, "c").exec(t, `update skein.version set n = 99`)
	if err := opened(t, others, "other").raise(t.Context(), 1, "n1"); err != nil {
		t.Fatal(err)
	}
	as := func(dsn, role string) string { return strings.Replace(dsn, "user=super", "user="+role, 1) }
	dir := t.TempDir()
	for name, c := range map[string]struct{ dsn, want, next string }{
		"fine":           {made, "", ""},
		"empty":          {empty, "", ""},
		"rights alone":   {as(made, "writer"), "", ""},
		"no address":     {"what", "no address", "postgres://"},
		"unreachable":    {"host=/nonexistent user=super dbname=postgres", "/nonexistent", "start it"},
		"no database":    {strings.Replace(empty, "dbname=", "dbname=x", 1), "does not exist", "make the database"},
		"no role":        {as(made, "nobody"), "does not exist", "let the role in"},
		"read only":      {as(made, "reader"), "lacks insert on skein.fence", "own the schema"},
		"may not make":   {as(empty, "reader"), "may not make the schema", "grant create"},
		"another schema": {later, "later release: version 99", "install that release"},
		"another's":      {others, "belongs to the cluster other", "a database of its own"},
		"standby":        {made + " default_transaction_read_only=on", "takes no writes", "primary"},
	} {
		file := filepath.Join(dir, "dsn")
		if err := os.WriteFile(file, []byte(c.dsn+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		says, warned, err := Examine(t.Context(), file, "c")
		if c.want == "" {
			if err != nil || len(warned) > 0 || !strings.HasPrefix(says, "PostgreSQL ") {
				t.Errorf("%s: %q, %v, %v", name, says, warned, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%s: %s", name, says)
			continue
		}
		if what, next := advice.Of(err); !strings.Contains(what, c.want) || !strings.Contains(next, c.next) {
			t.Errorf("%s: %q, and what to do is %q, want %q, %q", name, what, next, c.want, c.next)
		}
	}
	if _, _, err := Examine(t.Context(), filepath.Join(dir, "none"), "c"); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("no file: %v", err)
	}
	if s := opened(t, empty, "c").cell(t, `select to_regnamespace('skein')::text`); s != "null" {
		t.Errorf("it made %s", s)
	}
}

// TestRefused: a wrong password, and a server without TLS, are named with what to do.
func TestRefused(t *testing.T) {
	dsn := database(t)
	d := opened(t, dsn, "c")
	d.exec(t, `create role locked login password 'right'`)
	file := d.cell(t, `select current_setting('hba_file')`)
	was, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	set := func(text []byte) {
		t.Helper()
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
		if err == nil {
			_, err = f.Write(text)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		d.exec(t, `select pg_reload_conf()`)
	}
	set(append([]byte("local all locked scram-sha-256\n"), was...))
	t.Cleanup(func() { _ = os.WriteFile(file, was, 0o600) })
	plain, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plain.Close() })
	go func() {
		for {
			conn, err := plain.Accept()
			if err != nil {
				return
			}
			_, _ = io.CopyN(io.Discard, conn, 8) // it asks for TLS
			_, _ = conn.Write([]byte("N"))
			_ = conn.Close()
		}
	}()
	host, port, err := net.SplitHostPort(plain.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	as := strings.Replace(dsn, "user=super", "user=locked", 1)
	for name, c := range map[string]struct{ dsn, want, next string }{
		"another password": {as + " password=wrong", "password authentication failed", "put the role's password into the file"},
		"none":             {as, "", "put the role's password into the file"},
		"no TLS there":     {"host=" + host + " port=" + port + " user=super dbname=postgres sslmode=require", "refused TLS", "it does not speak TLS"},
	} {
		path := filepath.Join(t.TempDir(), "dsn")
		if err := os.WriteFile(path, []byte(c.dsn+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var says string
		err := error(nil)
		for end := time.Now().Add(20 * time.Second); err == nil && time.Now().Before(end); { // the server reads its file in its time
			says, _, err = Examine(t.Context(), path, "c")
		}
		if err == nil {
			t.Errorf("%s: %s", name, says)
		} else if what, next := advice.Of(err); !strings.Contains(what, c.want) || !strings.Contains(next, c.next) {
			t.Errorf("%s: %q, and what to do is %q, want %q, %q", name, what, next, c.want, c.next)
		}
	}
	path := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(path, []byte(as+" password=right\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Examine(t.Context(), path, "c"); err == nil || !strings.Contains(err.Error(), "may not make the schema") {
		t.Errorf("the right password: %v", err)
	}
}
