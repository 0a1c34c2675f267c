package logbench

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

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/bench/testbed"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/record"
)

// Verification reads a whole log: for framing, checksums, hash chain and
// signatures; without signatures on one processor; and with decoding and fold.
// The peer only hashes the same files, in pieces as long as a record.
func Verification(ctx context.Context, s *suite.Suite) error {
	o, err := testbed.LogOptions(filepath.Join(s.Dir, "verify"))
	if err != nil {
		return err
	}
	if err := fill(ctx, o, s.Size.Events); err != nil {
		return err
	}
	verify := audit.VerifyOptions{
		Dir: o.Dir, Cluster: o.Cluster, Self: o.Self,
		KeyOf: func(cluster.NodeID) ed25519.PublicKey { return o.Key.Public().(ed25519.PublicKey) }, //nolint:errcheck // an Ed25519 key's
	}
	quick := verify
	quick.ChainsOnly = true
	row := func(name string, t suite.Target) suite.Series {
		return suite.Series{
			Name: name, Unit: "events/s", Target: t, Digest: suite.Median,
			With: "SHA-256 of the same files in pieces of the records' mean size",
		}
	}
	chain := row("read, check and hash the log", suite.Want("ratio", ">=", 0.8))
	single := row("read, check and hash the log on one processor", suite.Target{})
	whole := row("verify the log, decoded and folded", suite.Want("ours", ">=", 300_000))
	for i := range s.Size.Rounds + 1 {
		s.Progress("verification, round %d of %d", i, s.Size.Rounds)
		began := time.Now()
		r, err := audit.Verify(ctx, verify)
		if err != nil {
			return err
		}
		perSecond := func() float64 { return float64(r.Events) / time.Since(began).Seconds() }
		w := perSecond()
		piece := make([]byte, r.Bytes/int64(r.Events))
		var c, o1, p float64
		err = suite.InTurn(i, func() error {
			began = time.Now()
			_, err := audit.Verify(ctx, quick)
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
			chain.Ours, single.Ours, whole.Ours = append(chain.Ours, c), append(single.Ours, o1), append(whole.Ours, w)
			chain.Peer, single.Peer, whole.Peer = append(chain.Peer, p), append(single.Peer, p), append(whole.Peer, p)
		}
	}
	s.Add(chain)
	s.Add(single)
	s.Add(whole)
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
