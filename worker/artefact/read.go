package artefact

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/skein-project/skein/cluster"
)

// Get reads h, at most limit bytes, from here or else from whoever has it, in the own zone
// first, and verifies it. What comes from another host is not stored here.
func (a *Store) Get(ctx context.Context, h cluster.Hash, limit int64) ([]byte, error) {
	if b, err := a.Read(h, limit); err == nil || !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrCorrupt) {
		return b, err
	}
	errs := []error{fmt.Errorf("get artefact %s: %w", h, ErrNotFound)}
	for _, p := range a.trusted(h, slices.Concat(a.nearest(h, nil), a.opts.Peers())) {
		b, err := a.getFrom(ctx, h, p, limit)
		if err == nil {
			return b, nil
		}
		if errs = append(errs, fmt.Errorf("from %s: %w", p, err)); ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

func (a *Store) getFrom(ctx context.Context, h cluster.Hash, peer cluster.NodeID, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, blobTotal)
	defer cancel()
	conn, reply, err := a.ask(ctx, peer, blobRequest{Op: opGet, Hash: h})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if reply.Size < 0 || reply.Size > limit {
		return nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, reply.Size)
	}
	var buf bytes.Buffer
	_, err = io.CopyN(&buf, bufio.NewReaderSize(pacedReader{conn, blobStep + a.far(peer)}, 64<<10), reply.Size)
	a.m.fetched.Add(float64(buf.Len()))
	switch {
	case err != nil:
		return nil, err
	case sha256.Sum256(buf.Bytes()) != h:
		return nil, ErrCorrupt
	}
	return buf.Bytes(), nil
}

// Stream opens h, which has so many bytes, here, or at the first that has it of a few hosts
// of the own zone, then of those in from, then of all. What is read is verified: instead of its last bytes comes ErrCorrupt,
// and then who has it so is not asked first again. Nothing is stored here. The caller
// closes it.
func (a *Store) Stream(ctx context.Context, h cluster.Hash, size int64, from []cluster.NodeID) (io.ReadCloser, error) {
	for _, s := range []*Store{a, a.opts.Beside} {
		if s == nil {
			continue
		}
		f, n, err := s.Open(h)
		switch {
		case err == nil && n == size:
			return &verified{Digest: cluster.NewDigest(f), want: h, left: size, close: f.Close, bad: func() { _ = s.Verify(h) }}, nil
		case err == nil:
			f.Close()
			_ = s.Verify(h) // drops it
		}
	}
	errs := []error{fmt.Errorf("read artefact %s: %w", h, ErrNotFound)}
	for _, p := range a.trusted(h, slices.Concat(a.nearest(h, from), from, a.opts.Peers())) {
		conn, reply, err := a.ask(ctx, p, blobRequest{Op: opGet, Hash: h})
		switch {
		case err == nil && reply.Size == size:
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			r := bufio.NewReaderSize(pacedReader{conn, blobStep + a.far(p)}, 64<<10)
			return &verified{
				Digest: cluster.NewDigest(r), want: h, left: size, close: func() error { stop(); return conn.Close() },
				bad: func() { a.distrust(lie{p, h}) },
			}, nil
		case err == nil:
			conn.Close()
			err = fmt.Errorf("%w: %d bytes, want %d", ErrCorrupt, reply.Size, size)
		}
		if errs = append(errs, fmt.Errorf("from %s: %w", p, err)); ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// HeldBy reports that all of some hosts have h.
func (a *Store) HeldBy(ctx context.Context, h cluster.Hash, hosts []cluster.NodeID) bool {
	lacks := func(p cluster.NodeID) bool { return a.Ask(ctx, h, p) != Present }
	return len(hosts) > 0 && !slices.ContainsFunc(hosts, lacks)
}

// lie is a host that sent other bytes for a hash.
type lie struct {
	peer cluster.NodeID
	hash cluster.Hash
}

// maxLies bounds those that are remembered.
const maxLies = 1024

func (a *Store) distrust(l lie) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.lies) >= maxLies {
		clear(a.lies)
	}
	a.lies[l] = true
}

// trusted lists hosts, each once, those last that sent other bytes for h before.
func (a *Store) trusted(h cluster.Hash, list []cluster.NodeID) []cluster.NodeID {
	a.mu.Lock()
	defer a.mu.Unlock()
	var good, bad []cluster.NodeID
	for _, p := range list {
		switch {
		case slices.Contains(good, p) || slices.Contains(bad, p):
		case a.lies[lie{p, h}]:
			bad = append(bad, p)
		default:
			good = append(good, p)
		}
	}
	return append(good, bad...)
}

// verified yields left bytes, and ErrCorrupt in place of the last ones if they are not what
// is wanted.
type verified struct {
	*cluster.Digest
	want  cluster.Hash
	left  int64
	close func() error
	bad   func() // hears that they are not
}

// Read implements io.Reader.
func (v *verified) Read(b []byte) (int, error) {
	if v.left == 0 {
		if v.Sum() != v.want {
			return 0, ErrCorrupt
		}
		return 0, io.EOF
	}
	n, err := v.Digest.Read(b[:min(int64(len(b)), v.left)])
	v.left -= int64(n)
	if errors.Is(err, io.EOF) {
		if err = nil; n == 0 && v.left > 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	if v.left == 0 && err == nil && v.Sum() != v.want {
		v.bad()
		return 0, ErrCorrupt // without the last bytes nobody takes it for whole
	}
	return n, err
}

// Close implements io.Closer.
func (v *verified) Close() error { return v.close() }
