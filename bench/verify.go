package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog"
	"github.com/skein-project/skein/eventlog/record"
)

// verification reads a whole log: for framing, checksums, hash chain and
// signatures; without signatures on one processor; and with decoding and fold.
// The peer only hashes the same files, in pieces as long as a record.
func verification(ctx context.Context, s *suite) error {
	o, err := logOptions(filepath.Join(s.dir, "verify"))
	if err != nil {
		return err
	}
	if err := fill(ctx, o, s.size.events); err != nil {
		return err
	}
	verify := eventlog.VerifyOptions{
		Dir: o.Dir, Cluster: o.Cluster, Self: o.Self,
		KeyOf: func(cluster.NodeID) ed25519.PublicKey { return o.Key.Public().(ed25519.PublicKey) }, //nolint:errcheck // an Ed25519 key's
	}
	quick := verify
	quick.ChainsOnly = true
	row := func(name string, t target) series {
		return series{
			name: name, unit: "events/s", target: t, digest: median,
			with: "SHA-256 of the same files in pieces of the records' mean size",
		}
	}
	chain := row("read, check and hash the log", target{"ratio", ">=", 0.8})
	single := row("read, check and hash the log on one processor", target{})
	whole := row("verify the log, decoded and folded", target{"ours", ">=", 300_000})
	for i := range s.size.rounds + 1 {
		s.progress("verification, round %d of %d", i, s.size.rounds)
		began := time.Now()
		r, err := eventlog.Verify(ctx, verify)
		if err != nil {
			return err
		}
		perSecond := func() float64 { return float64(r.Events) / time.Since(began).Seconds() }
		w := perSecond()
		piece := make([]byte, r.Bytes/int64(r.Events))
		var c, o1, p float64
		err = inTurn(i, func() error {
			began = time.Now()
			_, err := eventlog.Verify(ctx, quick)
			c = perSecond()
			if err != nil {
				return err
			}
			began = time.Now()
			err = eachFile(verify.Dir, hashChain)
			o1 = perSecond()
			return err
		}, func() error {
			began = time.Now()
			left := r.Bytes // without the space that is allocated and not used
			err := eachFile(verify.Dir, func(f io.Reader) error { return hashPieces(f, piece, &left) })
			p = perSecond()
			return err
		})
		if err != nil {
			return err
		}
		if i > 0 { // the first warms up
			chain.ours, single.ours, whole.ours = append(chain.ours, c), append(single.ours, o1), append(whole.ours, w)
			chain.peer, single.peer, whole.peer = append(chain.peer, p), append(single.peer, p), append(whole.peer, p)
		}
	}
	s.add(chain)
	s.add(single)
	s.add(whole)
	return nil
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
