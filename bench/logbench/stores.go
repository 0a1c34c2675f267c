package logbench

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // registers the driver

	"github.com/skein-project/skein/bench/testbed"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog"
)

// store makes records durable. put returns when the record is; any number of
// writers may call it at once.
type store interface {
	put(ctx context.Context, record []byte) error
	close() error
}

// logStore is skein's event log, which makes its own bytes of a draft.
type logStore struct {
	log   *eventlog.Log
	stop  func() error
	draft []event.Draft
}

func openLog(dir string) (store, error) {
	o, err := testbed.LogOptions(dir)
	if err != nil {
		return nil, err
	}
	l, stop, err := testbed.RunLog(o)
	if err != nil {
		return nil, err
	}
	if _, err := l.Append(context.Background(), testbed.Submission(1)); err != nil {
		return nil, errors.Join(err, stop())
	}
	return &logStore{log: l, stop: stop, draft: testbed.Draft(1)}, nil
}

func (s *logStore) put(ctx context.Context, _ []byte) error {
	_, err := s.log.Append(ctx, s.draft)
	return err
}

func (s *logStore) close() error { return s.stop() }

// perEvent is how many bytes an event took on disk, heads of groups included.
func (s *logStore) perEvent() int {
	return int(s.log.Size()) / int(max(1, s.log.Head(s.log.Source()).Seq))
}

// grouped puts one goroutine before a store that takes one writer at a time:
// it commits everything that waits at once, as the event log does.
type grouped struct {
	commit func(group [][]byte) error
	end    func() error
	queue  chan waiting // every writer waits for its answer: never full
	writer sync.WaitGroup
}

type waiting struct {
	record []byte
	answer chan error
}

func newGrouped(commit func([][]byte) error, end func() error) *grouped {
	g := &grouped{commit: commit, end: end, queue: make(chan waiting, mostWriters)}
	g.writer.Go(g.run)
	return g
}

func (g *grouped) run() {
	var waits []waiting
	var group [][]byte
	for first := range g.queue {
		waits = append(waits[:0], first)
		for more := true; more; {
			select {
			case w, ok := <-g.queue:
				if more = ok; ok {
					waits = append(waits, w)
				}
			default:
				more = false
			}
		}
		group = group[:0]
		for _, w := range waits {
			group = append(group, w.record)
		}
		err := g.commit(group)
		for _, w := range waits {
			w.answer <- err
		}
	}
}

// answers are the channels on which writers wait.
var answers = sync.Pool{New: func() any { return make(chan error, 1) }}

func (g *grouped) put(_ context.Context, record []byte) error {
	answer := answers.Get().(chan error) //nolint:errcheck // the pool holds nothing else
	g.queue <- waiting{record, answer}
	err := <-answer
	answers.Put(answer)
	return err
}

func (g *grouped) close() error {
	close(g.queue)
	g.writer.Wait()
	return g.end()
}

// openFile is a plain file, preallocated in steps, written a group at a time.
func openFile(dir string) (store, error) {
	f, err := os.Create(filepath.Join(dir, "plain"))
	if err != nil {
		return nil, err
	}
	const step = 4 << 20
	var written, allocated int64
	var buf []byte
	return newGrouped(func(group [][]byte) error {
		buf = buf[:0]
		for _, r := range group {
			buf = append(buf, r...)
		}
		if end := written + int64(len(buf)); end > allocated {
			// Writes past the end of the file would have its length journaled.
			if err := unix.Fallocate(int(f.Fd()), 0, allocated, max(step, end-allocated)); err != nil {
				return err
			}
			allocated = max(allocated+step, end)
		}
		n, err := f.WriteAt(buf, written)
		written += int64(n)
		if err != nil {
			return err
		}
		return unix.Fdatasync(int(f.Fd()))
	}, f.Close), nil
}

var bucket = []byte("log")

func openBolt(dir string) (*bbolt.DB, error) {
	db, err := bbolt.Open(filepath.Join(dir, "bolt"), 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		return nil, err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(bucket)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func boltPut(db *bbolt.DB, group ...[]byte) error {
	return db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucket)
		b.FillPercent = 0.9 // keys rise
		for _, r := range group {
			seq, err := b.NextSequence()
			if err != nil {
				return err
			}
			if err := b.Put(binary.BigEndian.AppendUint64(nil, seq), r); err != nil {
				return err
			}
		}
		return nil
	})
}

func openBoltGrouped(dir string) (store, error) {
	db, err := openBolt(dir)
	if err != nil {
		return nil, err
	}
	return newGrouped(func(group [][]byte) error { return boltPut(db, group...) }, db.Close), nil
}

// boltEach is bbolt with a transaction per event.
type boltEach struct{ db *bbolt.DB }

func openBoltEach(dir string) (store, error) {
	db, err := openBolt(dir)
	return boltEach{db}, err
}

func (s boltEach) put(_ context.Context, record []byte) error { return boltPut(s.db, record) }
func (s boltEach) close() error                               { return s.db.Close() }

// pebbleStore is pebble, which groups the commits of its writers itself.
type pebbleStore struct {
	db  *pebble.DB
	seq atomic.Uint64
}

func openPebble(dir string) (store, error) {
	db, err := pebble.Open(filepath.Join(dir, "pebble"), &pebble.Options{
		Logger:       quiet{},
		MemTableSize: 64 << 20, // so that a burst is not slowed by flushes
	})
	if err != nil {
		return nil, err
	}
	return &pebbleStore{db: db}, nil
}

func (s *pebbleStore) put(_ context.Context, record []byte) error {
	return s.db.Set(binary.BigEndian.AppendUint64(nil, s.seq.Add(1)), record, pebble.Sync)
}

func (s *pebbleStore) close() error { return s.db.Close() }

// quiet drops what pebble has to say, and ends the process as its own logger
// does.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic("bench: pebble: " + fmt.Sprintf(format, args...))
}

// openSQLite is SQLite with a write-ahead log, a transaction per group.
func openSQLite(dir string) (store, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "sqlite")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE TABLE log (seq INTEGER PRIMARY KEY, record BLOB NOT NULL)"); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	insert, err := db.Prepare("INSERT INTO log (record) VALUES (?)")
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return newGrouped(func(group [][]byte) error {
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		in := tx.Stmt(insert)
		for _, r := range group {
			if _, err := in.Exec(r); err != nil {
				return errors.Join(err, tx.Rollback())
			}
		}
		return tx.Commit()
	}, func() error { return errors.Join(insert.Close(), db.Close()) }), nil
}

// raftStore is a cluster of raft nodes that lives on when the store closes.
type raftStore struct{ leader *testbed.RaftNode }

func (s raftStore) put(_ context.Context, record []byte) error {
	return s.leader.Raft.Apply(record, 10*time.Second).Error()
}

func (s raftStore) close() error { return nil }
