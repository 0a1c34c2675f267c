package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog"
	"github.com/skein-project/skein/eventlog/record"
)

// writers is how many goroutines append at once.
const writers = 64

// draft is of an event that takes about 300 bytes on disk.
func draft() []cluster.Draft {
	return []cluster.Draft{{Kind: cluster.KindHostStarted, Body: cluster.HostStarted{Version: strings.Repeat("x", 150)}}}
}

// hammer lets the writers call f for d and returns the calls per second.
func hammer(d time.Duration, f func() error) (float64, error) {
	var n atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, writers) // one slot each: never full
	began := time.Now()
	for range writers {
		wg.Go(func() {
			for time.Since(began) < d {
				if err := f(); err != nil {
					errs <- err
					return
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	select {
	case err := <-errs:
		return 0, err
	default:
		return float64(n.Load()) / took.Seconds(), nil
	}
}

// commits compares what three nodes commit, on the disks of a majority, which
// is one disk here; and with raft's, what one host's log makes durable.
func commits(ctx context.Context, s *suite, ours *trio, peer *raftTrio) error {
	if err := errors.Join(ours.settle(ctx), peer.settle(ctx)); err != nil {
		return err
	}
	holder, leader := ours.holder(), peer.leader()
	if holder == nil || leader == nil {
		return errors.New("no holder or leader to write to")
	}
	o, err := logOptions(filepath.Join(s.dir, "alone"))
	if err != nil {
		return err
	}
	alone, stop, err := runLog(o)
	if err != nil {
		return err
	}
	defer func() { _ = stop() }() // what is measured was durable before
	row := func(name string, t target) series {
		return series{name: name, unit: "commits/s", with: peerRaft, target: t, digest: median}
	}
	three := row("replicated log, 3 nodes, 64 writers, 300 B", target{"ratio", ">=", 1})
	one := row("log of one host beside 3 nodes of raft, 64 writers, 300 B", target{"ratio", ">=", 10})
	command := make([]byte, 300)
	for i := range s.size.rounds + 1 {
		s.progress("commits, round %d of %d", i, s.size.rounds)
		var a, b, c float64
		err := inTurn(i, func() (err error) {
			if a, err = hammer(s.size.burst, func() error { return stable(ctx, holder.log) }); err != nil {
				return err
			}
			b, err = hammer(s.size.burst, func() error {
				_, err := alone.Append(ctx, draft())
				return err
			})
			return err
		}, func() (err error) {
			c, err = hammer(s.size.burst, func() error { return leader.raft.Apply(command, 10*time.Second).Error() })
			return err
		})
		if err != nil {
			return err
		}
		if i > 0 { // the first warms up
			three.ours, three.peer = append(three.ours, a), append(three.peer, c)
			one.ours, one.peer = append(one.ours, b), append(one.peer, c)
		}
	}
	s.add(three)
	s.add(one)
	return nil
}

// stable appends an event and waits until a majority has it.
func stable(ctx context.Context, l *eventlog.Log) error {
	events, err := l.Append(ctx, draft())
	if err != nil {
		return err
	}
	_, err = l.WaitStable(ctx, events[0].Seq)
	return err
}

// logOptions are those of a log that no other host shares.
func logOptions(dir string) (eventlog.Options, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return eventlog.Options{Dir: dir, Cluster: "bench", Self: "host-001", Key: key, PullEvery: -1, Logger: zerolog.Nop()}, err
}

// durableLog compares the event log on one host with a plain file that is
// written in groups, and verification with hashing.
func durableLog(ctx context.Context, s *suite) error {
	o, err := logOptions(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	if err := appends(ctx, s, o); err != nil {
		return err
	}
	o.Dir = filepath.Join(s.dir, "verify")
	return verification(ctx, s, o)
}

// runLog opens a log and runs it until stop is called, which returns how it
// ended.
func runLog(o eventlog.Options) (l *eventlog.Log, stop func() error, err error) {
	if l, err = eventlog.Open(o); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	return l, func() error {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}, nil
}

func appends(ctx context.Context, s *suite, o eventlog.Options) error {
	l, stop, err := runLog(o)
	if err != nil {
		return err
	}
	defer func() { _ = stop() }() // what is measured was durable before
	row := series{
		name: "durable log, 64 writers, 300 B", unit: "events/s", target: target{"ratio", ">=", 0.8}, digest: median,
		with: "plain preallocated file, the same bytes per record, group commit with fdatasync, no hashes",
	}
	recordLen := 0
	for i := range s.size.rounds + 1 {
		var a, b float64
		before, head := l.Size(), l.Head(l.Source()).Seq
		if a, err = hammer(s.size.burst, func() error {
			_, err := l.Append(ctx, draft())
			return err
		}); err != nil {
			return err
		}
		if recordLen == 0 { // heads of the groups included
			recordLen = int(l.Size()-before) / int(l.Head(l.Source()).Seq-head)
		}
		if b, err = plainFile(filepath.Join(s.dir, fmt.Sprint("plain-", i)), recordLen, s.size.burst); err != nil {
			return err
		}
		if i > 0 {
			row.ours, row.peer = append(row.ours, a), append(row.peer, b)
		}
	}
	s.add(row)
	return nil
}

// plainFile appends records from all writers: one goroutine writes what waits
// as one group and syncs it, as the event log does.
func plainFile(path string, recordLen int, d time.Duration) (perSecond float64, err error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(path)) }()
	const step = 4 << 20
	var written, allocated int64
	queue := make(chan chan error, writers) // every writer waits for its answer: never full
	var writer sync.WaitGroup
	writer.Go(func() {
		record := make([]byte, recordLen)
		var group []byte
		for first := range queue {
			waiting := []chan error{first}
			for more := true; more; {
				select {
				case next := <-queue:
					waiting = append(waiting, next)
				default:
					more = false
				}
			}
			group = group[:0]
			for range waiting {
				group = append(group, record...)
			}
			var err error
			if written += int64(len(group)); written > allocated {
				err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, allocated, step)
				allocated += step
			}
			if err == nil {
				_, err = f.Write(group)
			}
			if err == nil {
				err = unix.Fdatasync(int(f.Fd()))
			}
			for _, w := range waiting {
				w <- err
			}
		}
	})
	perSecond, err = hammer(d, func() error {
		answer := make(chan error, 1)
		queue <- answer
		return <-answer
	})
	close(queue)
	writer.Wait()
	return perSecond, err
}

// verification reads a whole log twice: once for framing, checksums and hash
// chain, once with signatures, decoding and fold too. The peer only hashes the
// same files, in pieces as long as a record.
func verification(ctx context.Context, s *suite, o eventlog.Options) error {
	if err := fill(ctx, o, s.size.events); err != nil {
		return err
	}
	row := func(name string, t target) series {
		return series{
			name: name, unit: "events/s", target: t, digest: median,
			with: "SHA-256 of the same files in pieces of the records' mean size",
		}
	}
	chain := row("read, check and hash the log", target{"ratio", ">=", 0.8})
	whole := row("verify the log, decoded and folded", target{"ours", ">=", 300_000})
	for i := range s.size.rounds + 1 {
		began := time.Now()
		r, err := eventlog.Verify(ctx, eventlog.VerifyOptions{
			Dir: o.Dir, Cluster: o.Cluster, Self: o.Self,
			KeyOf: func(cluster.NodeID) ed25519.PublicKey { return o.Key.Public().(ed25519.PublicKey) }, //nolint:errcheck // an Ed25519 key's
		})
		if err != nil {
			return err
		}
		perSecond := func() float64 { return float64(r.Events) / time.Since(began).Seconds() }
		a := perSecond()
		piece := make([]byte, r.Bytes/int64(r.Events))
		var b, c float64
		err = inTurn(i, func() error {
			began = time.Now()
			err := eachFile(o.Dir, hashChain)
			b = perSecond()
			return err
		}, func() error {
			began = time.Now()
			left := r.Bytes // without the space that is allocated and not used
			err := eachFile(o.Dir, func(f io.Reader) error { return hashPieces(f, piece, &left) })
			c = perSecond()
			return err
		})
		if err != nil {
			return err
		}
		if i > 0 {
			whole.ours, whole.peer = append(whole.ours, a), append(whole.peer, c)
			chain.ours, chain.peer = append(chain.ours, b), append(chain.peer, c)
		}
	}
	s.add(chain)
	s.add(whole)
	return nil
}

// fill writes n events.
func fill(ctx context.Context, o eventlog.Options, n int) error {
	l, stop, err := runLog(o)
	if err != nil {
		return err
	}
	var group []cluster.Draft
	for range 1000 {
		group = append(group, draft()...)
	}
	for range n / len(group) {
		if _, err = l.Append(ctx, group); err != nil {
			break
		}
	}
	return errors.Join(err, stop())
}

// eachFile calls do with every segment of a log.
func eachFile(dir string, do func(io.Reader) error) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".seg" {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return do(bufio.NewReaderSize(f, 64<<10)) // as much as the decoder reads ahead
	})
}

// hashChain checks frames and hashes the events of a segment one after the
// other, each with the hash before it.
func hashChain(f io.Reader) error {
	if _, err := io.CopyN(io.Discard, f, int64(len(record.Magic))); err != nil {
		return err
	}
	var last cluster.Hash
	for d := record.NewDecoder(f, int64(len(record.Magic)), 0); ; {
		fr, err := d.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, record.ErrBlank) {
			return nil
		}
		if err != nil {
			return err
		}
		switch fr.Type {
		case record.TypeEvent:
			last = record.HashEvent(last, fr.Payload)
		case record.TypeHeader:
			h, err := record.DecodeHeader(fr.Payload)
			if err != nil {
				return err
			}
			last = h.Prev
		case record.TypeHead:
			h, err := record.DecodeHead(fr.Payload)
			if err != nil {
				return err
			}
			if h.Hash != last {
				return fmt.Errorf("the chain does not match its head at %d", h.Seq)
			}
		}
	}
}

func hashPieces(f io.Reader, piece []byte, left *int64) error {
	for *left > 0 {
		n, err := io.ReadFull(f, piece[:min(*left, int64(len(piece)))])
		sha256.Sum256(piece[:n])
		*left -= int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
